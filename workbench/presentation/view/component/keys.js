// @ts-check
// The keyboard: one table of all keys, which the help shows too.

import { goToChange } from "./changes.js";
import { focusedIn } from "./dom.js";
import { isFrame } from "./scene.js";
import { alongEdge, inOrder, nearestToMiddle } from "./navigation.js";

/** @import { Key, View } from "./types.js" */

const PAN = 80; // px for each press
const ZOOM = 1.25;
const PALETTE = "Ctrl+k"; // acts wherever the focus is

/** [keys, their text in the help, the action]; keys have the form of `combinationOf`. */
export const KEYS = /** @type {Key[]} */ ([
  [["ArrowUp"], "previous step (pass)", (view) => view.tick((clock) => clock.moveStep(-1))],
  [["ArrowDown"], "next step (pass)", (view) => view.tick((clock) => clock.moveStep(1))],
  [["ArrowLeft"], "one rewrite back", (view) => view.tick((clock) => clock.move(-1))],
  [["ArrowRight"], "one rewrite forward", (view) => view.tick((clock) => clock.move(1))],
  [["Home"], "first moment of the step", (view) => view.tick((clock) => clock.goToMoment(clock.first))],
  [["End"], "last moment of the step", (view) => view.tick((clock) => clock.goToMoment(clock.last))],
  [["P"], "play, pause", (view) => view.playbar.togglePlaying()],
  [["t"], "text of this rewrite", (view) => view.playbar.toggleText()],
  [["w"], "compare: this rewrite, whole step", (view) => view.setCompare(view.clock.compare === "step" ? "rewrite" : "step")],
  [["c"], "next change", (view) => goToChange(view, 1)],
  [["C"], "previous change", (view) => goToChange(view, -1)],
  [["/", "Ctrl+f"], "find", (view) => view.search.focus()],
  [[PALETTE], "passes, changes, goals, nodes, actions and pages in one list", (view) => view.palette.open()],
  [["Alt+ArrowDown"], "select the consumer", (view) => walk(view, (box) => alongEdge(view, box, 1))],
  [["Alt+ArrowUp"], "select the producer", (view) => walk(view, (box) => alongEdge(view, box, -1))],
  [["Alt+ArrowRight"], "select the next box", (view) => walk(view, (box) => inOrder(view, box, 1))],
  [["Alt+ArrowLeft"], "select the previous box", (view) => walk(view, (box) => inOrder(view, box, -1))],
  [["u"], "select the group around the box", (view) => walk(view, (box) => view.scene.boxes[box].up ?? -1)],
  [["Enter"], "open or close the selected group", (view) => view.opening.toggle(view.selectedBox, false)],
  [["Alt+Enter"], "open or close the selected group and all groups in it", (view) => view.opening.toggle(view.selectedBox, true)],
  [["k"], "focus: all, 1, 2, 3 hops around the selected box", (view) => view.setHops((view.hops + 1) % 4)],
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

export const PLAYER = "gw-player"; // class of the view of a lesson, which stays at its moment
const PLAYER_KEYS = ["Space", "+", "=", "-", "Shift+ArrowUp", "Shift+ArrowDown", "Shift+ArrowLeft", "Shift+ArrowRight"];
const actions = new Map(KEYS.flatMap(([keys, , action]) => keys.map((key) => /** @type {const} */ ([key, action]))));
const TAKES_KEYS = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable=true], [role=slider], [role=option], [role=combobox]";
const TAKES_ARROWS = "[role=radio], [role=tab], input[type=radio]"; // and Home and End; letters are for the view
const HOLDS_KEYS = "[role=dialog], [role=listbox], [role=menu], [data-testid=stDataFrame]"; // elements in these take keys

/** A key with its modifiers: "Alt+Enter", "Shift+ArrowUp", "c", "C". Shift is left out where it makes another letter.
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
const NEEDS_FOCUS = ["Space", "Enter", "Escape", "Alt+Enter"]; // keys that a view gets only when it has the focus

/** Listens to keys on the view, and to keys that nothing else on the page needs, so that no click is necessary. @param {View} view */
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
  if (combination === PALETTE) {
    const inSight = listening.find(({ root }) => isInSight(root));
    if (inSight) press(inSight, event, combination);
    return;
  }
  if (NEEDS_FOCUS.includes(combination) || combination.startsWith("Ctrl") || isNeeded(event)) return;
  const view = listening.find(({ root, scene, pageKeys }) => pageKeys && scene.T > 0 && isInSight(root)); // without a history, keys scroll the page
  if (view) press(view, event, combination);
}

/** @param {View} view @param {KeyboardEvent} event @param {string} combination */
function press(view, event, combination) {
  if (view.root.classList.contains(PLAYER) && !PLAYER_KEYS.includes(combination)) return;
  const action = actions.get(combination);
  if (!action || !view.hasScene || event.defaultPrevented || isControlKey(event.composedPath()[0], combination)) return;
  event.preventDefault();
  event.stopPropagation();
  action(view);
}

/** Whether the key is for the focused element: a view, which has its own listener, or a control that takes keys. @param {KeyboardEvent} event */
function isNeeded(event) {
  const [target, ...around] = /** @type {any[]} */ (event.composedPath());
  if (around.some((one) => listening.some(({ root }) => one === root))) return true;
  if (target.matches?.(TAKES_ARROWS)) return /^(Arrow|Home|End)/.test(event.key);
  return target.matches?.(TAKES_KEYS) || around.some((one) => one.matches?.(HOLDS_KEYS));
}

/** Whether at least half of the view's height is on the screen. @param {HTMLElement} root */
function isInSight(root) {
  const { top, bottom, height } = root.getBoundingClientRect();
  return height > 0 && Math.min(bottom, window.innerHeight) - Math.max(top, 0) > height / 2;
}

/** Whether the focused control needs the key. @param {any} target @param {string} combination */
function isControlKey(target, combination) {
  if (["Escape", "Ctrl+f", PALETTE].includes(combination)) return false;
  const tag = target.tagName;
  if (target.type === "checkbox") return combination === "Space";
  if (tag === "SELECT" || (tag === "INPUT" && target.type !== "range")) return true;
  if (tag === "INPUT") return ["ArrowLeft", "ArrowRight", "Home", "End"].includes(combination);
  return (tag === "BUTTON" || tag === "SUMMARY") && (combination === "Enter" || combination === "Space");
}

/** @param {View} view @param {(box: number) => number} next */
function walk(view, next) {
  const index = view.selectedBox < 0 ? nearestToMiddle(view) : next(view.selectedBox);
  if (index < 0) {
    view.say("No further box in that direction");
    return;
  }
  const box = view.scene.boxes[index];
  view.select(box.id, { late: true });
  view.messages.tell(`${view.scene.nameOf(index)}${box.kind === "group" ? (isFrame(box) ? ", open group" : ", closed group") : ""}`);
}

/** @param {View} view @param {number} dx @param {number} dy */
function pan(view, dx, dy) {
  view.stage.camera.pan(dx, dy);
  view.stage.request();
}

/** @param {View} view */
function leave(view) {
  if (view.palette.close() || view.inspector.drawing.close() || view.help.close()) return;
  if (focusedIn(view.root) !== view.stage.canvas) view.stage.focus();
  else view.select("");
}
