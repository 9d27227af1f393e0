// @ts-check
// Painting one pane, from back to front. The context has the scene's coordinates.

import { paintBox, paintFrame, paintOutline, paintPlain } from "./boxes.js";
import { paintEdges, paintStubs } from "./edges.js";
import { paintLayoutChanges } from "./layout_changes.js";
import { closedGroups, paintGroup, paintTitles } from "./titles.js";
import { PLAIN_ZOOM, RING, TEXT_ZOOM } from "./pane.js";
import { isFrame } from "./scene.js";

/** @import { Context, Pane } from "./types.js" */

/** @param {Context} ctx @param {Pane} pane */
export function paintPane(ctx, pane) {
  const { scene, region, regions, zoom, theme } = pane;
  const frames = scene.frames.filter((index) => !regions.hides(index) && pane.seesBox(scene.boxes[index]) && pane.shows(index));
  for (const index of frames) {
    if (!regions.isRegion(index)) paintFrame(ctx, pane, index);
  }
  paintEdges(ctx, pane);
  const visible = scene.boxRows.between(region.top - 20, region.bottom + 20).filter((index) => !regions.hides(index) && pane.seesBox(scene.boxes[index]));
  const closed = new Set(closedGroups(pane));
  const boxes = visible.filter((index) => !closed.has(index));
  if (zoom < PLAIN_ZOOM) paintPlain(ctx, pane, boxes);
  else paintDetailed(ctx, pane, boxes);
  for (const index of [...closed, ...frames.filter((frame) => regions.isRegion(frame))]) paintGroup(ctx, pane, index);
  paintTitles(ctx, pane);
  paintLayoutChanges(ctx, pane);
  for (const index of pane.ringed()) paintOutline(ctx, pane, index, RING, 3, theme.frame);
  if (pane.selected >= 0 && pane.comparison.marks[pane.selected]) {
    const index = regions.shown(pane.selected);
    paintOutline(ctx, pane, index, isFrame(scene.boxes[index]) ? 2 : 5, 2.4, theme.ink);
  }
}

/** @param {Context} ctx @param {Pane} pane @param {number[]} visible */
function paintDetailed(ctx, pane, visible) {
  const { scene } = pane;
  const chips = [];
  for (const index of visible) {
    if (scene.boxes[index].chip) {
      chips.push(index);
      continue;
    }
    paintBox(ctx, pane, index);
    if (scene.ticks[index].length && pane.zoom >= TEXT_ZOOM && pane.shows(index) && !pane.isDim(index)) paintStubs(ctx, pane, index);
  }
  for (const index of chips) paintBox(ctx, pane, index);
}
