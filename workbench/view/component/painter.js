// @ts-check
// Painting one pane, in the order in which things lie on each other. The context has the scene's coordinates.

import { paintBox, paintFrame, paintOutline, paintPlain } from "./boxes.js";
import { paintEdges, paintStubs } from "./edges.js";
import { PLAIN_ZOOM, TEXT_ZOOM } from "./pane.js";
import { isFrame } from "./scene.js";

/** @import { Context, Pane } from "./types.js" */

/** @param {Context} ctx @param {Pane} pane */
export function paintPane(ctx, pane) {
  const { scene, region, zoom, theme } = pane;
  for (const index of scene.frames) {
    if (pane.seesBox(scene.boxes[index]) && pane.shows(index)) paintFrame(ctx, pane, index);
  }
  paintEdges(ctx, pane);
  const seen = scene.boxRows.between(region.top - 20, region.bottom + 20).filter((index) => pane.seesBox(scene.boxes[index]));
  if (zoom < PLAIN_ZOOM) paintPlain(ctx, pane, seen);
  else paintNear(ctx, pane, seen);
  for (const index of pane.framed) {
    if (scene.boxes[index] && !isFrame(scene.boxes[index])) paintOutline(ctx, pane, index, 7, 3, theme.frame);
  }
  if (pane.selected >= 0 && pane.comparison.marks[pane.selected]) {
    paintOutline(ctx, pane, pane.selected, isFrame(scene.boxes[pane.selected]) ? 2 : 5, 2.4, theme.ink);
  }
}

/** @param {Context} ctx @param {Pane} pane @param {number[]} seen */
function paintNear(ctx, pane, seen) {
  const { scene } = pane;
  const chips = [];
  for (const index of seen) {
    if (scene.boxes[index].chip) {
      chips.push(index);
      continue;
    }
    paintBox(ctx, pane, index);
    if (scene.ticks[index] && pane.zoom >= TEXT_ZOOM && pane.shows(index) && !pane.isDim(index)) paintStubs(ctx, pane, index);
  }
  for (const index of chips) paintBox(ctx, pane, index);
}
