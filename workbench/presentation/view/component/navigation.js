// @ts-check
// Moving along the graph by keys, and the neighbourhood of a box.

import { ABSENT } from "./comparison.js";
import { isFrame } from "./scene.js";

/** @import { View } from "./types.js" */

/** @param {View} view @param {number} index */
function exists(view, index) {
  return view.comparison.marks[index] !== ABSENT;
}

/** A box's producers (-1) or consumers (1), those of the straightest edges first.
 * @param {View} view @param {number} index @param {number} direction */
function neighbours(view, index, direction) {
  const { scene, comparison } = view;
  const edges = direction > 0 ? scene.from[index] : scene.into[index];
  const indices = edges
    .filter((edge) => comparison.edgeMarks[edge] !== ABSENT)
    .map((edge) => (direction > 0 ? scene.edges[edge].b : scene.edges[edge].a))
    .filter((other) => exists(view, other));
  const x = scene.boxes[index].x;
  return [...new Set(indices)].sort((one, other) => Math.abs(scene.boxes[one].x - x) - Math.abs(scene.boxes[other].x - x));
}

/** The consumer (1) or producer (-1) with the straightest edge, or -1. @param {View} view @param {number} index @param {number} direction */
export function alongEdge(view, index, direction) {
  return neighbours(view, index, direction)[0] ?? -1;
}

/** The next (1) or previous (-1) box in the graph's order.
 * @param {View} view @param {number} index @param {number} direction */
export function inOrder(view, index, direction) {
  const { boxes, ranks } = view.scene;
  const order = /** @type {number[]} */ ([]);
  boxes.forEach((box, other) => {
    if (exists(view, other) && !isFrame(box)) order.push(other);
  });
  order.sort((one, other) => ranks[one] - ranks[other]);
  return order[order.indexOf(index) + direction] ?? -1;
}

/** The box nearest to the centre of the pane, where moving by keys begins. @param {View} view */
export function nearestToMiddle(view) {
  const { camera } = view.stage;
  const [x, y] = [camera.sceneX(camera.width / 2), camera.sceneY(camera.height / 2)];
  let nearest = -1;
  let minDistance = Infinity;
  view.scene.boxes.forEach((box, index) => {
    const distance = Math.hypot(box.x - x, box.y - y);
    if (distance < minDistance && !isFrame(box) && exists(view, index)) [nearest, minDistance] = [index, distance];
  });
  return nearest;
}

/** The boxes at most `hops` edges away from a box, or from the boxes in an open group.
 * @param {View} view @param {number} index @param {number} hops */
export function within(view, index, hops) {
  const { scene } = view;
  const inside = (/** @type {number} */ other) => scene.scopes(other).includes(index);
  let frontier = isFrame(scene.boxes[index]) ? [...scene.boxes.keys()].filter(inside) : [index];
  const reached = new Set([index, ...frontier]);
  for (let hop = 0; hop < hops; hop++) {
    frontier = frontier.flatMap((box) => [...neighbours(view, box, 1), ...neighbours(view, box, -1)]).filter((box) => !reached.has(box));
    frontier.forEach((box) => reached.add(box));
  }
  return reached;
}
