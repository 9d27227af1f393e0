// @ts-check
// Mouse, touch and wheel on the canvas.

import { boxAt } from "./pick.js";
import { toggleGroup } from "./opening.js";

/** @import { Point, View } from "./types.js" */

const CLICK = 4; // px that a click may move
const TWICE = 500; // ms within which a second click belongs to the first

/** @param {View} view */
export function listenToPointer(view) {
  const { stage } = view;
  const { canvas } = stage;
  const fingers = new Map(); // pointer id: last place
  let moved = 0;
  let onMinimap = false;
  let clicked = { id: "", x: 0, y: 0, time: -Infinity }; // the last click, or the first of two

  const placeOf = (/** @type {MouseEvent} */ event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const boxUnder = (/** @type {Point} */ { x, y }) => {
    if (!view.scene) return -1;
    const place = stage.placeAt(x);
    return boxAt(stage.pane(place), stage.camera.sceneX(x - stage.leftOf(place)), stage.camera.sceneY(y));
  };
  const inPane = (/** @type {Point} */ { x, y }) => ({ x: x - stage.leftOf(stage.placeAt(x)), y });

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !view.scene) return;
    canvas.focus({ preventScroll: true });
    canvas.setPointerCapture(event.pointerId);
    const at = placeOf(event);
    fingers.set(event.pointerId, at);
    moved = 0;
    const point = stage.minimap.scenePoint(stage, at.x, at.y);
    onMinimap = point !== null;
    if (point) view.centreOn(point);
  });

  canvas.addEventListener("pointermove", (event) => {
    const at = placeOf(event);
    const before = fingers.get(event.pointerId);
    if (!before) {
      view.hover(stage.minimap.scenePoint(stage, at.x, at.y) ? -1 : boxUnder(at), at);
      return;
    }
    fingers.set(event.pointerId, at);
    moved += Math.hypot(at.x - before.x, at.y - before.y);
    if (onMinimap) {
      const point = stage.minimap.scenePoint(stage, at.x, at.y);
      if (point) view.centreOn(point);
    } else if (fingers.size === 2) pinch(event.pointerId, before, at);
    else if (moved > CLICK) {
      stage.camera.pan(at.x - before.x, at.y - before.y);
      view.hover(-1);
      canvas.classList.add("gw-dragging");
      stage.request();
    }
  });

  /** @param {number} id @param {Point} before @param {Point} at */
  function pinch(id, before, at) {
    const still = [...fingers].find(([other]) => other !== id)[1];
    const factor = Math.hypot(at.x - still.x, at.y - still.y) / Math.max(1, Math.hypot(before.x - still.x, before.y - still.y));
    const middle = inPane({ x: (at.x + still.x) / 2, y: (at.y + still.y) / 2 });
    stage.camera.pan((at.x - before.x) / 2, (at.y - before.y) / 2);
    stage.camera.zoomAt(middle.x, middle.y, factor);
    stage.request();
  }

  canvas.addEventListener("pointerup", (event) => {
    const at = placeOf(event);
    canvas.classList.remove("gw-dragging");
    if (!fingers.delete(event.pointerId) || moved > CLICK || onMinimap) return;
    // What the first click selects may move the picture: the inspector takes room. The second one is still meant for it.
    if (event.timeStamp - clicked.time < TWICE && Math.hypot(at.x - clicked.x, at.y - clicked.y) <= CLICK) return;
    const box = boxUnder(at);
    clicked = { id: box < 0 ? "" : view.scene.boxes[box].id, ...at, time: event.timeStamp };
    view.select(clicked.id);
  });

  canvas.addEventListener("pointercancel", (event) => fingers.delete(event.pointerId));
  canvas.addEventListener("pointerleave", () => view.hover(-1));

  canvas.addEventListener("dblclick", (event) => {
    const at = placeOf(event);
    if (stage.minimap.scenePoint(stage, at.x, at.y)) return;
    toggleGroup(view, view.scene?.byId.get(clicked.id) ?? -1, event.altKey);
  });

  canvas.addEventListener("wheel", (event) => {
    if (!view.scene) return;
    event.preventDefault();
    // A pinch on a touchpad arrives as a wheel with Ctrl.
    const lines = event.deltaMode === 1 ? 16 : 1;
    if (event.ctrlKey || event.metaKey || view.wheelZooms) {
      const at = inPane(placeOf(event));
      stage.camera.zoomAt(at.x, at.y, Math.exp(-event.deltaY * lines * (Math.abs(event.deltaY) < 30 ? 0.01 : 0.002)));
    } else {
      const sideways = event.shiftKey && !event.deltaX;
      stage.camera.pan(-(sideways ? event.deltaY : event.deltaX) * lines, sideways ? 0 : -event.deltaY * lines);
    }
    view.hover(-1);
    stage.request();
  }, { passive: false });
}
