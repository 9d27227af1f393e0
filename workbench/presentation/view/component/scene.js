// @ts-check
// A scene from Python, with the indices for painting and picking.

import { addSeparateLines, X_AT } from "./edge_lines.js";
import { Rows } from "./rows.js";

export const SHEET = 2.5; // px by which a sheet of a stack stands out; two of them leave room for the label of a line below

/** @import { Box, RawScene, Version } from "./types.js" */

/** Unpacks base64 of gzip of JSON, the format of scenes. @param {string} base64 */
export async function unpack(base64) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(unpacked).json();
}

/** The version [from, to, ...] with from <= t < to, or null. @param {Version[]} versions @param {number} t */
export function versionAt(versions, t) {
  for (const version of versions) {
    if (t >= version[0] && t < version[1]) return version;
  }
  return null;
}

/** @param {Box} box */
export function isFrame(box) {
  return box.kind === "group" && box.open;
}

/** Whether a closed group is a stack of identical blocks. @param {Box} box */
export function isStack({ open, same }) {
  return !open && Boolean(same?.startsWith("x"));
}

/** @type {RawScene} what a view has before its first scene */
export const EMPTY = {
  id: "", title: "", T: 0, pair: 0, nodes: 0, width: 1, height: 1, target: "", own: false, measured: null,
  steps: [], rewrites: [], looks: [], boxes: [], edges: [], words: [], widths: [], categories: [], types: [], classes: [], modules: [], providers: [],
};

export class Scene {
  /** @param {RawScene} raw */
  constructor(raw) {
    Object.assign(this, raw);
    this.byId = new Map(this.boxes.map((box, index) => [box.id, index]));
    this.frames = /** @type {number[]} */ ([]); // open groups, outer ones first
    this.closed = /** @type {number[]} */ ([]); // closed groups
    this.groupsIn = /** @type {Map<number, number>} */ (new Map()); // by open group: the number of groups directly inside
    this.chips = /** @type {number[]} */ ([]); // short-lived nodes, which are painted on top
    this.boxRows = new Rows(this.height);
    this.edgeRows = new Rows(this.height);
    this.into = this.boxes.map(() => /** @type {number[]} */ ([]));
    this.from = this.boxes.map(() => /** @type {number[]} */ ([]));
    this.ticks = this.boxes.map(() => /** @type {number[]} */ ([])); // per consumer: the edges drawn as stubs
    this.#indexBoxes();
    this.#indexEdges();
    this.layoutChanges = this.#layoutChanges();
    this.ranks = this.#ranks();
    this.separate = addSeparateLines(this);
    for (let index = this.separate.values().next().value ?? this.edges.length; index < this.edges.length; index++) this.#addToRows(index);
  }

