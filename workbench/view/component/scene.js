// @ts-check
// A scene as Python made it, with the indices that drawing and pointing need.

import { Rows } from "./rows.js";

/** @import { Box, RawScene, Version } from "./types.js" */

export const HEADER = 20; // px of an open group's frame that carry its title

/** Base64 of gzip of JSON, as scenes travel. @param {string} base64 */
export async function unpack(base64) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(unpacked).json();
}

/** The version [from, to, ...] that holds at moment t, or null. @param {Version[]} versions @param {number} t */
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

export class Scene {
  /** @param {RawScene} raw */
  constructor(raw) {
    Object.assign(this, raw);
    this.byId = new Map(this.boxes.map((box, index) => [box.id, index]));
    this.frames = /** @type {number[]} */ ([]); // open groups, outer ones first
    this.closed = /** @type {number[]} */ ([]); // closed groups
    this.chips = /** @type {number[]} */ ([]); // short-lived nodes, on top of everything
    this.boxRows = new Rows(this.height);
    this.edgeRows = new Rows(this.height);
    this.into = this.boxes.map(() => /** @type {number[]} */ ([]));
    this.from = this.boxes.map(() => /** @type {number[]} */ ([]));
    this.ticks = this.boxes.map(() => /** @type {number[]} */ (null)); // per consumer: the edges drawn as stubs
    this.#indexBoxes();
    this.#indexEdges();
  }

  #indexBoxes() {
    const always = [[0, this.T + 1, -1]];
    this.boxes.forEach((box, index) => {
      box.v ??= always;
      box.left = box.x - box.w / 2;
      box.top = box.y - box.h / 2;
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
        this.ticks[edge.b] ??= [];
        this.ticks[edge.b].push(index);
        return;
      }
      if (!edge.p || edge.p.length < 4) edge.p = straightLine(this.boxes[edge.a], this.boxes[edge.b]);
      const straight = edge.v.flatMap((version) => (version[4] === undefined ? [] : [version[4], edge.p[1]]));
      edge.extent = extentOf([...edge.p, ...straight]);
      this.edgeRows.add(index, edge.extent.top, edge.extent.bottom);
    });
  }

  /** The open groups round a box, outermost first. @param {number} index */
  scopes(index) {
    const found = [];
    for (let up = this.boxes[index].up ?? -1; up >= 0; up = this.boxes[up].up ?? -1) found.unshift(up);
    return found;
  }

  /** What a box is called in one line, at its last version. @param {number} index */
  nameOf(index) {
    const box = this.boxes[index];
    if (box.kind === "group") return box.title || box.id;
    const look = this.lookOf(box.v[box.v.length - 1]);
    return look ? look.name || look.op : box.id.replace(/^(in|out|const):/, "");
  }

  /** @param {Version} version */
  lookOf(version) {
    return version ? this.looks[version[2]] : undefined;
  }

  /** Where the stub of a high fan-out edge stands: x of the stub and y of the consumer's upper border. @param {number} edgeIndex */
  stubOf(edgeIndex) {
    const edge = this.edges[edgeIndex];
    const box = this.boxes[edge.b];
    const siblings = this.ticks[edge.b];
    // Stubs share the left half, so that they leave the middle to the edges that come in.
    const x = box.left + 8 + (siblings.indexOf(edgeIndex) * Math.max(0, box.w / 2 - 16)) / Math.max(1, siblings.length - 1);
    return { x, y: box.top };
  }
}

/** @param {number[]} points */
function extentOf(points) {
  const extent = { left: Infinity, right: -Infinity, top: Infinity, bottom: -Infinity };
  for (let place = 0; place < points.length; place += 2) {
    extent.left = Math.min(extent.left, points[place]);
    extent.right = Math.max(extent.right, points[place]);
    extent.top = Math.min(extent.top, points[place + 1]);
    extent.bottom = Math.max(extent.bottom, points[place + 1]);
  }
  return extent;
}

/** @param {Box} from @param {Box} to */
function straightLine(from, to) {
  return [...borderPoint(from, to.x, to.y), ...borderPoint(to, from.x, from.y)];
}

/** Where the line from the box's centre towards a point leaves the box. @param {Box} box @param {number} x @param {number} y */
function borderPoint(box, x, y) {
  const dx = x - box.x;
  const dy = y - box.y;
  if (!dx && !dy) return [box.x, box.y];
  const share = Math.min(box.w / 2 / Math.abs(dx || 1e-9), box.h / 2 / Math.abs(dy || 1e-9), 1);
  return [box.x + dx * share, box.y + dy * share];
}
