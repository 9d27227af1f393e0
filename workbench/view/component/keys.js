// @ts-check
// The keyboard: all keys in one table, which is also what the help shows.

import { goToChange } from "./changes.js";
import { focusedIn, setText } from "./dom.js";
import { isFrame } from "./scene.js";
import { alongEdge, inOrder, nearestToMiddle } from "./navigation.js";
import { toggleGroup } from "./opening.js";

/** @import { Key, View } from "./types.js" */

const PAN = 80; // px for each press
const ZOOM = 1.25;

/** [keys, what they do in words, the action]; keys are written as `combinationOf` writes them. */
export const KEYS = /** @type {Key[]} */ ([
  [["ArrowUp"], "previous step (pass)", (view) => view.tick((clock) => clock.moveStep(-1))],
  [["ArrowDown"], "next step (pass)", (view) => view.tick((clock) => clock.moveStep(1))],
  [["ArrowLeft"], "one rewrite back", (view) => view.tick((clock) => clock.move(-1))],
  [["ArrowRight"], "one rewrite forward", (view) => view.tick((clock) => clock.move(1))],
  [["Home"], "first moment of the step", (view) => view.tick((clock) => clock.goToMoment(clock.first))],
  [["End"], "last moment of the step", (view) => view.tick((clock) => clock.goToMoment(clock.last))],
  [["p"], "play, pause", (view) => view.playbar.togglePlaying()],
  [["t"], "text of this rewrite", (view) => view.playbar.toggleText()],
  [["w"], "compare: this rewrite, whole step", (view) => view.setCompare(view.clock.compare === "step" ? "rewrite" : "step")],
  [["c"], "next change", (view) => goToChange(view, 1)],
  [["C"], "previous change", (view) => goToChange(view, -1)],
  [["/", "Ctrl+f"], "find", (view) => view.search.focus()],
  [["Alt+ArrowDown"], "select the consumer", (view) => walk(view, (box) => alongEdge(view, box, 1))],
  [["Alt+ArrowUp"], "select the producer", (view) => walk(view, (box) => alongEdge(view, box, -1))],
  [["n", "Alt+ArrowRight"], "select the next box", (view) => walk(view, (box) => inOrder(view, box, 1))],
  [["N", "Alt+ArrowLeft"], "select the previous box", (view) => walk(view, (box) => inOrder(view, box, -1))],
  [["u"], "select the group round the box", (view) => walk(view, (box) => view.scene.boxes[box].up ?? -1)],
  [["Enter"], "open or close the selected group", (view) => toggleGroup(view, view.selectedBox, false)],
  [["Alt+Enter"], "the same with all below", (view) => toggleGroup(view, view.selectedBox, true)],
  [["k"], "focus: all, 1, 2, 3 hops round the selected box", (view) => view.setHops((view.hops + 1) % 4)],
  [["i"], "inspector", (view) => view.toggleInspector()],
  [["2"], "one pane, two panes", (view) => view.setPanes(3 - view.panes)],
  [["Space"], "show the whole graph", (view) => view.fit()],
  [["+", "="], "zoom in", (view) => view.zoomBy(ZOOM)],
  [["-"], "zoom out", (view) => view.zoomBy(1 / ZOOM)],
  [["Shift+ArrowUp"], "move the picture up", (view) => pan(view, 0, PAN)],
  [["Shift+ArrowDown"], "move the picture down", (view) => pan(view, 0, -PAN)],
  [["Shift+ArrowLeft"], "move the picture left", (view) => pan(view, PAN, 0)],
  [["Shift+ArrowRight"], "move the picture right", (view) => pan(view, -PAN, 0)],
  [["Escape"], "leave a field, then clear the selection", (view) => leave(view)],
  [["?"], "these keys", (view) => view.help.toggle()],
]);

const actions = new Map(KEYS.flatMap(([keys, , action]) => keys.map((key) => /** @type {const} */ ([key, action]))));
const TAKES_KEYS = "input:not([type=checkbox]), textarea, select, [contenteditable=true], [role=radio], [role=tab], [role=slider], [role=option], [role=combobox]";
const HOLDS_KEYS = "[role=dialog], [role=listbox], [role=menu], [data-testid=stDataFrame]"; // what is in them takes keys

