import assert from "node:assert/strict";
import { test } from "node:test";

import { tracePath } from "../../workbench/presentation/view/component/clipping.js";
import { Comparison } from "../../workbench/presentation/view/component/comparison.js";
import { layoutChangesOf } from "../../workbench/presentation/view/component/layout_changes.js";
import { Marks } from "../../workbench/presentation/view/component/marks.js";
import { inOrder } from "../../workbench/presentation/view/component/navigation.js";
import { paintPane } from "../../workbench/presentation/view/component/painter.js";
import { AFTER, BEFORE, Pane } from "../../workbench/presentation/view/component/pane.js";
import { boxAt } from "../../workbench/presentation/view/component/pick.js";
import { Regions } from "../../workbench/presentation/view/component/regions.js";
import { titlesOf } from "../../workbench/presentation/view/component/titles.js";
import { LOOK, box, chain } from "./scenes.js";

// Node has no canvas: a letter is 7 px wide, and each colour is white.
const CANVAS = { measureText: (text) => ({ width: 7 * text.length }), fillRect: () => undefined, getImageData: () => ({ data: [255, 255, 255, 255] }) };
globalThis.document = { createElement: () => ({ getContext: () => CANVAS }) };

const EVERYTHING = { left: 0, top: 0, right: 2000, bottom: 2000 };

/** A group of 1,000 x 800 px in one of 1,800 x 1,800, with a node in each. */
function nested() {
  return chain({
    width: 2000,
    height: 2000,
    boxes: [
      box("group:outer", 1000, 1000, { kind: "group", open: true, title: "outer", w: 1800, h: 1800, still: [[0, 1], [1, 1]], inner: [] }),
      box("group:inner", 800, 900, { kind: "group", open: true, title: "inner", up: 0, w: 1000, h: 800, still: [[0, 1]], inner: [[0, 1, 0, 0]] }),
      box("a", 800, 900, { up: 1 }),
      box("b", 1500, 1700, { up: 0 }),
    ],
    edges: [{ a: 2, b: 3, v: [[0, 3, 0, 0]] }],
  });
}

function seen(scene, zoom, regions = new Regions()) {
  regions.update(scene, zoom);
  return new Pane({ scene, comparison: new Comparison(scene, 0, 2), regions, theme: { font: "sans-serif" }, colouring: "layout" }, AFTER, EVERYTHING, zoom);
}

/** A pane with nothing dimmed. */
function inPane(scene, zoom) {
  const pane = seen(scene, zoom);
  pane.inFocus = null;
  return pane;
}

/** What is painted of a pane: the texts with their colours, and the fills of rectangles. */
function painted(pane) {
  const [texts, fills] = [[], []];
  const known = { getTransform: () => ({ a: 1, e: 0, f: 0 }), fillText: (text) => texts.push([text, ctx.fillStyle]), fillRect: () => fills.push(ctx.fillStyle) };
  const ctx = new Proxy(known, { get: (target, name) => target[name] ?? (() => undefined) });
  pane.theme = { font: "sans-serif", fills: ["khaki", "peach", "grey"], borders: ["olive", "brown", "black"], lines: ["olive", "brown", "black"], marks: ["", "", "red", "green", "amber"], muted: "muted", neutral: "white" };
  pane.fill = () => "white";
  pane.marks = new Marks();
  pane.selected = -1;
  pane.framed = [];
  pane.inFocus = null;
  paintPane(ctx, pane);
  return { texts, fills };
}

test("a group too small to be read is one box, and what is inside is hidden", () => {
  const scene = nested();
  const { regions } = seen(scene, 0.11);
  assert.deepEqual([0, 1, 2, 3].map((index) => regions.isRegion(index)), [false, true, false, false]);
  assert.deepEqual([0, 1, 2, 3].map((index) => regions.hides(index)), [false, false, true, false]);
  assert.equal(regions.shown(2), 1);
  assert.deepEqual(regions.boxesIn(1), [2]);
});

test("farther away the outer group is one box, near by there is none", () => {
  const scene = nested();
  const far = seen(scene, 0.04).regions;
  assert.ok(far.isRegion(0) && !far.isRegion(1) && far.hides(1) && far.joins(2, 3));
  const near = seen(scene, 0.4).regions;
  assert.ok([0, 1, 2, 3].every((index) => !near.isRegion(index) && !near.hides(index)));
});

test("a region opens at a larger zoom than that at which it closed", () => {
  const scene = nested();
  const regions = new Regions();
  const isRegionAt = (zoom) => {
    regions.update(scene, zoom);
    return regions.isRegion(1);
  };
  assert.deepEqual([0.22, 0.19, 0.22, 0.24, 0.22].map(isRegionAt), [false, true, true, false, false]);
});

test("a group opens when each group in it has room", () => {
  const inner = (/** @type {number} */ number) => box(`group:${number}`, 300 * number + 100, 300, { kind: "group", open: false, up: 0, w: 200, h: 200, still: [[0, 4]], inner: [] });
  const isOpenAt = (/** @type {number} */ zoom, /** @type {number} */ count, height = 2000) => {
    const outer = box("group:outer", 1000, 500, { kind: "group", open: true, w: 2000, h: 1000, still: [[0, 9]], inner: [] });
    return !seen(chain({ boxes: [outer, ...[...Array(count).keys()].map(inner)], edges: [], width: 2000, height }), zoom).regions.isRegion(0);
  };
  assert.deepEqual([isOpenAt(0.12, 1), isOpenAt(0.12, 6), isOpenAt(0.17, 6)], [true, false, true]);
  assert.deepEqual([isOpenAt(0.12, 6, 1100), isOpenAt(0.12, 20, 1100)], [true, false]); // it is most of the graph
});

