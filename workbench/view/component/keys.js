// @ts-check
// The keyboard: all keys in one table, which is also what the help shows.

import { goToChange } from "./changes.js";
import { focusedIn, setText } from "./dom.js";
import { isFrame } from "./scene.js";
import { alongEdge, inOrder, nearestToMiddle } from "./navigation.js";

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
  [["Enter"], "open or close the selected group", (view) => view.toggleGroup(view.selectedBox, false)],
  [["Alt+Enter"], "the same with all below", (view) => view.toggleGroup(view.selectedBox, true)],
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

/** @param {View} view */
export function listenToKeys(view) {
  const actions = new Map(KEYS.flatMap(([keys, , action]) => keys.map((key) => /** @type {const} */ ([key, action]))));
  const act = (/** @type {KeyboardEvent} */ event) => {
    const combination = combinationOf(event);
    const action = actions.get(combination);
    if (!action || !view.scene || event.defaultPrevented || keeps(event.target, combination)) return;
    event.preventDefault();
    event.stopPropagation();
    action(view);
  };
  const actOnPage = (/** @type {KeyboardEvent} */ event) => {
    if (!view.root.isConnected) document.removeEventListener("keydown", actOnPage);
    else if (view.scene?.T > 0 && !event.ctrlKey && !event.metaKey && isIdle(event.target) && isInSight(view)) act(event);
  };
  view.root.addEventListener("keydown", act);
  document.addEventListener("keydown", actOnPage); // keys work at once, without a click on the graph
}

/** Whether nothing on the page waits for keys: nothing has the focus, or a button or link that was pressed.
 * @param {any} target */
function isIdle(target) {
  if (target === document.body) return true;
  if (!(target instanceof Element)) return false;
  const isPlain = !target.getAttribute("role") && !target.closest("[role=dialog], [role=menu], [role=listbox]");
  return (target.tagName === "BUTTON" || target.tagName === "A") && isPlain;
}

/** Whether half of the graph is on the screen; else the arrow keys scroll the page. @param {View} view */
function isInSight(view) {
  const { top, bottom, height } = view.stage.canvas.getBoundingClientRect();
  return Math.min(bottom, window.innerHeight) - Math.max(top, 0) > height / 2;
}

/** Keys that the focused control needs itself. @param {any} target @param {string} combination */
function keeps(target, combination) {
  if (combination === "Escape" || combination === "Ctrl+f") return false;
  const tag = target.tagName;
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
  if (view.help.close()) return;
  view.search.list.hidden = true;
  if (focusedIn(view.root) !== view.stage.canvas) view.stage.focus();
  else view.select("");
}
