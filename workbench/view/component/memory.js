// @ts-check
// What of a view outlives it: a page that takes the component down and puts it up again finds it as it was.

import { QUERY } from "./marks.js";
import { COLOURED, ONLY } from "./selection_sync.js";

/** @import { Memory, View } from "./types.js" */

const KEPT = /** @type {const} */ (["colouring", "panes", "selected", "hops", "wheelZooms", "inspectorOpen", "onlyHits"]);

/** The state of a view, which another begins with; null before its first scene. @param {View} view */
export function remember(view) {
  if (!view.scene || !view.begun) return null;
  const { x, y, zoom } = view.stage.camera;
  const { step, t, compare, chosen, hideUnchanged } = view.clock;
  return {
    title: view.scene.title,
    seen: view.seen,
    search: view.search.state,
    camera: { x, y, zoom },
    boxes: view.scene.boxes.filter((box) => view.stage.camera.sees(box)),
    clock: { step, t, compare, chosen, hideUnchanged },
    kept: Object.fromEntries(KEPT.map((name) => [name, view[name]])),
  };
}

/** To be called before the view's first scene is taken in: as the view was left, else as the address says. Returns the
 * boxes that were seen. @param {View} view @param {string} title */
export function beginAsLeft(view, title) {
  const { memory } = view;
  if (memory && memory.title === title) return restore(view, memory);
  const { query, hits } = view.outside.begin();
  view.search.asked = view.search.field.value = query.trim(); // asked when the scene is shown
  view.onlyHits = hits.includes(ONLY);
  if (hits.includes(COLOURED)) view.colouring = QUERY;
  return [];
}

/** @param {View} view @param {Memory} memory */
function restore(view, memory) {
  view.seen = memory.seen;
  view.begun = true;
  Object.assign(view, memory.kept);
  view.search.restore(memory.search);
  Object.assign(view.stage.camera, memory.camera);
  Object.assign(view.clock, memory.clock);
  view.stage.resize(true);
  return memory.boxes;
}
