// @ts-check
// Labels of the nodes that change a value's layout, at zooms at which boxes have no text: the colour changes there.

import { overlap } from "./clipping.js";
import { TEXT_ZOOM } from "./pane.js";
import { boldFont, thousands, widthOf } from "./text_metrics.js";

/** @import { Context, Extent, Pane } from "./types.js" */

const CHANGE_FONT = 11; // px on the screen
const CHANGE_HEIGHT = 16;
const CHANGE_PADDING = 5;

/** "NCHW to NHWC" of a node whose one operand has another layout than its result, else "".
 * @param {Pane} pane @param {number} index */
export function layoutChange(pane, index) {
  const { scene } = pane;
  const operands = scene.into[index].filter((edge) => pane.edgeVersion(edge) && scene.boxes[scene.edges[edge].a].kind !== "constant");
  const [from, to] = [operands.length === 1 ? pane.lookOf(scene.edges[operands[0]].a)?.x : "", pane.lookOf(index)?.x];
  return from && to && from !== to ? `${from} to ${to}` : "";
}

/** The labels in a pane, with areas in px of the pane; none covers another. The label of a node in a region is on the
 * region's nearer border, else inside of it, and the nodes of a border share it. The first ones come first.
 * @param {Pane} pane @returns {{ text: string, area: Extent }[]} */
export function layoutChangesOf(pane) {
  const { scene, regions, region, zoom, theme } = pane;
  if (pane.colouring !== "layout" || zoom >= TEXT_ZOOM) return [];
  const places = /** @type {Map<string, { changes: string[], x: number, y: number, inward: number }>} */ (new Map());
  for (const index of scene.layoutChanges) {
    const change = pane.shows(index) && !pane.isGhost(index) ? layoutChange(pane, index) : "";
    const around = regions.shown(index);
    if (!change || pane.isDim(index) || !pane.seesBox(scene.boxes[around])) continue;
    const { x, y } = scene.boxes[index];
    const outer = scene.boxes[around];
    const isUpper = y < outer.y;
    const place = around === index ? { x, y, inward: -0.5 } : { x: outer.x, y: isUpper ? outer.top : outer.top + outer.h, inward: isUpper ? 0 : -1 };
    const key = `${around} ${place.y}`;
    places.set(key, { ...place, changes: [...(places.get(key)?.changes ?? []), change] });
  }
  const labels = /** @type {{ text: string, area: Extent }[]} */ ([]);
  for (const { changes, x, y, inward } of places.values()) {
    const text = labelOf(changes);
    const half = widthOf(text, boldFont(CHANGE_FONT, theme.font)) / 2 + CHANGE_PADDING;
    const middle = Math.min(Math.max((x - region.left) * zoom, half), (region.right - region.left) * zoom - half);
    const highest = (region.bottom - region.top) * zoom - CHANGE_HEIGHT;
    const areas = [-0.5, inward].map((shift) => {
      const top = Math.min(Math.max((y - region.top) * zoom + shift * CHANGE_HEIGHT, 0), highest);
      return { left: middle - half, right: middle + half, top, bottom: top + CHANGE_HEIGHT };
    });
    const area = areas.find((one) => !labels.some((other) => overlap(one, other.area)));
    if (area) labels.push({ text, area });
  }
  return labels;
}

/** @param {string[]} changes */
function labelOf(changes) {
  if (changes.length === 1) return changes[0];
  return `${thousands(changes.length)} ${new Set(changes).size === 1 ? `x ${changes[0]}` : "layout changes"}`;
}

/** @param {Context} ctx @param {Pane} pane */
export function paintLayoutChanges(ctx, pane) {
  const { theme, zoom, region } = pane;
  ctx.font = boldFont(CHANGE_FONT / zoom, theme.font);
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  for (const { text, area } of layoutChangesOf(pane)) {
    const [left, top] = [area.left / zoom + region.left, area.top / zoom + region.top];
    ctx.fillStyle = theme.ink;
    ctx.fillRect(left, top, (area.right - area.left) / zoom, CHANGE_HEIGHT / zoom);
    ctx.fillStyle = theme.panel;
    ctx.fillText(text, left + CHANGE_PADDING / zoom, top + CHANGE_HEIGHT / 2 / zoom);
  }
}
