import assert from "node:assert/strict";
import { test } from "node:test";

import { ADDED, CHANGED, Comparison, REMOVED } from "../../workbench/presentation/view/component/comparison.js";
import { comparisonOf } from "../../workbench/presentation/view/component/one_pane.js";
import { AFTER, BOTH, Pane } from "../../workbench/presentation/view/component/pane.js";
import { box, chain } from "./scenes.js";

const EVERYTHING = { left: 0, top: 0, right: 400, bottom: 1000 };

/** The edges that a pane paints, as [label, mark, points]. */
function painted(scene, panes, a, b) {
  const view = { scene, panes, clock: { moments: [a, b] }, comparison: new Comparison(scene, 0, 0, panes !== 1) };
  view.comparison = comparisonOf(view);
  const pane = new Pane(view, panes === 1 ? BOTH : AFTER, EVERYTHING, 1);
  return scene.edges.flatMap((edge, index) => {
    const version = pane.edgeVersion(index);
    return version ? [[scene.words[version[2]], view.comparison.edgeMarks[index], version[5] ?? edge.p]] : [];
  });
}

const WORDS = ["1x8x28x28 NCHW", "1x28x28x8 NHWC"];

test("in one pane, a value that changes its layout has both labels, each on its own edge", () => {
  const scene = chain({ words: [...WORDS], edges: [{ a: 0, b: 1, v: [[0, 1, 0, 0], [1, 2, 1, 1]] }] });
  const [before, after] = painted(scene, 1, 0, 1);
  assert.deepEqual(before, ["\u2212 1x8x28x28 NCHW", REMOVED, [214, 120, 214, 264, 214, 480]]);
  assert.deepEqual(after, ["1x28x28x8 NHWC", ADDED, [200, 120, 200, 336, 200, 480]]);
  assert.deepEqual(painted(scene, 1, 0, 0).map(([label]) => label), ["1x8x28x28 NCHW"]);
});

test("in two panes, each pane has the label of its moment, and the line stays where it was", () => {
  const scene = chain({ words: [...WORDS], edges: [{ a: 0, b: 1, v: [[0, 1, 0, 0], [1, 2, 1, 1]] }] });
  assert.deepEqual(painted(scene, 2, 0, 1), [["1x28x28x8 NHWC", CHANGED, [200, 120, 200, 480]]]);
});

test("in one pane, the label of a removed edge has a sign, and its line goes around a box that came in between", () => {
  const around = [230, 120, 300, 120, 300, 880, 230, 880];
  const edges = [{ a: 0, b: 2, p: around, v: [[0, 1, 0, 0, 0, 200]] }, { a: 0, b: 1, v: [[1, 3, 0, 0]] }, { a: 1, b: 2, v: [[1, 3, 1, 1]] }];
  const boxes = [box("in:x", 200, 100), box("transpose", 200, 500, { v: [[1, 3, 0]] }), box("conv", 200, 900)];
  const [removed, ...others] = painted(chain({ words: [...WORDS], boxes, edges }), 1, 0, 1);
  assert.deepEqual(removed, ["\u2212 1x8x28x28 NCHW", REMOVED, around]);
  assert.deepEqual(others.map(([label]) => label), WORDS);
  const free = [box("in:x", 200, 100), box("transpose", 200, 500, { v: [[2, 3, 0]] }), box("conv", 200, 900)];
  assert.deepEqual(painted(chain({ words: [...WORDS], boxes: free, edges: edges.slice(0, 1) }), 1, 0, 1)[0][2], 200);
});
