// @ts-check
// The comparison that a view shows; in one pane, labels before and after are on lines of their own.

import { ABSENT, ADDED, Comparison, REMOVED } from "./comparison.js";
import { isSameLabel, X_AT } from "./edge_lines.js";
import { isFrame } from "./scene.js";

/** @import { Edge, Scene, Version, View } from "./types.js" */

const CLEARANCE = 6; // px between a line and a box
const REMOVED_SIGN = "\u2212";

/** The comparison of the clock's two moments: the view's own one while it is the same. @param {View} view */
export function comparisonOf(view) {
  const { comparison, scene } = view;
  const [a, b] = view.clock.moments;
  const inOnePane = view.panes === 1;
  if (comparison.a === a && comparison.b === b && comparison.boxes === scene.boxes && comparison.inOnePane === inOnePane) return comparison;
  const result = new Comparison(scene, a, b, inOnePane);
  if (inOnePane) separateLabels(result, scene);
  return result;
}

/** Gives a comparison in one pane its edges: a removed label has a sign, and a changed edge two lines.
 * @param {Comparison} comparison @param {Scene} scene */
function separateLabels(comparison, scene) {
  const { edgesBefore, edgesAfter, edgeMarks } = comparison;
  const known = new Map(scene.words.map((text, index) => [text, index]));
  for (const [index, line] of scene.separate) {
    const [before, after] = [edgesBefore[index], edgesAfter[index]];
    if (!before || !after || isSameLabel(before, after)) continue;
    edgesBefore[line] = removedVersion(scene, known, before);
    edgeMarks[line] = REMOVED;
    edgesAfter[line + 1] = after.slice(0, X_AT);
    edgeMarks[line + 1] = ADDED;
    edgesBefore[index] = edgesAfter[index] = null; // its mark stays: keys follow it
  }
  scene.edges.forEach((edge, index) => {
    if (edgeMarks[index] !== REMOVED || !edge.v.length) return;
    const before = removedVersion(scene, known, edgesBefore[index]);
    edgesBefore[index] = isBlocked(comparison, scene, edge, before[X_AT]) ? before.slice(0, X_AT) : before;
  });
}

/** The version with a sign before its label. known: the index of each of the scene's words; new ones are added.
 * @param {Scene} scene @param {Map<string, number>} known @param {Version} version @returns {Version} */
function removedVersion(scene, known, version) {
  const [from, to, word, ...others] = version;
  if (word < 0) return version;
  const text = `${REMOVED_SIGN} ${scene.words[word]}`;
  const index = known.get(text) ?? scene.words.push(text) - 1;
  known.set(text, index);
  return [from, to, index, ...others];
}

/** Whether a box that is shown stands on the straight line of an edge. @param {Comparison} comparison @param {Scene} scene @param {Edge} edge @param {number} x */
function isBlocked(comparison, scene, edge, x) {
  if (x === undefined) return false;
  const [a, b] = [scene.boxes[edge.a], scene.boxes[edge.b]];
  return scene.boxRows.between(a.top + a.h, b.top).some((index) => {
    const box = scene.boxes[index];
    if (index === edge.a || index === edge.b || comparison.marks[index] === ABSENT || isFrame(box)) return false;
    return box.top < b.top && box.top + box.h > a.top + a.h && Math.abs(box.x - x) < box.w / 2 + CLEARANCE;
  });
}
