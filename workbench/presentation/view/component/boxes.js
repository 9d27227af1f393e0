// @ts-check
// Painting boxes: frames of open groups, nodes, and the marks on them.

import { REMOVED, SAME, SIGNS } from "./comparison.js";
import { HIT_SIGN } from "./marks.js";
import { cutText, printable, widthOf, wrapped } from "./text_metrics.js";
import { TEXT_ZOOM } from "./pane.js";
import { inkOn } from "./theme.js";

/** @import { Box, Context, Piece, Look, Pane, Theme } from "./types.js" */

const LINE = 14; // px between the baselines of two lines of text
const PADDING = 6;
const PIECE_GAP = 5; // px between two texts in a line
const READABLE = 0.99; // of a text's size at zoom 1: smaller ones are left out below TEXT_ZOOM
const DIM = 0.14; // opacity of boxes out of focus
const BORDERS = [{ width: 1, dash: [] }, { width: 2.6, dash: [] }, { width: 1.4, dash: [1.5, 2.5] }];

/** The frame of an open group, without its title. @param {Context} ctx @param {Pane} pane @param {number} index */
export function paintFrame(ctx, pane, index) {
  const { scene, theme, zoom } = pane;
  const box = scene.boxes[index];
  const depth = scene.scopes(index).length;
  ctx.globalAlpha = pane.isGhost(index) ? 0.3 : 1;
  ctx.fillStyle = theme.panel;
  ctx.globalAlpha *= depth % 2 ? 0.35 : 0.6;
  ctx.fillRect(box.left, box.top, box.w, box.h);
  ctx.globalAlpha = 1;
  const mark = pane.comparison.marks[index]; // only a fused group has one: a rewrite creates it
  ctx.strokeStyle = mark > SAME ? theme.marks[mark] : theme.neutralBorder;
  ctx.lineWidth = Math.max(mark > SAME ? 2.2 : 1, 0.8 / zoom);
  ctx.setLineDash(mark === REMOVED ? [6, 3.5] : []);
  ctx.strokeRect(box.left, box.top, box.w, box.h);
  ctx.setLineDash([]);
}

/** Below PLAIN_ZOOM: boxes as plain rectangles, marks as coloured borders. @param {Context} ctx @param {Pane} pane @param {number[]} indices */
export function paintPlain(ctx, pane, indices) {
  // Rectangles on whole pixels are painted many times faster than those between pixels.
  const { a: scale, e: dx, f: dy } = ctx.getTransform();
  const batches = new Map();
  const outlines = new Map();
  const pixels = new Set(); // that have a box already: of boxes below a pixel, one is painted
  for (const index of indices) {
    if (!pane.shows(index)) continue;
    const box = pane.scene.boxes[index];
    const [x, y] = [Math.round(box.left * scale + dx), Math.round(box.top * scale + dy)];
    const rectangle = [x, y, Math.max(1, Math.round(box.w * scale)), Math.max(1, Math.round(box.h * scale))];
    const mark = pane.comparison.marks[index];
    const pixel = x * 1e5 + y;
    if (mark > SAME) (outlines.get(mark) ?? outlines.set(mark, []).get(mark)).push(rectangle);
    else if (box.h * scale < 1 && pixels.has(pixel)) continue;
    pixels.add(pixel);
    const fill = plainFill(pane, index);
    const key = pane.isDim(index) ? `~${fill}` : fill;
    (batches.get(key) ?? batches.set(key, []).get(key)).push(rectangle);
  }
  ctx.save();
  ctx.setTransform(1, 0, 0, 1, 0, 0);
  for (const [key, batch] of batches) {
    ctx.globalAlpha = key[0] === "~" ? DIM : 1;
    ctx.fillStyle = key[0] === "~" ? key.slice(1) : key;
    for (const [x, y, w, h] of batch) ctx.fillRect(x, y, w, h);
  }
  ctx.globalAlpha = 1;
  ctx.setLineDash([]);
  ctx.lineWidth = (1.3 * scale) / pane.zoom;
  for (const [mark, batch] of outlines) {
    ctx.strokeStyle = pane.theme.marks[mark];
    for (const [x, y, w, h] of batch) ctx.strokeRect(x, y, w, h);
  }
  ctx.restore();
}

/** The one fill of a small box. @param {Pane} pane @param {number} index */
export function plainFill(pane, index) {
  const box = pane.scene.boxes[index];
  if (box.kind !== "group" || pane.colouring !== "layout") return pane.fillOf(index, pane.lookOf(index));
  const { mix } = pane.inside(index);
  return pane.theme.fills[mix.indexOf(Math.max(...mix))];
}

