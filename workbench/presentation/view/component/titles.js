// @ts-check
// Titles of open groups, closed groups, and regions: open groups that are painted as one box. Their text can be read at each zoom, and none
// covers another.

import { ADDED, CHANGED, REMOVED, SAME } from "./comparison.js";
import { paintStripes, sign } from "./boxes.js";
import { HIT_SIGN, QUERY } from "./marks.js";
import { layoutChange } from "./layout_changes.js";
import { isFrame, isStack, SHEET } from "./scene.js";
import { boldFont, cutText, duration, thousands, wrapped } from "./text_metrics.js";
import { inkOn } from "./theme.js";

/** @import { Box, Context, Extent, Pane } from "./types.js" */

const TITLE_FONT = 12; // px on the screen
const LINE_FONT = 11; // px on the screen, of the lines below a group's title
const [TITLE_LINE, MIN_LINE] = [15, 13]; // px on the screen between two lines, and between two lines that would not have room otherwise
const TITLE_MARGIN = 5;
const STRIP = 10; // px on the screen at an open group's top and bottom without text
const SHARE_HEIGHT = 3; // px on the screen
const MAX_STACK = 5; // titles of nested groups, one below another
const GROWTHS = [1.4, 1.2]; // of text in a box that has the room
const PANE_LABEL = 60; // px on the screen in a pane's upper right corner, for its label
const MIN_TITLE = 50; // px on the screen; a narrower group has no title

/** The titles of the groups that a pane shows, outermost first, where none covers another. The areas are in px of the
 * pane. A title stays visible when its group begins outside the pane.
 * @param {Pane} pane @returns {{ index: number, text: string, area: Extent }[]} */
export function titlesOf(pane) {
  const { scene, regions, region, zoom, theme } = pane;
  const titles = /** @type {{ index: number, text: string, area: Extent }[]} */ ([]);
  const width = (region.right - region.left) * zoom;
  const taken = [{ left: width - PANE_LABEL, right: width, top: 0, bottom: TITLE_LINE }, ...regionAreas(pane)];
  for (const index of scene.frames) {
    const box = scene.boxes[index];
    if (regions.cover[index] >= 0 || !pane.seesBox(box) || !pane.shows(index) || box.w * zoom < MIN_TITLE) continue;
    const left = (Math.max(box.left, region.left) - region.left) * zoom + TITLE_MARGIN;
    const right = (Math.min(box.left + box.w, region.right) - region.left) * zoom;
    const bottom = (box.top + box.h - region.top) * zoom;
    const mark = pane.comparison.marks[index]; // only a fused group has one: a rewrite creates it
    const text = [mark > SAME ? sign(mark) : "", box.title || box.id, box.same].filter(Boolean).join("   ");
    const cut = cutText(text, boldFont(TITLE_FONT, theme.font), right - left - TITLE_MARGIN);
    if (!cut.text) continue;
    const highest = Math.max(box.top - region.top, 0) * zoom + 2;
    let top = highest;
    const over = () => taken.find((area) => area.left < left + cut.width + TITLE_MARGIN && area.right > left - TITLE_MARGIN && area.top < top + TITLE_LINE && area.bottom > top);
    for (let other = over(); other; other = over()) top = other.bottom + 1;
    if (top + TITLE_LINE > bottom || top > highest + MAX_STACK * TITLE_LINE) continue;
    const area = { left: left - 2, right: left + cut.width + 2, top, bottom: top + TITLE_LINE };
    titles.push({ index, text: cut.text, area });
    taken.push(area);
  }
  return titles;
}

/** The closed groups that a pane shows. @param {Pane} pane */
export function closedGroups(pane) {
  const { scene, regions } = pane;
  return scene.closed.filter((index) => !regions.hides(index) && pane.seesBox(scene.boxes[index]) && pane.shows(index));
}

/** The areas of the visible regions in px of the pane, without a strip that a title may cover. @param {Pane} pane */
function regionAreas(pane) {
  const { scene, regions, region, zoom } = pane;
  const shown = scene.frames.filter((index) => regions.isRegion(index) && pane.seesBox(scene.boxes[index]));
  return [...shown, ...closedGroups(pane)].map((index) => {
    const { left, top, w, h } = scene.boxes[index];
    return { left: (left - region.left) * zoom, right: (left + w - region.left) * zoom, top: (top - region.top) * zoom + stripOf(scene.boxes[index]), bottom: (top + h - region.top) * zoom };
  });
}

