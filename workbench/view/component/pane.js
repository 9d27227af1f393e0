// @ts-check
// What one pane shows of a comparison: the moment before, the moment after, or both in one.

import { ABSENT, ADDED, REMOVED } from "./comparison.js";
import { QUERY } from "./marks.js";
import { HEADER } from "./scene.js";

/** @import { Box, Extent, Look, Version, View } from "./types.js" */

export const BEFORE = "before";
export const AFTER = "after";
export const BOTH = "both";

export const TEXT_ZOOM = 0.4; // no text below
export const PLAIN_ZOOM = 0.3; // plain rectangles below
export const WORDS_ZOOM = 0.6; // edges have words from here on

/**
 * A pane as the painters take it: `view` lends scene, comparison, theme and what is selected, framed or dimmed;
 * `region` is what is seen, in px of the scene.
 */
export class Pane {
  /** @param {Pick<View, "scene" | "comparison" | "theme" | "fill" | "colouring" | "marks" | "selectedBox" | "framed" | "near">} view @param {string} side @param {Extent} region @param {number} zoom */
  constructor(view, side, region, zoom) {
    this.scene = view.scene;
    this.comparison = view.comparison;
    this.theme = view.theme;
    this.fill = view.fill;
    this.colouring = view.colouring;
    this.marks = view.marks;
    this.selected = view.selectedBox;
    this.framed = view.framed;
    this.near = view.near; // boxes that are not dimmed, or null for all
    this.side = side;
    this.region = region;
    this.zoom = zoom;
  }

  /** The version of a box that this pane shows, or null where it only exists in the other pane. @param {number} index */
  boxVersion(index) {
    return this.#version(this.comparison.before[index], this.comparison.after[index]);
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

  /** The fill of a box that has that look; a closed group has one only for its measured time. @param {number} index @param {Look} look */
  fillOf(index, look) {
    const marked = this.marks.fillOf(this.colouring, index, this.#momentOf(index), this.theme);
    if (marked !== undefined) return marked;
    const box = this.scene.boxes[index];
    if (box.kind === "group") return this.colouring === "us" && box.us != null ? this.fill(box) : this.theme.neutral;
    return look ? this.fill(look) : this.theme.neutral;
  }

  /** How many hits of the query a box has, where colours stand for them. @param {number} index */
  hits(index) {
    return this.colouring === QUERY ? this.marks.hitsAt(index, this.#momentOf(index)) : 0;
  }

  /** The user's own number of a box, where colours stand for it. @param {number} index */
  ownNumber(index) {
    return this.marks.wordsOf(this.colouring, index);
  }

  /** The moment at which this pane shows a box. @param {number} index */
  #momentOf(index) {
    const { a, b, after } = this.comparison;
    return this.side === BEFORE || (this.side === BOTH && !after[index]) ? a : b;
  }

  /** Does the box exist only in the other pane? @param {number} index */
  isGhost(index) {
    const mark = this.comparison.marks[index];
    return (mark === ADDED && this.side === BEFORE) || (mark === REMOVED && this.side === AFTER);
  }

  /** @param {number} index */
  shows(index) {
    return this.comparison.marks[index] !== ABSENT && this.boxVersion(index) !== null;
  }

  /** @param {number} index */
  isDim(index) {
    return this.near !== null && !this.near.has(index);
  }

  /** Nodes and layouts inside a closed group, at this pane's moment. @param {number} index */
  inside(index) {
    const group = this.comparison.groups.get(index);
    if (!group) return { nodes: 0, mix: [0, 0, 0], counts: [0, 0, 0, 0, 0] };
    const before = this.side === BEFORE;
    return { nodes: before ? group.nodesBefore : group.nodesAfter, mix: before ? group.mixBefore : group.mixAfter, counts: group.counts };
  }

  /** @param {Box} box */
  seesBox(box) {
    const { left, right, top, bottom } = this.region;
    return box.left < right && box.left + box.w > left && box.top < bottom && box.top + box.h > top;
  }

  /** Where the title strip of an open group stands: in sight even where the group begins above the pane. @param {Box} box */
  headerOf(box) {
    const top = Math.min(Math.max(box.top, this.region.top + 1), box.top + box.h - HEADER);
    const left = Math.min(Math.max(box.left, this.region.left), box.left + Math.max(0, box.w - 120));
    return { left, top };
  }
}