/** A box that is no closed group, with its border, text and mark. @param {Context} ctx @param {Pane} pane @param {number} index */
export function paintBox(ctx, pane, index) {
  const box = pane.scene.boxes[index];
  if (pane.isGhost(index)) {
    paintGhost(ctx, pane, box);
    return;
  }
  if (!pane.shows(index)) return;
  ctx.globalAlpha = pane.isDim(index) ? DIM : 1;
  paintNode(ctx, pane, index, pane.lookOf(index));
  paintMark(ctx, pane, box, pane.comparison.marks[index]);
  ctx.globalAlpha = 1;
}

/** The outline of a box that exists only in the other pane. @param {Context} ctx @param {Pane} pane @param {Box} box */
function paintGhost(ctx, pane, box) {
  ctx.globalAlpha = 0.45;
  ctx.strokeStyle = pane.theme.muted;
  ctx.lineWidth = 1;
  ctx.setLineDash([1.5, 4]);
  shapePath(ctx, box, 0);
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.globalAlpha = 1;
}

/** The path around a box at the distance `outside`; inputs and outputs have round ends.
 * @param {Context} ctx @param {Box} box @param {number} outside */
function shapePath(ctx, box, outside) {
  const radius = (box.kind === "input" || box.kind === "output" ? box.h / 2 : box.chip ? 5 : 3) + outside;
  ctx.beginPath();
  ctx.roundRect(box.left - outside, box.top - outside, box.w + 2 * outside, box.h + 2 * outside, Math.min(radius, box.h / 2 + outside));
}

/** @param {Context} ctx @param {Pane} pane @param {number} index @param {Look | undefined} look */
function paintNode(ctx, pane, index, look) {
  const { theme, zoom } = pane;
  const box = pane.scene.boxes[index];
  const fill = pane.fillOf(index, look);
  const layout = look?.l ?? 2;
  ctx.fillStyle = fill;
  shapePath(ctx, box, 0);
  ctx.fill();
  ctx.lineWidth = BORDERS[layout].width;
  ctx.setLineDash(BORDERS[layout].dash);
  ctx.strokeStyle = theme.borders[layout];
  ctx.stroke();
  ctx.setLineDash([]);
  const scale = textScale(box, zoom);
  if (!look || (zoom < TEXT_ZOOM && scale * zoom < READABLE)) return;
  paintLines(ctx, box, nodeLines(box, withMarks(pane, index, look), inkOn(fill), theme.font, scale), scale);
  if (look.w >= 0) paintSwatch(ctx, theme, box, look.w);
}

/** The look with HIT_SIGN before the operator of a hit, and the user's own number in place of the details.
 * @param {Pane} pane @param {number} index @param {Look} look */
function withMarks(pane, index, look) {
  const [number, hits] = [pane.ownNumber(index), pane.hits(index)];
  return { ...look, op: hits ? `${HIT_SIGN} ${look.op}` : look.op, d: number || look.d };
}

/** How much larger than at zoom 1 a box's text is in the scene, so that it can be read on the screen: as far as one line fits.
 * @param {Box} box @param {number} zoom */
function textScale(box, zoom) {
  return Math.max(1, Math.min(1 / zoom, (box.h - 2) / LINE));
}

/** As many lines as fit into the box: operator and name, then the details.
 * @param {Box} box @param {Look} look @param {string} ink @param {string} family @param {number} scale */
function nodeLines(box, look, ink, family, scale) {
  const lineCount = Math.floor((box.h / scale - 4) / LINE);
  const op = { text: look.op, font: `600 ${(box.chip ? 11 : 12) * scale}px ${family}`, ink };
  const name = { text: look.name, font: `${11 * scale}px ${family}`, ink };
  const details = { text: look.d, font: `${11 * scale}px ${family}`, ink };
  if (box.chip) return [[op, details]];
  if (lineCount >= 3) return inLines([op, name, details], box.w - 2 * PADDING, lineCount);
  return lineCount === 2 ? [[op, name], [look.d ? details : { ...details, text: look.f }]] : [[op, name]];
}

/** Operator, name and details, each in as many lines as it needs; where these have no room, the first two in one line.
 * @param {Piece[]} texts @param {number} width @param {number} room */
function inLines(texts, width, room) {
  const whole = texts.map((piece) => wrapped(printable(piece.text), width, piece.font).map((text) => [{ ...piece, text }]));
  if (whole.flat().length <= room) return whole.flat();
  const [op, name, details] = texts;
  const both = widthOf(op.text, op.font) + widthOf(name.text, name.font) + PIECE_GAP;
  return both <= width && 1 + whole[2].length <= room ? [[op, name], ...whole[2]] : [[op], [name], [details]];
}