  #indexBoxes() {
    const always = [[0, this.T + 1, -1]];
    this.boxes.forEach((box, index) => {
      box.v ??= always;
      box.left = box.x - box.w / 2;
      box.top = box.y - box.h / 2;
      if (box.kind === "group") this.groupsIn.set(box.up, (this.groupsIn.get(box.up) ?? 0) + 1);
      if (isFrame(box)) {
        this.frames.push(index);
        return;
      }
      if (box.kind === "group") this.closed.push(index);
      if (box.chip) this.chips.push(index);
      this.boxRows.add(index, box.top, box.top + box.h);
    });
    this.frames.sort((one, other) => this.scopes(one).length - this.scopes(other).length);
  }

  #indexEdges() {
    this.edges.forEach((edge, index) => {
      this.from[edge.a].push(index);
      this.into[edge.b].push(index);
      if (edge.tick) {
        this.ticks[edge.b].push(index);
        return;
      }
      if (!edge.p || edge.p.length < 4) edge.p = straightLine(this.boxes[edge.a], this.boxes[edge.b]);
      this.#addToRows(index);
    });
  }

  /** Nodes whose result at some moment has another layout than what they read at some moment. */
  #layoutChanges() {
    const layouts = this.boxes.map((box) => new Set(box.v.map((version) => this.lookOf(version)?.x).filter(Boolean)));
    const differs = (/** @type {number} */ index, /** @type {number} */ source) => layouts[source].size > 0 && new Set([...layouts[index], ...layouts[source]]).size > 1;
    return this.boxes.flatMap((box, index) => (box.kind === "node" && this.into[index].some((edge) => differs(index, this.edges[edge].a)) ? [index] : []));
  }

  /** By box, its place in the graph's order; a chip comes after what it reads, a constant before what reads it. */
  #ranks() {
    const ranks = this.boxes.map((_, index) => index);
    for (const index of this.chips) ranks[index] = Math.max(-1, ...this.into[index].map((edge) => ranks[this.edges[edge].a])) + 0.001;
    this.boxes.forEach(({ kind }, index) => {
      if (kind === "constant") ranks[index] = Math.min(...this.from[index].map((edge) => ranks[this.edges[edge].b])) - 0.5;
    });
    return ranks;
  }

  /** @param {number} index */
  #addToRows(index) {
    const edge = this.edges[index];
    const straight = edge.v.flatMap((version) => (version[X_AT] === undefined ? [] : [version[X_AT], edge.p[1]]));
    edge.extent = extentOf([...edge.p, ...straight]);
    this.edgeRows.add(index, edge.extent.top, edge.extent.bottom);
  }

  /** The open groups around a box, outermost first. @param {number} index */
  scopes(index) {
    const groups = [];
    for (let up = this.boxes[index].up ?? -1; up >= 0; up = this.boxes[up].up ?? -1) groups.unshift(up);
    return groups;
  }

  /** The box of that id. @param {string} id */
  boxOf(id) {
    const index = this.byId.get(id);
    return index === undefined ? undefined : this.boxes[index];
  }

  /** The name of a box in one line, from its last version. @param {number} index */
  nameOf(index) {
    const box = this.boxes[index];
    if (box.kind === "group") return box.title || box.id;
    const look = this.lookOf(box.v[box.v.length - 1]);
    return look ? look.name || look.op : box.id.replace(/^(in|out|const):/, "");
  }

  /** @param {Version | null | undefined} version */
  lookOf(version) {
    return version ? this.looks[version[2]] : undefined;
  }

  /** The position of the stub of a high fan-out edge: its x, and the y of the consumer's upper border. @param {number} edgeIndex */
  stubOf(edgeIndex) {
    const edge = this.edges[edgeIndex];
    const box = this.boxes[edge.b];
    const siblings = this.ticks[edge.b];
    // Stubs are in the left half, since edges arrive in the middle.
    const x = box.left + 8 + (siblings.indexOf(edgeIndex) * Math.max(0, box.w / 2 - 16)) / Math.max(1, siblings.length - 1);
    return { x, y: box.top };
  }
}

/** @param {number[]} points */
function extentOf(points) {
  const extent = { left: Infinity, right: -Infinity, top: Infinity, bottom: -Infinity };
  for (let index = 0; index < points.length; index += 2) {
    extent.left = Math.min(extent.left, points[index]);
    extent.right = Math.max(extent.right, points[index]);
    extent.top = Math.min(extent.top, points[index + 1]);
    extent.bottom = Math.max(extent.bottom, points[index + 1]);
  }
  return extent;
}

/** @param {Box} from @param {Box} to */
function straightLine(from, to) {
  return [...borderPoint(from, to.x, to.y), ...borderPoint(to, from.x, from.y)];
}

/** The point of a box's border on the line from its centre to another point. @param {Box} box @param {number} x @param {number} y */
function borderPoint(box, x, y) {
  const dx = x - box.x;
  const dy = y - box.y;
  if (!dx && !dy) return [box.x, box.y];
  const share = Math.min(box.w / 2 / Math.abs(dx || 1e-9), box.h / 2 / Math.abs(dy || 1e-9), 1);
  return [box.x + dx * share, box.y + dy * share];
}
