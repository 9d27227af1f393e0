// @ts-check
// Painting the edges, one path for each kind of line.

import { ADDED, REMOVED } from "./comparison.js";
import { overlap, tracePath } from "./clipping.js";
import { NARROW_AT, X_AT } from "./edge_lines.js";
import { isStack, SHEET } from "./scene.js";
import { cutText } from "./text_metrics.js";
import { BOTH, LABEL_ZOOM, PLAIN_ZOOM, RING, TEXT_ZOOM } from "./pane.js";

/** @import { Context, Edge, Extent, Pane, Scene, Version } from "./types.js" */

const ARROW = 5.5;
const MIN_PLAIN_EXTENT = 4; // px; below PLAIN_ZOOM, shorter edges are not painted
const PX_BETWEEN = 1.6; // px between the two lines of a value in a narrower type
const STUB = 12; // px of a stub above its consumer
const LABEL_WIDTH = 300; // px; such as "1x64x56x56 NCHW uint8, scale 0.0126, zero point 134"
const LABEL_FONT = 11; // px
const [LABEL_GAP, LABEL_HALF] = [4, 6]; // px between a label and its edge, and half of its height
const MIN_LABELLED_SEGMENT = 12; // px of an edge's segment with a label

/** All edges of a pane, then their labels. @param {Context} ctx @param {Pane} pane */
export function paintEdges(ctx, pane) {
  const { scene, region, regions } = pane;
  const batches = new Map();
  const labelled = /** @type {[number[], Version, number][]} */ ([]); // points, version, mark
  const minExtent = (pane.zoom < PLAIN_ZOOM ? MIN_PLAIN_EXTENT : 1) / pane.zoom;
  for (const index of scene.edgeRows.between(region.top, region.bottom)) {
    const edge = scene.edges[index];
    const version = pane.edgeVersion(index);
    if (!version || regions.joins(edge.a, edge.b) || !isSeen(edge.extent, region, minExtent)) continue;
    const mark = shownMark(pane, index);
    const dim = pane.isDim(edge.a) || pane.isDim(edge.b);
    const key = (version[3] ?? 2) + 3 * mark + 15 * (version[NARROW_AT] ?? 0) + 30 * (dim ? 1 : 0);
    let batch = batches.get(key);
    if (!batch) batches.set(key, (batch = []));
    const points = pointsOf(scene, edge, version);
    batch.push(points);
    if (!dim && version[2] >= 0) labelled.push([points, version, mark]);
  }
  for (const [key, batch] of [...batches].sort(([one], [other]) => (one % 15) - (other % 15))) paintBatch(ctx, pane, key, batch);
  ctx.setLineDash([]);
  ctx.globalAlpha = 1;
  if (pane.zoom >= LABEL_ZOOM) paintLabels(ctx, pane, labelled);
}

/** The points of an edge. A version with an x goes straight down at that x: no box is in between.
 * @param {Scene} scene @param {Edge} edge @param {Version} version */
function pointsOf(scene, edge, version) {
  const x = version[X_AT];
  if (x === undefined) return edge.p;
  const [a, b] = [scene.boxes[edge.a], scene.boxes[edge.b]];
  return [x, a.top + a.h, x, b.top];
}

/** @param {Pane} pane @param {number} index */
function shownMark(pane, index) {
  const mark = pane.comparison.edgeMarks[index];
  if (mark !== REMOVED && mark !== ADDED) return 0;
  // A removed edge is painted only before, an added one only after.
  return pane.side === BOTH || pane.edgeVersion(index) ? mark : 0;
}

/** @param {Context} ctx @param {Pane} pane @param {number} key @param {number[][]} batch */
function paintBatch(ctx, pane, key, batch) {
  const { theme, zoom } = pane;
  const kind = key % 3;
  const mark = Math.floor(key / 3) % 5;
  const isNarrow = Math.floor(key / 15) % 2 === 1;
  const dim = Math.floor(key / 30);
  const reading = zoom >= TEXT_ZOOM;
  const width = (kind === 1 ? 1.9 : 1.2) + (mark ? 0.6 : 0);
  ctx.lineWidth = Math.max(width, 0.7 / zoom);
  ctx.strokeStyle = ctx.fillStyle = mark ? theme.marks[mark] : theme.lines[kind];
  ctx.globalAlpha = dim ? 0.12 : reading ? 1 : 0.7;
  // Dashes are slow without a graphics card, and not visible when zoomed out.
  const dash = !reading ? [] : mark === REMOVED ? [6, 4] : kind === 2 ? [2, 3] : [];
  ctx.setLineDash(dash);
  ctx.beginPath();
  const period = dash.length ? dash[0] + dash[1] : 0;
  for (const points of batch) tracePath(ctx, points, pane.region, period);
  if (isNarrow && reading) strokeTwice(ctx, width, theme.background);
  else ctx.stroke();
  if (reading) paintArrows(ctx, batch);
}

/** Strokes the path as two lines beside each other, the sign of a narrower element type: dashes and colours have other meanings.
 * @param {Context} ctx @param {number} width of one line @param {string} between the colour between them */
