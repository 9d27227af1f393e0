import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";
import { test } from "node:test";

import { ADDED, CHANGED, Comparison, REMOVED, SAME } from "../../workbench/presentation/view/component/comparison.js";
import { stubAt } from "../../workbench/presentation/view/component/edges.js";
import { alongEdge, inOrder, nearestToMiddle, within } from "../../workbench/presentation/view/component/navigation.js";
import { AFTER, BEFORE, BOTH, Pane } from "../../workbench/presentation/view/component/pane.js";
import { boxAt } from "../../workbench/presentation/view/component/pick.js";
import { Regions } from "../../workbench/presentation/view/component/regions.js";
import { Rows } from "../../workbench/presentation/view/component/rows.js";
import { unpack, versionAt } from "../../workbench/presentation/view/component/scene.js";
import { box, chain } from "./scenes.js";

const EVERYTHING = { left: 0, top: 0, right: 400, bottom: 1000 };

// Node has no canvas: a letter is 7 px wide.
globalThis.document = { createElement: () => ({ getContext: () => ({ measureText: (text) => ({ width: 7 * text.length }) }) }) };

function pane(scene, side, a, b) {
  return new Pane({ scene, comparison: new Comparison(scene, a, b), regions: new Regions(), theme: { font: "sans-serif" } }, side, EVERYTHING, 1);
}

test("a scene is unpacked as Python packs it", async () => {
  const packed = gzipSync(JSON.stringify({ title: "\u00e9 <b>" })).toString("base64");
  assert.deepEqual(await unpack(packed), { title: "\u00e9 <b>" });
});

test("a version holds from its first moment to before its last", () => {
  const versions = [[0, 1, 7], [3, 5, 8]];
  assert.deepEqual([0, 1, 3, 4, 5].map((t) => versionAt(versions, t)?.[2]), [7, undefined, 8, 8, undefined]);
});

test("straight edges run from border to border", () => {
  const [edge] = chain().edges;
  assert.deepEqual(edge.p, [200, 120, 200, 480]);
  assert.deepEqual(edge.extent, { left: 200, right: 200, top: 120, bottom: 480 });
});

test("what differs between two moments is marked", () => {
  const scene = chain();
  const marks = (a, b) => [...new Comparison(scene, a, b).marks];
  assert.deepEqual(marks(0, 0), [SAME, SAME, SAME]);
  assert.deepEqual(marks(0, 1), [SAME, CHANGED, SAME]);
  assert.deepEqual(marks(0, 2), [SAME, REMOVED, SAME]);
  assert.deepEqual(marks(2, 0), [SAME, ADDED, SAME]);
  assert.deepEqual([...new Comparison(scene, 0, 2).edgeMarks], [REMOVED, REMOVED, ADDED]);
});

test("a closed group counts what differs inside", () => {
  const group = box("group:g", 200, 100, { kind: "group", still: [[0, 2]], inner: [[0, 1, 0, 0], [1, 3, 1, 1]] });
  const scene = chain({ boxes: [group], edges: [] });
  const comparison = new Comparison(scene, 0, 2);
  assert.equal(comparison.marks[0], CHANGED);
  const { nodes, mix, counts } = pane(scene, BEFORE, 0, 2).inside(0);
  assert.deepEqual({ nodes, mix, counts }, { nodes: 3, mix: [3, 0, 0], counts: [0, 0, 1, 1, 0] });
  assert.deepEqual(pane(scene, AFTER, 0, 2).inside(0).mix, [2, 1, 0]);
});

test("a pane shows its own moment, and the place of what is only in the other", () => {
  const scene = chain();
  assert.ok(pane(scene, BEFORE, 0, 2).shows(1) && !pane(scene, AFTER, 0, 2).shows(1) && pane(scene, BOTH, 0, 2).shows(1));
  assert.ok(pane(scene, AFTER, 0, 2).isGhost(1) && !pane(scene, BEFORE, 0, 2).isGhost(1));
});

test("what a rewrite matched has a ring where it is, and none where it is gone", () => {
  const ringed = (side) => {
    const shown = pane(chain(), side, 0, 2);
    shown.framed = [1, 2];
    return [...shown.ringed()];
  };
  assert.deepEqual([ringed(BEFORE), ringed(AFTER), ringed(BOTH)], [[1, 2], [2], [1, 2]]);
});

test("pointing finds boxes, the nearest few pixels round them, and nothing else", () => {
  const whole = pane(chain(), AFTER, 0, 1);
  assert.deepEqual([boxAt(whole, 200, 100), boxAt(whole, 252, 500), boxAt(whole, 260, 500), boxAt(whole, 200, 300)], [0, 1, -1, -1]);
});

test("the title of an open group is what one points at; short-lived nodes lie on top", () => {
  const frame = box("group:f", 200, 500, { kind: "group", open: true, w: 300, h: 800 });
  const scene = chain({ boxes: [frame, box("a", 200, 500, { up: 0 }), box("chip", 200, 500, { up: 0, chip: 1 })], edges: [] });
  const whole = pane(scene, AFTER, 0, 0);
  assert.deepEqual([boxAt(whole, 200, 105), boxAt(whole, 200, 500), boxAt(whole, 200, 300)], [0, 2, -1]);
  assert.deepEqual(scene.scopes(2), [0]);
});

test("values with many readers are stubs at each of them", () => {
  const scene = chain({ edges: [{ a: 0, b: 2, v: [[0, 3, 0, 0]], tick: 1 }, { a: 1, b: 2, v: [[0, 3, 0, 0]], tick: 1 }] });
  const [first, second] = [scene.stubOf(0), scene.stubOf(1)];
  assert.ok(first.x < second.x && first.y === scene.boxes[2].top);
  assert.equal(stubAt(scene, 2, second.x + 2, second.y - 6), 1);
  assert.equal(stubAt(scene, 0, second.x, second.y - 6), -1);
});

test("walking goes along edges that are there, and down the graph", () => {
  const scene = chain();
  const view = (a, b) => ({ scene, comparison: new Comparison(scene, a, b), stage: { camera: { width: 2, height: 2, sceneX: () => 200, sceneY: () => 480 } } });
  assert.equal(alongEdge(view(0, 0), 0, 1), 1);
  assert.equal(alongEdge(view(2, 2), 0, 1), 2, "a is gone by then");
  assert.equal(alongEdge(view(0, 0), 0, -1), -1);
  assert.equal(inOrder(view(0, 0), 0, 1), 1);
  assert.equal(inOrder(view(0, 0), 2, 1), -1);
  assert.equal(nearestToMiddle(view(0, 0)), 1);
  assert.deepEqual([...within(view(0, 0), 0, 1)], [0, 1]);
});

test("rows find all that lies between two heights, each once", () => {
  const rows = new Rows(5000);
  const spans = [[0, 10], [100, 4900], [390, 410], [4800, 4990]];
  spans.forEach(([top, bottom], index) => rows.add(index, top, bottom));
  for (const [top, bottom] of [[0, 50], [395, 405], [2000, 2001], [-500, 9000]]) {
    const found = rows.between(top, bottom);
    assert.equal(new Set(found).size, found.length);
    spans.forEach(([from, to], index) => from <= bottom && to >= top && assert.ok(found.includes(index), `${index} at ${top}`));
  }
});
