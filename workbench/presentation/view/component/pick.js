// @ts-check
// The box under a point of a pane.

import { ABSENT } from "./comparison.js";
import { stubAt } from "./edges.js";
import { TEXT_ZOOM } from "./pane.js";
import { titlesOf } from "./titles.js";

/** @import { Box, Pane } from "./types.js" */

const REACH = 3; // px around a box that count as the box
const STUB_REACH = 20; // px above a box in which its stubs are

/** The box at a point of the scene, or -1. A stub stands for the box that its value comes from.
 * @param {Pane} pane @param {number} x @param {number} y */
export function boxAt(pane, x, y) {
  const { scene, regions, zoom } = pane;
  const reach = Math.min(REACH / zoom, 40);
  let result = -1;
  for (const index of scene.boxRows.between(y - reach, y + reach + STUB_REACH)) {
    if (pane.comparison.marks[index] === ABSENT || regions.hides(index)) continue;
    const box = scene.boxes[index];
    const inside = x > box.left - reach && x < box.left + box.w + reach && y > box.top - reach && y < box.top + box.h + reach;
    // Short-lived nodes are painted last, on top of the others.
    if (inside && (result < 0 || box.chip)) result = index;
    if (inside || result >= 0 || zoom < TEXT_ZOOM) continue;
    const stub = stubAt(scene, index, x, y);
    if (stub >= 0) return scene.edges[stub].a;
  }
  return result >= 0 ? result : groupAt(pane, x, y);
}

/** The region at that point, else the open group whose title is there, or -1. @param {Pane} pane @param {number} x @param {number} y */
function groupAt(pane, x, y) {
  const { scene, regions, region, zoom } = pane;
  const isInside = (/** @type {Box} */ { left, top, w, h }) => x > left && x < left + w && y > top && y < top + h;
  const found = scene.frames.find((index) => regions.isRegion(index) && pane.shows(index) && isInside(scene.boxes[index]));
  if (found !== undefined) return found;
  const [across, down] = [(x - region.left) * zoom, (y - region.top) * zoom];
  const titles = titlesOf(pane).filter(({ index, area }) => {
    const { left, w } = scene.boxes[index];
    return down > area.top && down < area.bottom && (zoom < TEXT_ZOOM ? across > area.left && across < area.right : x > left && x < left + w);
  });
  return titles.at(-1)?.index ?? -1;
}