function strokeTwice(ctx, width, between) {
  ctx.lineWidth = 2 * width + PX_BETWEEN;
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.strokeStyle = between;
  ctx.lineWidth = PX_BETWEEN;
  ctx.stroke();
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

/** @param {Extent} extent @param {Extent} region @param {number} minExtent */
function isSeen({ left, right, top, bottom }, region, minExtent) {
  if (right - left < minExtent && bottom - top < minExtent) return false;
  return left <= region.right && right >= region.left && top <= region.bottom && bottom >= region.top;
}

/** Labels beside a segment of each edge, in the colour of its mark: the longest one beside which the label covers no box
 * and no earlier label. Without such a one it is left out. @param {Context} ctx @param {Pane} pane @param {[number[], Version, number][]} labelled */
function paintLabels(ctx, pane, labelled) {
  const { scene, theme } = pane;
  const scale = Math.max(1, 1 / pane.zoom); // the text is LABEL_FONT or more on the screen
  const font = `${LABEL_FONT * scale}px ${theme.font}`;
  const half = LABEL_HALF * scale;
  const taken = /** @type {Extent[]} */ ([]);
  const ringed = pane.ringed();
  ctx.font = font;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  for (const [points, version, mark] of labelled) {
    const label = scene.words[version[2]];
    const cut = cutText(label, font, LABEL_WIDTH * scale);
    const area = labelAreas(points, cut.width, half).find((one) => isFree(pane, one, ringed) && !taken.some((other) => overlap(one, other)));
    if (!area) continue;
    taken.push(area);
    ctx.globalAlpha = 0.85;
    ctx.fillStyle = theme.background;
    ctx.fillRect(area.left - 1, area.top, cut.width + 2, 2 * half);
    ctx.globalAlpha = 1;
    ctx.fillStyle = mark ? theme.marks[mark] : theme.muted;
    ctx.fillText(cut.text, area.left, area.top + half);
  }
}

/** Where the label of an edge may stand, the best place first. @param {number[]} points @param {number} width @param {number} half its height */
function labelAreas(points, width, half) {
  const segments = segmentsOf(points).filter(({ length }) => length >= Math.max(MIN_LABELLED_SEGMENT, 2 * half));
  return segments.flatMap(({ x, y }) => [x + LABEL_GAP, x - LABEL_GAP - width].map((left) => ({ left, right: left + width, top: y - half, bottom: y + half })));
}

/** Whether an area is in the pane and no box with its ring is in it. @param {Pane} pane @param {Extent} area @param {Set<number>} ringed */
function isFree(pane, area, ringed) {
  if (area.left < pane.region.left || area.right > pane.region.right) return false;
  const near = pane.scene.boxRows.between(area.top - RING, area.bottom + RING);
  const boxes = near.filter((index) => pane.shows(index) && !pane.regions.hides(index));
  return !boxes.some((index) => {
    const box = pane.scene.boxes[index];
    const ring = ringed.has(index) ? RING : 0;
    const outside = Math.max(ring, isStack(box) ? 2 * SHEET : 0);
    return overlap(area, { left: box.left - ring, top: box.top - ring, right: box.left + box.w + outside, bottom: box.top + box.h + outside });
  });
}

/** How far labels of edges stand out of the scene on its right, in px. @param {Pane} pane */
export function labelOverhang(pane) {
  const { scene, theme } = pane;
  let right = scene.width;
  scene.edges.forEach((edge, index) => {
    const version = edge.tick ? null : pane.edgeVersion(index);
    if (!version || version[2] < 0) return;
    const { width } = cutText(scene.words[version[2]], `11px ${theme.font}`, LABEL_WIDTH);
    right = Math.max(right, segmentsOf(pointsOf(scene, edge, version))[0].x + LABEL_GAP + width);
  });
  return right - scene.width;
}

/** The vertical extents of an edge's segments with their middles, the longest first. @param {number[]} p */
function segmentsOf(p) {
  const segments = [];
  for (let index = 0; index + 3 < p.length; index += 2) {
    segments.push({ length: Math.abs(p[index + 3] - p[index + 1]), x: (p[index] + p[index + 2]) / 2, y: (p[index + 1] + p[index + 3]) / 2 });
  }
  return segments.sort((one, other) => other.length - one.length);
}

/** Values of high fan-out: a short stub at the consumer, with the name of the producer.
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
    if (version[NARROW_AT]) strokeTwice(ctx, 1.2, theme.background);
    else ctx.stroke();
    ctx.setLineDash([]);
    ctx.beginPath();
    ctx.arc(x, y - STUB, 2, 0, 2 * Math.PI);
    ctx.fill();
    if (pane.zoom < LABEL_ZOOM) continue;
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
  for (const edgeIndex of scene.ticks[index]) {
    const stub = scene.stubOf(edgeIndex);
    if (x >= stub.x - 4 && x <= stub.x + 30 && y >= stub.y - STUB - 4 && y < stub.y) return edgeIndex;
  }
  return -1;
}
