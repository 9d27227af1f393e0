// @ts-check
// One pane of a comparison: the moment before, the moment after, or both in one.

import { ABSENT, ADDED, REMOVED } from "./comparison.js";
import { QUERY } from "./marks.js";
import { isFrame } from "./scene.js";
import { mixColours } from "./theme.js";

/** @import { Box, Extent, Look, Version, View } from "./types.js" */

export const BEFORE = "before";
export const AFTER = "after";
export const BOTH = "both";

const SHADES_OF_GROUPS = 24;
export const TEXT_ZOOM = 0.4; // below, boxes have no text that would be smaller than at zoom 1
export const PLAIN_ZOOM = 0.3; // below, boxes are plain rectangles
export const LABEL_ZOOM = 0.6; // below, edges have no labels
export const RING = 7; // px between a box and the ring around it

/**
 * A pane for the painters, with the view's scene, comparison, theme and selection. region: the visible part of the
 * scene, in px of the scene.
 */
export class Pane {
  /** @param {Pick<View, "scene" | "comparison" | "theme" | "fill" | "colouring" | "marks" | "selectedBox" | "framed" | "inFocus" | "regions">} view @param {string} side @param {Extent} region @param {number} zoom */
  constructor(view, side, region, zoom) {
    this.scene = view.scene;
    this.comparison = view.comparison;
    this.theme = view.theme;
    this.fill = view.fill;
    this.colouring = view.colouring;
    this.marks = view.marks;
    this.selected = view.selectedBox;
    this.framed = view.framed;
    this.inFocus = view.inFocus; // boxes that are not dimmed, or null for all
    this.regions = view.regions;
    this.side = side;
    this.region = region;
    this.zoom = zoom;
  }

  /** The version of a box that this pane shows; null if the box exists only in the other pane. @param {number} index */
  boxVersion(index) {
    return this.#version(this.comparison.before[index], this.comparison.after[index]);
  }

  /** The look of a box; a node of both graphs has its time in the graph of this pane. @param {number} index */
  lookOf(index) {
    const look = this.scene.lookOf(this.boxVersion(index));
    return look?.us0 != null && this.#momentOf(index) === 0 ? { ...look, us: look.us0 } : look;
  }

  /** @param {number} index */
  edgeVersion(index) {
    return this.#version(this.comparison.edgesBefore[index], this.comparison.edgesAfter[index]);
  }

