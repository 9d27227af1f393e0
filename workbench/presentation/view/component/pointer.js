// @ts-check
// Mouse, touch and wheel on the canvas.

import { boxAt } from "./pick.js";

/** @import { Point, View } from "./types.js" */

const CLICK_DISTANCE = 4; // px by which the pointer may move in a click
const DOUBLE_CLICK_MS = 500; // ms between the clicks of a double-click, at most

/** @param {View} view */
export function listenToPointer(view) {
  const { stage } = view;
  const { canvas } = stage;
  const pointers = new Map(); // by pointer id: its last point
  let moved = 0;
  let onMinimap = false;
  let clicked = { id: "", x: 0, y: 0, time: -Infinity }; // the last click, or the first of two; px in the window

  const pointOf = (/** @type {MouseEvent} */ event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const boxUnder = (/** @type {Point} */ point) => {
    if (!view.hasScene) return -1;
    const { x, y } = stage.inPane(point);
    return boxAt(stage.pane(stage.paneAt(point)), stage.camera.sceneX(x), stage.camera.sceneY(y));
  };
  const isSecondClick = (/** @type {MouseEvent} */ event) =>
    event.timeStamp - clicked.time < DOUBLE_CLICK_MS && Math.hypot(event.clientX - clicked.x, event.clientY - clicked.y) <= CLICK_DISTANCE;

  const toggleClicked = (/** @type {MouseEvent} */ event) => view.opening.toggle(view.scene.byId.get(clicked.id) ?? -1, event.altKey);

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !view.hasScene) return;
    canvas.focus({ preventScroll: true });
    canvas.setPointerCapture(event.pointerId);
    const at = pointOf(event);
    pointers.set(event.pointerId, at);
    moved = 0;
    const point = stage.minimap.scenePoint(stage, at.x, at.y);
    onMinimap = point !== null;
    if (point) view.centreOn(point);
  });

  canvas.addEventListener("pointermove", (event) => {
    const at = pointOf(event);
    const before = pointers.get(event.pointerId);
    if (!before) {
      view.hover(stage.minimap.scenePoint(stage, at.x, at.y) ? -1 : boxUnder(at), at);
      return;
    }
    pointers.set(event.pointerId, at);
    moved += Math.hypot(at.x - before.x, at.y - before.y);
    if (onMinimap) {
      const point = stage.minimap.scenePoint(stage, at.x, at.y);
      if (point) view.centreOn(point);
    } else if (pointers.size === 2) pinch(event.pointerId, before, at);
    else if (moved > CLICK_DISTANCE) {
      stage.camera.pan(at.x - before.x, at.y - before.y);
      view.hover(-1);
      canvas.classList.add("gw-dragging");
      stage.request();
    }
  });

  /** @param {number} id @param {Point} before @param {Point} at */
  function pinch(id, before, at) {
    const still = [...pointers].find(([other]) => other !== id)?.[1];
    if (!still) return;
    const factor = Math.hypot(at.x - still.x, at.y - still.y) / Math.max(1, Math.hypot(before.x - still.x, before.y - still.y));
    const middle = stage.inPane({ x: (at.x + still.x) / 2, y: (at.y + still.y) / 2 });
    stage.camera.pan((at.x - before.x) / 2, (at.y - before.y) / 2);
    stage.camera.zoomAt(middle.x, middle.y, factor);
    if (factor > 1) view.opening.zoomedTo(boxUnder(at));
    stage.request();
  }

  canvas.addEventListener("pointerup", (event) => {
    const at = pointOf(event);
    canvas.classList.remove("gw-dragging");
    if (!pointers.delete(event.pointerId) || moved > CLICK_DISTANCE || onMinimap) return;
    // The second click of a double-click is for the box of the first, whose selection may have moved the picture.
    if (isSecondClick(event)) return;
    const box = boxUnder(at);
    clicked = { id: box < 0 ? "" : view.scene.boxes[box].id, x: event.clientX, y: event.clientY, time: event.timeStamp };
    view.select(clicked.id);
  });

  canvas.addEventListener("pointercancel", (event) => pointers.delete(event.pointerId));
  canvas.addEventListener("pointerleave", () => view.hover(-1));

  canvas.addEventListener("dblclick", (event) => {
    const at = pointOf(event);
    if (stage.minimap.scenePoint(stage, at.x, at.y)) return;
    toggleClicked(event);
  });

  // The first click may open the inspector where the second one lands.
  view.side.addEventListener("click", (event) => {
    if (!isSecondClick(event)) return;
    event.preventDefault();
    event.stopPropagation();
    clicked.time = -Infinity;
    toggleClicked(event);
  }, { capture: true });

  canvas.addEventListener("wheel", (event) => {
    if (!view.hasScene) return;
    event.preventDefault();
    // A pinch on a touchpad arrives as a wheel with Ctrl.
    const pixelsPerUnit = event.deltaMode === 1 ? 16 : 1;
    if (event.ctrlKey || event.metaKey || view.wheelZooms) {
      const at = stage.inPane(pointOf(event));
      stage.camera.zoomAt(at.x, at.y, Math.exp(-event.deltaY * pixelsPerUnit * (Math.abs(event.deltaY) < 30 ? 0.01 : 0.002)));
      if (event.deltaY < 0) view.opening.zoomedTo(boxUnder(pointOf(event)));
    } else {
      const sideways = event.shiftKey && !event.deltaX;
      stage.camera.pan(-(sideways ? event.deltaY : event.deltaX) * pixelsPerUnit, sideways ? 0 : -event.deltaY * pixelsPerUnit);
    }
    view.hover(-1);
    stage.request();
  }, { passive: false });
}
