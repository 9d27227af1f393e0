// @ts-check
// Painting the edges: few paths, one for each kind of line.

import { ADDED, REMOVED } from "./comparison.js";
import { cutText } from "./text_metrics.js";
import { BOTH, PLAIN_ZOOM, TEXT_ZOOM, WORDS_ZOOM } from "./pane.js";

/** @import { Context, Edge, Extent, Pane, Scene, Version } from "./types.js" */

const ARROW = 5.5;
const SPECK = 4; // px: from afar, edges between boxes so near to each other are left out
const STUB = 12; // px of a stub above its consumer
const WORDS_WIDTH = 190;
const LEAST_STRETCH = 18; // px of an edge that has words on it

/** All edges of a pane, then the words on them. @param {Context} ctx @param {Pane} pane */
export function paintEdges(ctx, pane) {
  const { scene, region } = pane;
  const batches = new Map();
  const lettered = /** @type {[number[], Version][]} */ ([]);
  const least = (pane.zoom < PLAIN_ZOOM ? SPECK : 1) / pane.zoom;
  for (const index of scene.edgeRows.between(region.top, region.bottom)) {
    const edge = scene.edges[index];
    const version = pane.edgeVersion(index);
    if (!version || !isSeen(edge.extent, region, least)) continue;
    const mark = shownMark(pane, index);
    const dim = pane.isDim(edge.a) || pane.isDim(edge.b);
    const key = (version[3] ?? 2) + 3 * mark + 15 * (dim ? 1 : 0);
    let batch = batches.get(key);
    if (!batch) batches.set(key, (batch = []));
    const points = pointsOf(scene, edge, version);
    batch.push(points);
    if (!dim && version[2] >= 0) lettered.push([points, version]);
  }
  for (const [key, batch] of [...batches].sort(([one], [other]) => (one % 15) - (other % 15))) paintBatch(ctx, pane, key, batch);
  ctx.setLineDash([]);
  ctx.globalAlpha = 1;
  if (pane.zoom >= WORDS_ZOOM) paintWords(ctx, pane, lettered);
}

/** The line of an edge: where nothing stands in its way at the time, straight down at x = version[4].
 * @param {Scene} scene @param {Edge} edge @param {Version} version */
function pointsOf(scene, edge, version) {
  const x = version[4];
  if (x === undefined) return edge.p;
  const [a, b] = [scene.boxes[edge.a], scene.boxes[edge.b]];
  return [x, a.top + a.h, x, b.top];
}

/** @param {Pane} pane @param {number} index */
function shownMark(pane, index) {
  const mark = pane.comparison.edgeMarks[index];
  if (mark !== REMOVED && mark !== ADDED) return 0;
  // An edge that is gone is not drawn after, and the other way round: what is left here is the marked side.
  return pane.side === BOTH || pane.edgeVersion(index) ? mark : 0;
}

/** @param {Context} ctx @param {Pane} pane @param {number} key @param {number[][]} batch */
function paintBatch(ctx, pane, key, batch) {
  const { theme, zoom } = pane;
  const kind = key % 3;
  const mark = Math.floor(key / 3) % 5;
  const dim = Math.floor(key / 15);
  const reading = zoom >= TEXT_ZOOM;
  const width = (kind === 1 ? 1.9 : 1.2) + (mark ? 0.6 : 0);
  ctx.lineWidth = Math.max(width, 0.7 / zoom);
  ctx.strokeStyle = ctx.fillStyle = mark ? theme.marks[mark] : theme.lines[kind];
  ctx.globalAlpha = dim ? 0.12 : reading ? 1 : 0.7;
  // Dashes are slow without a graphics card, and cannot be seen from afar.
  ctx.setLineDash(!reading ? [] : mark === REMOVED ? [6, 4] : kind === 2 ? [2, 3] : []);
  ctx.beginPath();
  for (const p of batch) {
    ctx.moveTo(p[0], p[1]);
    for (let place = 2; place < p.length; place += 2) ctx.lineTo(p[place], p[place + 1]);
  }
  ctx.stroke();
  if (reading) paintArrows(ctx, batch);
}