  /** @param {Version} before @param {Version} after */
  #version(before, after) {
    if (this.side === BEFORE) return before;
    if (this.side === AFTER) return after;
    return after ?? before;
  }

  /** The fill of a box with that look. @param {number} index @param {Look} [look] */
  fillOf(index, look) {
    const marked = this.marks.fillOf(this.colouring, index, this.#momentOf(index), this.theme);
    if (marked !== undefined) return marked;
    if (this.scene.boxes[index].kind === "group") return this.#fillOfGroup(index);
    return look ? this.fill(look) : this.theme.neutral;
  }

  /** The fill of a group: by latency its time beside that of the slowest group on screen, by memory that of the node with
   * most, else the most frequent fill of its nodes. @param {number} index */
  #fillOfGroup(index) {
    if (this.colouring === "us") return this.#heatOf(this.timeOf(index));
    if (this.colouring === "mb") return this.fill({ mb: this.#ofMoment(index, this.scene.boxes[index].mb) });
    const counts = /** @type {Map<string, number>} */ (new Map());
    for (const [look, count] of this.inside(index).looks) {
      const fill = this.fill(this.scene.looks[look]);
      counts.set(fill, (counts.get(fill) ?? 0) + count);
    }
    return [...counts].sort(([, one], [, other]) => other - one)[0]?.[0] ?? this.theme.neutral;
  }

  /** @param {number | null} us */
  #heatOf(us) {
    if (us === null) return this.theme.neutral;
    const { scene, regions } = this;
    const groups = [...scene.closed.filter((index) => !regions.hides(index)), ...scene.frames.filter((index) => regions.isRegion(index))];
    const slowest = Math.max(...groups.flatMap((index) => scene.boxes[index].us ?? []).map((time) => time ?? 0), 1e-9); // of both panes, so that they can be compared
    return mixColours(this.theme.heat[0], this.theme.heat[1], Math.round((SHADES_OF_GROUPS * us) / slowest) / SHADES_OF_GROUPS);
  }

  /** The time of a group in the graph of this pane: of the first or of the last moment, since only these are measured.
   * @param {number} index */
  timeOf(index) {
    return this.#ofMoment(index, this.scene.boxes[index].us);
  }

  /** Of a number in the first graph and one in the last, the one at this pane's moment; null at any other moment.
   * @param {number} index @param {(number | null)[] | null} [numbers] */
  #ofMoment(index, numbers) {
    const moment = this.#momentOf(index);
    const [first, last] = numbers ?? [null, null];
    if (moment >= this.scene.T) return last;
    return moment === 0 ? first : null;
  }

  /** A closed group's share of the time of this pane's graph, if that was measured, else of its FLOPs. @param {number} index */
  shareOf(index) {
    const { measured } = this.scene;
    if (!measured) return this.flopsOf(index) / 100;
    const [us, total] = [this.timeOf(index), this.#ofMoment(index, measured.totals)];
    return us !== null && total ? us / total : 0; // between the first graph and the last nothing is measured
  }

  /** The percentage of the FLOPs of this pane's graph that are in a closed group: of the first graph, but for the last
   * moment. @param {number} index */
  flopsOf(index) {
    const [first, last] = this.scene.boxes[index].flops ?? [0, 0];
    return this.#momentOf(index) >= this.scene.T ? last : first;
  }

  /** The number of the query's hits in a box; 0 unless the colouring is by query. @param {number} index */
  hits(index) {
    if (this.colouring !== QUERY) return 0;
    const boxes = this.regions.isRegion(index) ? this.regions.boxesIn(index) : [index];
    return boxes.reduce((sum, box) => sum + this.marks.hitsAt(box, this.#momentOf(box)), 0);
  }

  /** The user's own number of a box; "" unless the colouring is by such a number. @param {number} index */
  ownNumber(index) {
    return this.marks.numberText(this.colouring, index);
  }

  /** The moment at which this pane shows a box. @param {number} index */
  #momentOf(index) {
    const { a, b, after } = this.comparison;
    return this.side === BEFORE || (this.side === BOTH && !after[index]) ? a : b;
  }

  /** Whether the box exists only in the other pane. @param {number} index */
  isGhost(index) {
    const mark = this.comparison.marks[index];
    return (mark === ADDED && this.side === BEFORE) || (mark === REMOVED && this.side === AFTER);
  }

  /** @param {number} index */
  shows(index) {
    return this.comparison.marks[index] !== ABSENT && this.boxVersion(index) !== null;
  }

  /** The boxes with a ring: of those that a rewrite matched, what this pane shows. A closed group has it for its nodes. */
  ringed() {
    const { scene, regions } = this;
    const shown = this.framed.filter((box) => scene.boxes[box] && this.shows(box)).map((box) => regions.shown(box));
    return new Set(shown.filter((index) => regions.isRegion(index) || !isFrame(scene.boxes[index])));
  }

  /** @param {number} index */
  isDim(index) {
    const { inFocus, regions } = this;
    if (inFocus === null || inFocus.has(index)) return false;
    return !regions.isRegion(index) || !regions.boxesIn(index).some((box) => inFocus.has(box));
  }

  /** Nodes and layouts inside a closed group, at this pane's moment. @param {number} index */
  inside(index) {
    const group = this.comparison.groups.get(index);
    if (!group) return { looks: /** @type {Map<number, number>} */ (new Map()), nodes: 0, mix: [0, 0, 0], counts: [0, 0, 0, 0, 0] };
    const { after } = this.comparison;
    return group.at(this.side === BEFORE || (this.side === BOTH && !after[index]));
  }

  /** @param {Box} box */
  seesBox(box) {
    const { left, right, top, bottom } = this.region;
    return box.left < right && box.left + box.w > left && box.top < bottom && box.top + box.h > top;
  }
}