/** Px on the screen at a region's top and bottom without text: an outer group's title may begin there. @param {Box} box */
function stripOf({ open }) {
  return open ? STRIP : 2;
}

/** @param {Context} ctx @param {Pane} pane */
export function paintTitles(ctx, pane) {
  const { theme, zoom, region } = pane;
  const font = boldFont(TITLE_FONT / zoom, theme.font);
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  for (const { text, area } of titlesOf(pane)) {
    const [left, top] = [area.left / zoom + region.left, area.top / zoom + region.top];
    ctx.globalAlpha = 0.85;
    ctx.fillStyle = theme.panel;
    ctx.fillRect(left, top, (area.right - area.left) / zoom, TITLE_LINE / zoom);
    ctx.globalAlpha = 1;
    ctx.font = font;
    ctx.fillStyle = theme.ink;
    ctx.fillText(text, left + 2 / zoom, top + TITLE_LINE / 2 / zoom);
  }
}

/** A closed group, or a region: the layouts in proportion, or its latency or hits, with its title and what changed inside.
 * @param {Context} ctx @param {Pane} pane @param {number} index */
export function paintGroup(ctx, pane, index) {
  const { scene, theme, zoom } = pane;
  const box = scene.boxes[index];
  const inside = pane.inside(index);
  const mark = box.open ? (inside.counts.slice(REMOVED).some(Boolean) ? CHANGED : SAME) : pane.comparison.marks[index];
  ctx.globalAlpha = pane.isDim(index) ? 0.3 : 1;
  ctx.setLineDash([]);
  ctx.strokeStyle = theme.neutralBorder;
  ctx.lineWidth = 1 / zoom;
  if (isStack(box)) paintSheets(ctx, pane, box);
  const fill = pane.colouring === "layout" ? paintStripes(ctx, pane, index, inside.mix) : paintFill(ctx, pane, index);
  if (mark > SAME) {
    ctx.strokeStyle = theme.marks[mark];
    ctx.lineWidth = 2 / Math.min(zoom, 1);
    ctx.setLineDash(mark === REMOVED ? [6 / zoom, 3.5 / zoom] : []);
  }
  ctx.strokeRect(box.left, box.top, box.w, box.h);
  ctx.setLineDash([]);
  paintShare(ctx, pane, index, inkOn(fill));
  paintGroupText(ctx, pane, index, groupLines(pane, index, inside), inkOn(fill));
  ctx.globalAlpha = 1;
}

/** A bar at the lower border as long as the group's share of the time or of the FLOPs. @param {Context} ctx @param {Pane} pane @param {number} index @param {string} ink */
function paintShare(ctx, pane, index, ink) {
  const { left, top, w, h } = pane.scene.boxes[index];
  const [share, height] = [pane.shareOf(index), SHARE_HEIGHT / Math.min(pane.zoom, 1)];
  ctx.fillStyle = ink;
  ctx.fillRect(left, top + h - height, w * Math.min(share, 1), height);
}

/** The sheets behind a stack. @param {Context} ctx @param {Pane} pane @param {Box} box */
function paintSheets(ctx, { theme }, box) {
  ctx.fillStyle = theme.panel;
  for (const shift of [2 * SHEET, SHEET]) {
    ctx.fillRect(box.left + shift, box.top + shift, box.w, box.h);
    ctx.strokeRect(box.left + shift, box.top + shift, box.w, box.h);
  }
}

/** One fill; of a region by numbers or hits that of its boxes. @param {Context} ctx @param {Pane} pane @param {number} index */
function paintFill(ctx, pane, index) {
  const box = pane.scene.boxes[index];
  const isMarked = pane.colouring === QUERY || pane.marks.columns.length > 0;
  const fill = box.open && isMarked ? fillInside(pane, index) : pane.fillOf(index);
  ctx.fillStyle = fill;
  ctx.fillRect(box.left, box.top, box.w, box.h);
  return fill;
}

/** @param {Pane} pane @param {number} region */
function fillInside(pane, region) {
  if (pane.hits(region)) return pane.theme.hit;
  const boxes = pane.regions.boxesIn(region).filter((index) => !isFrame(pane.scene.boxes[index]) && pane.shows(index));
  const largest = pane.marks.largest(pane.colouring, boxes);
  return largest === undefined ? pane.fillOf(region) : pane.fillOf(largest, pane.lookOf(largest));
}

