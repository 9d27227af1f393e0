// @ts-check
// The state of a view that outlives it: a page that unmounts the component and mounts it again finds the view unchanged.

import { QUERY } from "./marks.js";
import { COLOURED, ONLY } from "./selection_sync.js";

/** @import { Choices, Memory, View } from "./types.js" */

const REMEMBERED = /** @type {(keyof Choices)[]} */ (["colouring", "panes", "selected", "hops", "wheelZooms", "pageKeys", "inspectorOpen", "onlyHits"]);

/** The state of a view for its successor; null before its first scene. @param {View} view */
export function remember(view) {
  if (!view.hasScene || !view.isPlaced) return null;
  const { x, y, zoom, fits } = view.stage.camera;
  const { step, t, compare, chosen, hideUnchanged } = view.clock;
  return {
    title: view.scene.title,
    seen: { ...view.seen }, // numbers of Python's last requests
    search: view.search.state,
    camera: { x, y, zoom, fits },
    boxes: view.scene.boxes.filter((box) => view.stage.camera.sees(box)),
    clock: { step, t, compare, chosen, hideUnchanged },
    fields: Object.fromEntries(REMEMBERED.map((name) => [name, view[name]])),
  };
}

/** Sets up a view before its first scene: from its memory, else from the page's address. Returns the boxes that were
 * visible before. @param {View} view @param {string} title */
export function initialize(view, title) {
  const { memory } = view;
  if (memory && memory.title === title) return restore(view, memory);
  const { query, hits: hitFlags } = view.outside.initialQuery();
  view.search.query = view.search.field.value = query.trim(); // sent when the scene is shown
  view.set({ onlyHits: hitFlags.includes(ONLY), ...(hitFlags.includes(COLOURED) ? { colouring: QUERY } : {}) });
  return [];
}

/** @param {View} view @param {NonNullable<Memory>} memory */
function restore(view, memory) {
  view.succeed(memory);
  view.search.restore(memory.search);
  Object.assign(view.stage.camera, memory.camera);
  Object.assign(view.clock, memory.clock);
  view.stage.resize(true);
  return memory.boxes;
}
