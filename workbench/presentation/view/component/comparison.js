// @ts-check
// What differs between two moments of a scene.

import { isFrame, versionAt } from "./scene.js";

/** @import { Box, Scene, Version } from "./types.js" */

export const ABSENT = 0;
export const SAME = 1;
export const REMOVED = 2;
export const ADDED = 3;
export const CHANGED = 4;
export const SIGNS = ["", "", "-", "+", "~"];

/** @param {Version} before @param {Version} after */
function markOf(before, after) {
  if (!before) return after ? ADDED : ABSENT;
  if (!after) return REMOVED;
  return before === after ? SAME : CHANGED;
}

export class Comparison {
  /** @param {Scene} scene @param {number} a @param {number} b @param {boolean} [inOnePane] */
  constructor(scene, a, b, inOnePane = false) {
    this.a = a;
    this.b = b;
    this.inOnePane = inOnePane;
    this.current = -1; // of `changed`: the one that was selected last
    const boxes = scene.boxes.length;
    this.before = new Array(boxes); // versions at moment a; after: at moment b
    this.after = new Array(boxes);
    this.marks = new Uint8Array(boxes);
    this.edgesBefore = new Array(scene.edges.length);
    this.edgesAfter = new Array(scene.edges.length);
    this.edgeMarks = new Uint8Array(scene.edges.length);
    this.groups = new Map(); // by group: its InnerChanges

    scene.boxes.forEach((box, index) => {
      this.before[index] = versionAt(box.v, a);
      this.after[index] = versionAt(box.v, b);
      this.marks[index] = markOf(this.before[index], this.after[index]);
    });
    scene.edges.forEach((edge, index) => {
      this.edgesBefore[index] = versionAt(edge.v, a);
      this.edgesAfter[index] = versionAt(edge.v, b);
      this.edgeMarks[index] = markOf(this.edgesBefore[index], this.edgesAfter[index]);
    });
    for (const index of scene.frames) this.groups.set(index, new InnerChanges(scene, scene.boxes[index], a, b));
    for (const index of scene.closed) {
      const inside = new InnerChanges(scene, scene.boxes[index], a, b);
      this.groups.set(index, inside);
      if (this.marks[index] === SAME && inside.hasChanges) this.marks[index] = CHANGED;
    }
    this.boxes = scene.boxes;
    this.ranks = scene.ranks;
  }

  /** The next (1) or previous (-1) of the boxes that differ, which becomes the current one. @param {number} direction */
  step(direction) {
    const changed = this.changed();
    this.current = this.current < 0 && direction < 0 ? changed.length - 1 : (this.current + direction + changed.length) % changed.length;
    return changed[this.current];
  }

  /** Indices of the boxes that differ, in the graph's order. */
  changed() {
    const indices = /** @type {number[]} */ ([]);
    this.boxes.forEach((box, index) => {
      if (this.marks[index] > SAME && !isFrame(box)) indices.push(index);
    });
    return indices.sort((one, other) => this.ranks[one] - this.ranks[other]);
  }
}

/** Counts inside a group: its nodes by look at both moments, and by mark. */
class InnerChanges {
  /** @param {Scene} scene @param {Box} group @param {number} a @param {number} b */
  constructor(scene, group, a, b) {
    this.scene = scene;
    this.looksBefore = new Map(group.still ?? []); // by look: the number of nodes
    this.looksAfter = new Map(this.looksBefore);
    this.counts = [0, 0, 0, 0, 0]; // by mark
    const members = new Map();
    for (const version of group.inner ?? []) {
      const [from, to, member, look] = version;
      let pair = members.get(member);
      if (!pair) members.set(member, (pair = [null, null]));
      if (a >= from && a < to) {
        pair[0] = version;
        this.looksBefore.set(look, (this.looksBefore.get(look) ?? 0) + 1);
      }
      if (b >= from && b < to) {
        pair[1] = version;
        this.looksAfter.set(look, (this.looksAfter.get(look) ?? 0) + 1);
      }
    }
    for (const [before, after] of members.values()) this.counts[markOf(before, after)]++;
  }

  get hasChanges() {
    return this.counts[REMOVED] + this.counts[ADDED] + this.counts[CHANGED] > 0;
  }

  /** The nodes at one of the moments: by look, how many have which layout, and their number. @param {boolean} isBefore */
  at(isBefore) {
    const looks = isBefore ? this.looksBefore : this.looksAfter;
    const mix = [0, 0, 0];
    for (const [look, count] of looks) mix[this.scene.looks[look].l] += count;
    return { looks, mix, nodes: mix[0] + mix[1] + mix[2], counts: this.counts };
  }
}