/** A key with its modifiers: "Alt+Enter", "Shift+ArrowUp", "c", "C". Shift counts only where it makes no other letter.
 * @param {KeyboardEvent} event */
function combinationOf(event) {
  const key = event.key === " " ? "Space" : event.key;
  const parts = [];
  if (event.ctrlKey || event.metaKey) parts.push("Ctrl");
  if (event.altKey) parts.push("Alt");
  if (event.shiftKey && key.length > 1) parts.push("Shift");
  return [...parts, key].join("+");
}

const listening = /** @type {View[]} */ ([]); // the views of the page, the oldest first
const OUTSIDE = ["Space", "Enter", "Escape", "Alt+Enter"]; // keys that the page keeps where a view has no focus

/** Keys on the view, and those that nothing else on the page needs: no click on the picture comes first. @param {View} view */
export function listenToKeys(view) {
  view.root.addEventListener("keydown", (event) => press(view, event, combinationOf(event)));
  if (!listening.length) window.addEventListener("keydown", pressOutside, true);
  listening.push(view);
}

/** @param {View} view */
export function ignoreKeys(view) {
  listening.splice(listening.indexOf(view), 1);
  if (!listening.length) window.removeEventListener("keydown", pressOutside, true);
}

/** @param {KeyboardEvent} event */
function pressOutside(event) {
  const combination = combinationOf(event);
  if (OUTSIDE.includes(combination) || combination.startsWith("Ctrl") || isNeeded(event)) return;
  const view = listening.find(({ root, scene }) => scene?.T > 0 && isInSight(root)); // keys of a still picture scroll the page
  if (view) press(view, event, combination);
}

/** @param {View} view @param {KeyboardEvent} event @param {string} combination */
function press(view, event, combination) {
  const action = actions.get(combination);
  if (!action || !view.scene || event.defaultPrevented || keeps(event.composedPath()[0], combination)) return;
  event.preventDefault();
  event.stopPropagation();
  action(view);
}

/** Is the key for what has the focus: a view, which hears it itself, or a control that takes keys? @param {KeyboardEvent} event */
function isNeeded(event) {
  const [target, ...around] = /** @type {any[]} */ (event.composedPath());
  if (around.some((one) => listening.some(({ root }) => one === root))) return true;
  return target.matches?.(TAKES_KEYS) || around.some((one) => one.matches?.(HOLDS_KEYS));
}

/** Whether half of it is on the screen. @param {HTMLElement} root */
function isInSight(root) {
  const { top, bottom, height } = root.getBoundingClientRect();
  return height > 0 && Math.min(bottom, window.innerHeight) - Math.max(top, 0) > height / 2;
}

/** Keys that the focused control needs itself. @param {any} target @param {string} combination */
function keeps(target, combination) {
  if (combination === "Escape" || combination === "Ctrl+f") return false;
  const tag = target.tagName;
  if (target.type === "checkbox") return combination === "Space";
  if (tag === "SELECT" || (tag === "INPUT" && target.type !== "range")) return true;
  if (tag === "INPUT") return ["ArrowLeft", "ArrowRight", "Home", "End"].includes(combination);
  return (tag === "BUTTON" || tag === "SUMMARY") && (combination === "Enter" || combination === "Space");
}

/** @param {View} view @param {(box: number) => number} next */
function walk(view, next) {
  const to = view.selectedBox < 0 ? nearestToMiddle(view) : next(view.selectedBox);
  if (to < 0) {
    view.say("Nothing further in that direction");
    return;
  }
  const box = view.scene.boxes[to];
  view.select(box.id, { late: true });
  setText(view.live, `${view.scene.nameOf(to)}${box.kind === "group" ? (isFrame(box) ? ", open group" : ", closed group") : ""}`);
}

/** @param {View} view @param {number} dx @param {number} dy */
function pan(view, dx, dy) {
  view.stage.camera.pan(dx, dy);
  view.stage.request();
}

/** @param {View} view */
function leave(view) {
  if (view.inspector.drawing.close() || view.help.close()) return;
  if (focusedIn(view.root) !== view.stage.canvas) view.stage.focus();
  else view.select("");
}