/** The lines of a closed group or region, what is asked for most first. @param {Pane} pane @param {number} index @param {ReturnType<Pane["inside"]>} inside */
function groupLines(pane, index, { nodes, counts }) {
  const box = pane.scene.boxes[index];
  const look = pane.lookOf(index); // of a closed group: its operators are its name, its result's shape its details
  const [hits, number, us, flops] = [pane.hits(index), pane.ownNumber(index), pane.timeOf(index), pane.flopsOf(index)];
  const changes = [REMOVED, ADDED, CHANGED].filter((mark) => counts[mark]).map((mark) => `${sign(mark)}${thousands(counts[mark])}`).join(" ");
  const size = `${thousands(nodes)} ${nodes === 1 ? "node" : "nodes"}`;
  const coloured = hits ? `${HIT_SIGN} ${thousands(hits)} found` : number ? `at most ${number}` : "";
  const cost = us !== null ? duration(us) : flops && !pane.scene.measured ? `${flops} % of FLOPs` : "";
  const title = [box.title || box.id, isStack(box) ? box.same?.replace(/^x(\S+).*/, "\u00d7$1") : ""].filter(Boolean).join(" ");
  const copies = isStack(box) ? "" : box.same;
  return [title, coloured, look?.d, cost, [size, changes].filter(Boolean).join(", "), transposesIn(pane, index), look?.name, copies].map((line) => line ?? "").filter(Boolean);
}

/** How many Transposes a region has that do not change the layout, which have a label; where its colour is the layout.
 * @param {Pane} pane @param {number} region */
function transposesIn(pane, region) {
  if (pane.colouring !== "layout") return "";
  const isCounted = (/** @type {number} */ index) => pane.lookOf(index)?.op === "Transpose" && !layoutChange(pane, index);
  const count = pane.regions.boxesIn(region).filter(isCounted).length;
  return count ? `${thousands(count)} ${count === 1 ? "Transpose" : "Transposes"}` : "";
}

/** Lines in the middle of a box, as many as have room, each cut to its width. They are TITLE_FONT or more on the screen.
 * @param {Context} ctx @param {Pane} pane @param {number} index @param {string[]} lines @param {string} ink */
function paintGroupText(ctx, pane, index, lines, ink) {
  const { theme } = pane;
  const zoom = Math.min(pane.zoom, 1); // above 1 the text grows with the box
  const box = pane.scene.boxes[index];
  const fitted = fittedText(pane, box, lines);
  if (!fitted) return;
  const { shown, titles, height } = fitted;
  const scale = growth(fitted);
  const step = Math.min(TITLE_LINE * scale, height / shown.length) / zoom;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  ctx.fillStyle = ink;
  shown.forEach(({ text, width }, line) => {
    ctx.font = line < titles ? boldFont((TITLE_FONT * scale) / zoom, theme.font) : `${(LINE_FONT * scale) / zoom}px ${theme.font}`;
    ctx.fillText(text, box.x - (width * scale) / 2 / zoom, box.y + (line - (shown.length - 1) / 2) * step);
  });
}

/** The lines that have room in a box, the number of those that are its title, and the px on the screen that they have; null
 * without room. @param {Pane} pane @param {Box} box @param {string[]} lines */
function fittedText({ zoom, theme }, box, lines) {
  const scale = Math.min(zoom, 1);
  const [space, height] = [box.w * scale - 2 * TITLE_MARGIN, box.h * scale - 2 * stripOf(box)];
  const room = Math.floor(height / MIN_LINE);
  if (box.w * scale < MIN_TITLE || room < 1) return null;
  const [bold, plain] = [boldFont(TITLE_FONT, theme.font), `${LINE_FONT}px ${theme.font}`];
  const [title, ...others] = lines;
  const titles = (room > 2 ? wrapped(title, space, bold).slice(0, 2) : [title]).map((text) => cutText(text, bold, space));
  const more = others.flatMap((text) => wrapped(text, space, plain));
  const hasRoom = titles.length + more.length <= room; // else each is one line, and the last ones are left out
  const shown = [...titles, ...(hasRoom ? more : others).map((text) => cutText(text, plain, space))].slice(0, room);
  return { shown, titles: titles.length, space, height };
}

/** How much larger a box's text is where there is room: in few sizes, so that most boxes have the same.
 * @param {NonNullable<ReturnType<typeof fittedText>>} fitted */
function growth({ shown, space, height }) {
  const most = Math.min(space / Math.max(...shown.map(({ width }) => width)), height / (shown.length * TITLE_LINE));
  return GROWTHS.find((size) => size <= most) ?? 1;
}
