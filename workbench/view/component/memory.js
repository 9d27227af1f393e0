// @ts-check
// What of a view outlives it: a page that takes the component down and puts it up again finds it as it was.

/** @import { Memory, View } from "./types.js" */

const KEPT = /** @type {const} */ (["colouring", "panes", "selected", "hops", "wheelZooms", "inspectorOpen"]);

/** The state of a view, to be given to `restore` of another. @param {View} view */
export function remember(view) {
  if (!view.scene || !view.begun) return null;
  const { x, y, zoom } = view.stage.camera;
  const { step, t, compare, chosen, hideUnchanged } = view.clock;
  return {
    title: view.scene.title,
    seen: view.seen,
    camera: { x, y, zoom },
    boxes: view.scene.boxes.filter((box) => view.stage.camera.sees(box)),
    clock: { step, t, compare, chosen, hideUnchanged },
    kept: Object.fromEntries(KEPT.map((name) => [name, view[name]])),
  };
}

/** To be called before the view's first scene is taken in: the boxes that were seen. A memory of another model is of no use.
 * @param {View} view @param {Memory} memory @param {string} title */
export function restore(view, memory, title) {
  if (!memory || memory.title !== title) return [];
  view.seen = memory.seen;
  view.begun = true;
  Object.assign(view, memory.kept);
  Object.assign(view.stage.camera, memory.camera);
  Object.assign(view.clock, memory.clock);
  view.stage.resize(true);
  return memory.boxes;
}