/** @param {Context} ctx @param {number[][]} batch */
function paintArrows(ctx, batch) {
  ctx.beginPath();
  for (const p of batch) {
    const [x, y] = [p[p.length - 2], p[p.length - 1]];
    const [dx, dy] = [x - p[p.length - 4], y - p[p.length - 3]];
    const length = Math.hypot(dx, dy) || 1;
    const [ux, uy] = [(dx / length) * ARROW, (dy / length) * ARROW];
    ctx.moveTo(x, y);
    ctx.lineTo(x - 1.6 * ux - 0.8 * uy, y - 1.6 * uy + 0.8 * ux);
    ctx.lineTo(x - 1.6 * ux + 0.8 * uy, y - 1.6 * uy - 0.8 * ux);
    ctx.closePath();
  }
  ctx.fill();
}

/** @param {Extent} extent @param {Extent} region @param {number} least */
function isSeen({ left, right, top, bottom }, region, least) {
  if (right - left < least && bottom - top < least) return false;
  return left <= region.right && right >= region.left && top <= region.bottom && bottom >= region.top;
}

/** Shape and layout, beside the longest stretch of each edge; where two would overlap, the first stays.
 * @param {Context} ctx @param {Pane} pane @param {[number[], Version][]} lettered */
function paintWords(ctx, pane, lettered) {
  const { scene, theme } = pane;
  const font = `11px ${theme.font}`;
  const taken = /** @type {Extent[]} */ ([]);
  ctx.font = font;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  for (const [points, version] of lettered) {
    const place = longestStretch(points);
    if (place.length < LEAST_STRETCH) continue;
    const words = scene.words[version[2]];
    const cut = cutText(words, font, WORDS_WIDTH);
    const spot = { left: place.x + 4, right: place.x + 4 + cut.width, top: place.y - 6, bottom: place.y + 6 };
    if (taken.some((other) => spot.left < other.right && spot.right > other.left && spot.top < other.bottom && spot.bottom > other.top)) continue;
    taken.push(spot);
    ctx.globalAlpha = 0.85;
    ctx.fillStyle = theme.background;
    ctx.fillRect(spot.left - 1, spot.top, cut.width + 2, 12);
    ctx.globalAlpha = 1;
    ctx.fillStyle = theme.muted;
    ctx.fillText(cut.text, spot.left, place.y);
  }
}

/** @param {number[]} p */
function longestStretch(p) {
  let best = { length: -1, x: 0, y: 0 };
  for (let place = 0; place + 3 < p.length; place += 2) {
    const length = Math.abs(p[place + 3] - p[place + 1]);
    if (length > best.length) best = { length, x: (p[place] + p[place + 2]) / 2, y: (p[place + 1] + p[place + 3]) / 2 };
  }
  return best;
}

/** Values of high fan-out: a short stub at the consumer, with the name of where it comes from.
 * @param {Context} ctx @param {Pane} pane @param {number} index */
export function paintStubs(ctx, pane, index) {
  const { scene, theme } = pane;
  const font = `11px ${theme.font}`;
  const room = scene.boxes[index].w / 2 / scene.ticks[index].length;
  for (const edgeIndex of scene.ticks[index]) {
    const version = pane.edgeVersion(edgeIndex);
    if (!version) continue;
    const mark = shownMark(pane, edgeIndex);
    const { x, y } = scene.stubOf(edgeIndex);
    ctx.strokeStyle = ctx.fillStyle = mark ? theme.marks[mark] : theme.lines[version[3] ?? 2];
    ctx.lineWidth = 1.5;
    ctx.setLineDash(mark === REMOVED ? [3, 2] : []);
    ctx.beginPath();
    ctx.moveTo(x, y - STUB);
    ctx.lineTo(x, y);
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.beginPath();
    ctx.arc(x, y - STUB, 2, 0, 2 * Math.PI);
    ctx.fill();
    if (pane.zoom < WORDS_ZOOM) continue;
    ctx.fillStyle = theme.muted;
    ctx.font = font;
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    ctx.fillText(cutText(scene.nameOf(scene.edges[edgeIndex].a), font, Math.max(24, Math.min(90, room))).text, x + 4, y - STUB + 3);
  }
}

/** The stub at a point of the scene, as an edge's index, or -1.
 * @param {Scene} scene @param {number} index @param {number} x @param {number} y */
export function stubAt(scene, index, x, y) {
  for (const edgeIndex of scene.ticks[index] ?? []) {
    const stub = scene.stubOf(edgeIndex);
    if (x >= stub.x - 4 && x <= stub.x + 30 && y >= stub.y - STUB - 4 && y < stub.y) return edgeIndex;
  }
  return -1;
}