/** The layout of a node's weights: a small square on its lower right corner.
 * @param {Context} ctx @param {Theme} theme @param {Box} box @param {number} layout */
function paintSwatch(ctx, theme, box, layout) {
  const side = 9;
  const [x, y] = [box.left + box.w - side + 3, box.top + box.h - side + 3];
  ctx.fillStyle = theme.fills[layout];
  ctx.fillRect(x, y, side, side);
  ctx.strokeStyle = theme.borders[layout];
  ctx.lineWidth = Math.min(2, BORDERS[layout].width);
  ctx.setLineDash(BORDERS[layout].dash);
  ctx.strokeRect(x, y, side, side);
  ctx.setLineDash([]);
}

/** Paints the layouts in a group in proportion. Returns the fill below the text. @param {Context} ctx @param {Pane} pane @param {number} index @param {number[]} mix */
export function paintStripes(ctx, pane, index, mix) {
  const { theme } = pane;
  const box = pane.scene.boxes[index];
  const total = mix[0] + mix[1] + mix[2];
  let left = box.left;
  ctx.fillStyle = theme.neutral;
  if (!total) ctx.fillRect(left, box.top, box.w, box.h);
  if (!total) return theme.neutral;
  mix.forEach((count, layout) => {
    ctx.fillStyle = theme.fills[layout];
    ctx.fillRect(left, box.top, (box.w * count) / total, box.h);
    left += (box.w * count) / total;
  });
  return theme.fills[mix.indexOf(Math.max(...mix))];
}

/** The sign of a mark as text. @param {number} mark */
export function sign(mark) {
  return mark === REMOVED ? "\u2212" : SIGNS[mark];
}

/** Lines of text in the middle of a box; each line is cut to the box's width. @param {Context} ctx @param {Box} box @param {Piece[][]} lines @param {number} scale of the text */
function paintLines(ctx, box, lines, scale) {
  const nonEmpty = lines.map((line) => line.filter((piece) => piece.text)).filter((line) => line.length);
  const gap = PIECE_GAP * scale;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  let y = box.y - ((nonEmpty.length - 1) * LINE * scale) / 2;
  for (const line of nonEmpty) {
    let restWidth = box.w - 2 * PADDING;
    const cuts = [];
    for (const piece of line) {
      const cut = cutText(piece.text, piece.font, Math.max(0, restWidth));
      if (!cut.text) break;
      cuts.push({ ...piece, ...cut });
      restWidth -= cut.width + gap;
    }
    let x = box.x - cuts.reduce((sum, cut) => sum + cut.width + gap, -gap) / 2;
    for (const cut of cuts) {
      ctx.font = cut.font;
      ctx.fillStyle = cut.ink;
      ctx.fillText(cut.text, x, y + 0.5);
      x += cut.width + gap;
    }
    y += LINE * scale;
  }
}

/** A mark, removed, added or changed: its outline, colour and sign. @param {Context} ctx @param {Pane} pane @param {Box} box @param {number} mark */
function paintMark(ctx, pane, box, mark) {
  if (mark <= SAME) return;
  const { theme, zoom } = pane;
  ctx.strokeStyle = theme.marks[mark];
  ctx.lineWidth = Math.max(2.2, 1.6 / zoom);
  ctx.setLineDash(mark === REMOVED ? [6, 3.5] : []);
  shapePath(ctx, box, 3);
  ctx.stroke();
  ctx.setLineDash([]);
  if (zoom < TEXT_ZOOM) return;
  const size = Math.max(1, 1 / zoom); // of the sign, as on the screen at zoom 1
  const [x, y, radius] = [box.left + box.w, box.top, 7 * size];
  ctx.fillStyle = theme.marks[mark];
  ctx.beginPath();
  ctx.arc(x, y, radius, 0, 2 * Math.PI);
  ctx.fill();
  const font = `700 ${12 * size}px ${theme.font}`;
  ctx.font = font;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  ctx.fillStyle = inkOn(theme.marks[mark]);
  ctx.fillText(sign(mark), x - widthOf(sign(mark), font) / 2, y + 0.5);
}

/** The outline around a selected box or around a box that a rewrite matched.
 * @param {Context} ctx @param {Pane} pane @param {number} index @param {number} outside @param {number} width @param {string} colour */
export function paintOutline(ctx, pane, index, outside, width, colour) {
  ctx.strokeStyle = colour;
  ctx.lineWidth = Math.max(width, width / pane.zoom / 1.5);
  ctx.setLineDash([]);
  shapePath(ctx, pane.scene.boxes[index], outside);
  ctx.stroke();
}
