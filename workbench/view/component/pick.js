// @ts-check
// What lies under a point of a pane.

import { ABSENT } from "./comparison.js";
import { stubAt } from "./edges.js";
import { TEXT_ZOOM } from "./pane.js";
import { HEADER } from "./scene.js";

/** @import { Pane } from "./types.js" */

const REACH = 3; // px round a box that still count as the box

/** The box at a point of the scene, or -1. A stub stands for the box that its value comes from.
 * @param {Pane} pane @param {number} x @param {number} y */
export function boxAt(pane, x, y) {
  const { scene, zoom } = pane;
  const reach = Math.min(REACH / zoom, 40);
  let found = -1;
  for (const index of scene.boxRows.between(y - reach, y + reach + HEADER)) {
    if (pane.comparison.marks[index] === ABSENT) continue;
    const box = scene.boxes[index];
    const inside = x > box.left - reach && x < box.left + box.w + reach && y > box.top - reach && y < box.top + box.h + reach;
    // What is drawn last lies on top: short-lived nodes over the others.
    if (inside && (found < 0 || box.chip)) found = index;
    if (inside || found >= 0 || zoom < TEXT_ZOOM) continue;
    const stub = stubAt(scene, index, x, y);
    if (stub >= 0) return scene.edges[stub].a;
  }
  return found >= 0 ? found : frameAt(pane, x, y);
}

/** The innermost open group with its title strip at that point, or -1. @param {Pane} pane @param {number} x @param {number} y */
function frameAt(pane, x, y) {
  const { scene, zoom } = pane;
  for (let place = scene.frames.length - 1; place >= 0; place--) {
    const index = scene.frames[place];
    const box = scene.boxes[index];
    if (pane.comparison.marks[index] === ABSENT) continue;
    const { top } = pane.headerOf(box);
    if (x > box.left && x < box.left + box.w && y > top && y < top + Math.max(HEADER, 8 / zoom)) return index;
  }
  return -1;
}
