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
  /** @param {Scene} scene @param {number} a @param {number} b */
  constructor(scene, a, b) {
    this.a = a;
    this.b = b;
    const boxes = scene.boxes.length;
    this.before = new Array(boxes); // versions at a and at b
    this.after = new Array(boxes);
    this.marks = new Uint8Array(boxes);
    this.edgesBefore = new Array(scene.edges.length);
    this.edgesAfter = new Array(scene.edges.length);
    this.edgeMarks = new Uint8Array(scene.edges.length);
    this.groups = new Map(); // closed group: what differs inside

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
    for (const index of scene.closed) {
      const inside = new InnerChanges(scene.boxes[index], a, b);
      this.groups.set(index, inside);
      if (this.marks[index] === SAME && inside.any) this.marks[index] = CHANGED;
    }
    this.boxes = scene.boxes;
  }

  /** Boxes that differ, from top to bottom. */
  changed() {
    const found = /** @type {number[]} */ ([]);
    this.boxes.forEach((box, index) => {
      if (this.marks[index] > SAME && !isFrame(box)) found.push(index);
    });
    return found.sort((one, other) => this.boxes[one].y - this.boxes[other].y || this.boxes[one].x - this.boxes[other].x);
  }
}

/** Counts inside a closed group: its nodes and their layouts at both moments, and what differs. */
class InnerChanges {
  /** @param {Box} group @param {number} a @param {number} b */
  constructor(group, a, b) {
    this.nodesBefore = this.nodesAfter = group.n ?? 0;
    this.mixBefore = [...(group.mix ?? [0, 0, 0])];
    this.mixAfter = [...this.mixBefore];
    this.counts = [0, 0, 0, 0, 0]; // by mark
    const members = new Map();
    for (const version of group.inner ?? []) {
      const [from, to, member, layout] = version;
      let pair = members.get(member);
      if (!pair) members.set(member, (pair = [null, null]));
      if (a >= from && a < to) {
        pair[0] = version;
        this.nodesBefore++;
        this.mixBefore[layout]++;
      }
      if (b >= from && b < to) {
        pair[1] = version;
        this.nodesAfter++;
        this.mixAfter[layout]++;
      }
    }
    for (const [before, after] of members.values()) this.counts[markOf(before, after)]++;
  }

  get any() {
    return this.counts[REMOVED] + this.counts[ADDED] + this.counts[CHANGED] > 0;
  }
}