test("pointing finds the region, not the boxes in it; and boxes once it is open", () => {
  assert.equal(boxAt(seen(nested(), 0.11), 800, 900), 1);
  assert.equal(boxAt(seen(nested(), 0.2), 800, 900), 2);
});

test("a region counts what changed inside", () => {
  assert.deepEqual(seen(nested(), 0.11).inside(1).counts, [0, 0, 1, 0, 0]);
});

test("titles do not cover each other nor regions, and stay visible when their group begins outside", () => {
  const scene = nested();
  assert.deepEqual(titlesOf(seen(scene, 0.11)).map(({ text }) => text), ["outer"]);
  const pane = seen(scene, 0.5);
  pane.region = { left: 400, top: 700, right: 1400, bottom: 1200 };
  const titles = titlesOf(pane);
  assert.deepEqual(titles.map(({ text }) => text), ["outer", "inner"]);
  assert.ok(titles[0].area.top >= 0 && titles[1].area.top >= titles[0].area.bottom);
});

test("a closed group says what a region says, the shape of its result, and how many it stands for; a label is in the colour of its edge's mark", () => {
  const inside = { kind: "group", title: "stage", w: 600, h: 240, still: [[0, 2], [1, 1]], inner: [], same: "x3 identical" };
  const group = (/** @type {boolean} */ open) => chain({ boxes: [box("group:stage", 400, 400, { ...inside, open, v: [[0, 3, open ? -1 : 0]] }), box("a", 400, 800)], edges: [] });
  const [closed, open] = [painted(seen(group(false), 0.29)), painted(seen(group(true), 0.29))];
  assert.deepEqual(closed.texts.map(([text]) => text), ["stage \u00d73", "NCHW", "3 nodes"]);
  assert.deepEqual(open.texts.map(([text]) => text), ["stage", "3 nodes", "x3 identical"]);
  const fills = (/** @type {{ fills: string[] }} */ picture) => picture.fills.filter((fill) => fill === "khaki" || fill === "peach" || fill === "grey");
  assert.deepEqual(fills(closed), fills(open));
  const labels = painted(seen(chain(), 1)).texts.filter(([text]) => text.startsWith("1x8"));
  assert.deepEqual(labels, [["1x8 NCHW", "green"]]);
});

test("nodes that change the layout have a label at the nearer border of their region, one for all of them", () => {
  const [nchw, nhwc] = [{ ...LOOK, x: "NCHW" }, { ...LOOK, x: "NHWC" }];
  const inside = { kind: "group", open: true, title: "stage", w: 600, h: 600, still: [[0, 1], [1, 1]], inner: [] };
  const boxes = [
    box("group:stage", 400, 400, { ...inside, v: [[0, 3, -1]] }), box("in:x", 400, 50, { kind: "input" }), box("const:w", 100, 50, { kind: "constant", v: [[0, 3, 1]] }),
    box("t", 300, 200, { up: 0, v: [[0, 3, 1]] }), box("u", 500, 220, { up: 0, v: [[0, 3, 1]] }), box("r", 400, 600, { up: 0, v: [[0, 1, 0], [1, 3, 1]] }),
  ];
  const edges = [[1, 3], [2, 3], [1, 4], [3, 5]].map(([a, b]) => ({ a, b, v: [[0, 3, 0, 0]] }));
  const scene = chain({ width: 800, boxes, edges, looks: [nchw, nhwc] });
  const [label, ...others] = layoutChangesOf(inPane(scene, 0.15));
  assert.deepEqual([label.text, others.length], ["2 x NCHW to NHWC", 0], "r is in the layout of t at this moment");
  assert.equal((label.area.top + label.area.bottom) / 2, 100 * 0.15);
  assert.deepEqual(layoutChangesOf(inPane(scene, 0.5)), [], "a box has text at that zoom");
});

test("a node of both graphs has the time of the graph in its pane", () => {
  const scene = chain({ looks: [{ ...LOOK, us: 2, us0: 3 }, LOOK] });
  const us = (side) => new Pane({ scene, comparison: new Comparison(scene, 0, 2), regions: new Regions(), theme: {}, colouring: "us" }, side, EVERYTHING, 1).lookOf(2).us;
  assert.deepEqual([us(BEFORE), us(AFTER)], [3, 2]);
});

test("walking follows the graph's order, also where columns put a later box higher", () => {
  const scene = chain({ boxes: [box("a", 100, 900), box("b", 300, 100), box("c", 300, 500), box("chip", 100, 950, { chip: 1 })], edges: [{ a: 0, b: 3, v: [[0, 3, 0, 0]] }] });
  const view = { scene, comparison: new Comparison(scene, 0, 0) };
  assert.deepEqual([inOrder(view, 0, 1), inOrder(view, 3, 1), inOrder(view, 1, 1)], [3, 1, 2]);
});

test("only what is visible of a line is painted, and dashes keep their places", () => {
  const calls = [];
  const ctx = { moveTo: (x, y) => calls.push(["move", x, y]), lineTo: (x, y) => calls.push(["line", x, y]) };
  const region = { left: 0, top: 1000, right: 200, bottom: 1200 };
  tracePath(ctx, [100, 0, 100, 5000, 900, 5000], region, 5);
  assert.deepEqual(calls, [["move", 100, 960], ["line", 100, 1240]]);
  calls.length = 0;
  tracePath(ctx, [10, 1100, 50, 1150, 50, 1180], region, 5);
  assert.deepEqual(calls, [["move", 10, 1100], ["line", 50, 1150], ["line", 50, 1180]], "all of it, in one piece");
});
