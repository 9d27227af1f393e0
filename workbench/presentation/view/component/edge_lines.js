// @ts-check
// Lines of edges whose label changes: one for the label before, one for the label after.

/** @import { Edge, Scene, Version } from "./types.js" */

const APART = 14; // px between the line of a label before and that of the label after
// Of a version of an edge: whether its element type is a narrower one, and the x of a straight line if the way is free.
export const NARROW_AT = 4;
export const X_AT = 5;
const SHARE = 0.3; // place of the label after on its line, as a share of the line; the label before has the rest

/** Adds two lines for each edge whose label changes, behind the scene's own edges: in one pane a comparison shows them.
 * Returns, by edge, the index of its line before; the next one is its line after. @param {Scene} scene */
export function addSeparateLines(scene) {
  const separate = /** @type {Map<number, number>} */ (new Map());
  scene.edges.slice().forEach((edge, index) => {
    if (edge.tick || edge.v.every((version) => isSameLabel(version, edge.v[0]))) return;
    separate.set(index, scene.edges.length);
    const points = lineOf(scene, edge);
    const moved = points.map((value, at) => (at % 2 ? value : value + APART));
    scene.edges.push({ ...edge, v: [], p: withLabelAt(moved, 1 - SHARE) }, { ...edge, v: [], p: withLabelAt(points, SHARE) });
  });
  return separate;
}

/** Whether two versions of an edge have the same label and layout. A label names the element type where types differ. @param {Version} one @param {Version} other */
export function isSameLabel(one, other) {
  return one[2] === other[2] && one[3] === other[3];
}

/** The points of an edge: straight down if the way is free at all its moments. @param {Scene} scene @param {Edge} edge */
function lineOf(scene, edge) {
  const x = edge.v[0][X_AT];
  if (x === undefined || edge.v.some((version) => version[X_AT] !== x)) return edge.p;
  const [a, b] = [scene.boxes[edge.a], scene.boxes[edge.b]];
  return [x, a.top + a.h, x, b.top];
}

/** A line of two points with a third one, so that the middle of its longer part, where the label stands, is at that share.
 * @param {number[]} p @param {number} share */
function withLabelAt(p, share) {
  if (p.length !== 4) return p;
  const cut = share < 0.5 ? 2 * share : 2 * share - 1;
  return [p[0], p[1], p[0] + cut * (p[2] - p[0]), p[1] + cut * (p[3] - p[1]), p[2], p[3]];
}
