// @ts-check
// Moving along the graph without a pointer, and what is near a box.

import { ABSENT } from "./comparison.js";
import { isFrame } from "./scene.js";

/** @import { View } from "./types.js" */

/** @param {View} view @param {number} index */
function alive(view, index) {
  return view.comparison.marks[index] !== ABSENT;
}

/** Boxes on the other side of a box's edges: of its producers (-1) or consumers (1), the straightest first.
 * @param {View} view @param {number} index @param {number} direction */
function along(view, index, direction) {
  const { scene, comparison } = view;
  const edges = direction > 0 ? scene.from[index] : scene.into[index];
  const found = edges
    .filter((edge) => comparison.edgeMarks[edge] !== ABSENT)
    .map((edge) => (direction > 0 ? scene.edges[edge].b : scene.edges[edge].a))
    .filter((other) => alive(view, other));
  const x = scene.boxes[index].x;
  return [...new Set(found)].sort((one, other) => Math.abs(scene.boxes[one].x - x) - Math.abs(scene.boxes[other].x - x));
}

/** The consumer (1) or producer (-1) to go to from here, or -1. @param {View} view @param {number} index @param {number} direction */
export function alongEdge(view, index, direction) {
  return along(view, index, direction)[0] ?? -1;
}

/** The next (1) or previous (-1) box from top to bottom, left to right.
 * @param {View} view @param {number} index @param {number} direction */
export function inOrder(view, index, direction) {
  const { boxes } = view.scene;
  const order = /** @type {number[]} */ ([]);
  boxes.forEach((box, other) => {
    if (alive(view, other) && !isFrame(box)) order.push(other);
  });
  order.sort((one, other) => boxes[one].y - boxes[other].y || boxes[one].x - boxes[other].x);
  return order[order.indexOf(index) + direction] ?? -1;
}

/** The box nearest to the middle of what is seen: where walking begins. @param {View} view */
export function nearestToMiddle(view) {
  const { camera } = view.stage;
  const [x, y] = [camera.sceneX(camera.width / 2), camera.sceneY(camera.height / 2)];
  let best = -1;
  let least = Infinity;
  view.scene.boxes.forEach((box, index) => {
    const distance = Math.hypot(box.x - x, box.y - y);
    if (distance < least && !isFrame(box) && alive(view, index)) [best, least] = [index, distance];
  });
  return best;
}

/** All boxes within so many edges of a box; of an open group, of what is in it.
 * @param {View} view @param {number} index @param {number} hops */
export function within(view, index, hops) {
  const { scene } = view;
  const inside = (/** @type {number} */ other) => scene.scopes(other).includes(index);
  let ring = isFrame(scene.boxes[index]) ? [...scene.boxes.keys()].filter(inside) : [index];
  const found = new Set([index, ...ring]);
  for (let hop = 0; hop < hops; hop++) {
    ring = ring.flatMap((box) => [...along(view, box, 1), ...along(view, box, -1)]).filter((box) => !found.has(box));
    ring.forEach((box) => found.add(box));
  }
  return found;
}
