import assert from "node:assert/strict";
import { test } from "node:test";

import { colouringsOf, colourText, fillBy, legendOf } from "../../workbench/presentation/view/component/colouring.js";
import { Comparison } from "../../workbench/presentation/view/component/comparison.js";
import { dotOf } from "../../workbench/presentation/view/component/dot.js";
import { KEYS } from "../../workbench/presentation/view/component/keys.js";
import { HIT_SIGN, Marks } from "../../workbench/presentation/view/component/marks.js";
import { AFTER, Pane } from "../../workbench/presentation/view/component/pane.js";
import { duration, megabytes, printable, thousands } from "../../workbench/presentation/view/component/text_metrics.js";
import { box, chain } from "./scenes.js";

const THEME = { fills: ["#EEE8AA", "#FFDAB9", "#D3D3D3"], borders: [], palette: ["#111111", "#222222"], neutral: "#fff", fused: "#333333" };

function dot(scene, t, colouring = "layout", fill = fillBy(colouring, scene, THEME)) {
  const view = { scene, comparison: new Comparison(scene, 0, t), theme: THEME, fill, colouring, marks: new Marks() };
  return dotOf(new Pane(view, AFTER, {}, 1));
}

test("numbers are written in the unit that reads best", () => {
  assert.deepEqual([0.5, 999, 1500, 2.5e6].map(duration), ["0.5 \u00b5s", "999 \u00b5s", "1.50 ms", "2.50 s"]);
  assert.deepEqual([0, 0.05, 12.34, 1500].map(megabytes), ["0 MB", "50 kB", "12.3 MB", "1.50 GB"]);
  assert.equal(thousands(1234567), "1,234,567");
});

test("what would not print, or turn its surroundings round, is a dot", () => {
  assert.equal(printable("a\u0000b\u202ec\n"), "a\u00b7b\u00b7c\u00b7");
  assert.equal(printable(null), "");
  assert.equal(printable("x".repeat(9999)).length, 400);
  assert.equal(printable("\ud800"), "\ufffd");
});

test("latency and memory colour only what was measured", () => {
  assert.ok(!colouringsOf(chain()).some(([key]) => key === "us"));
  assert.ok(colouringsOf(chain({ measured: { us: [1, 10], mb: [1, 2] } })).some(([key]) => key === "us"));
});

test("modules colour where the model has them, and say how many share a colour", () => {
  assert.ok(!colouringsOf(chain()).some(([key]) => key === "module"));
  const modules = Array.from({ length: 14 }, (_, index) => `layer.${index}`);
  const scene = chain({ modules });
  assert.ok(colouringsOf(scene).some(([key]) => key === "module"));
  const look = { ...scene.looks[0], m: 1 };
  assert.equal(fillBy("module", scene, THEME)(look), legendOf("module", scene, THEME)[1].fill);
  assert.equal(colourText("module", look, scene), "layer.1");
  assert.equal(fillBy("module", scene, THEME)({ ...look, m: -1 }), THEME.neutral);
  assert.equal(legendOf("module", scene, THEME).at(-1).text, "no module; 2 more modules share these colours");
});

test("ONNX Runtime's providers colour once they are asked", () => {
  assert.ok(!colouringsOf(chain({ providers: [] })).some(([key]) => key === "provider"));
  const scene = chain({ providers: ["CPUExecutionProvider", "fused or folded by ONNX Runtime"] });
  assert.ok(colouringsOf(scene).some(([key]) => key === "provider"));
  const look = { ...scene.looks[0], e: 1 };
  assert.equal(fillBy("provider", scene, THEME)(look), legendOf("provider", scene, THEME)[1].fill);
  assert.equal(colourText("provider", look, scene), "fused or folded by ONNX Runtime");
  assert.equal(colourText("provider", { ...look, e: -1 }, scene), "not asked");
});

test("fill, legend and words say the same of a look", () => {
  const scene = chain();
  const look = scene.looks[1];
  assert.equal(fillBy("layout", scene, THEME)(look), THEME.fills[1]);
  assert.equal(fillBy("category", scene, THEME)(look), legendOf("category", scene, THEME)[1].fill);
  assert.equal(colourText("category", look, scene), legendOf("category", scene, THEME)[1].text);
});

test("no key has two meanings", () => {
  const keys = KEYS.flatMap(([names]) => names);
  assert.equal(new Set(keys).size, keys.length);
});

test("DOT has the boxes and edges of its moment", () => {
  assert.match(dot(chain(), 1), /b1 \[label="Conv\\nc\\nNCHW" tooltip="a" fillcolor="#FFDAB9" style=filled penwidth=2.6\]/);
  assert.match(dot(chain(), 1), /b0 -> b1 \[label="1x8 NCHW"\]/);
  assert.match(dot(chain({ edges: [{ a: 0, b: 1, v: [[0, 2, 0, 0, 1]] }] }), 1), /b0 -> b1 \[label="1x8 NCHW" color="black:invis:black"\]/);
  const after = dot(chain(), 2);
  assert.ok(!after.includes("b1") && after.includes("b0 -> b2"));
});

test("DOT takes nothing in a name as its own", () => {
  const name = 'a"b\\n:<b>\n';
  const text = dot(chain({ title: name, boxes: [box(name, 0, 0)], edges: [] }), 0);
  assert.equal(text.split('"a\\"b\\\\n:<b>\n"').length, 3, "as the title and as the tooltip");
});

test("open groups of DOT are clusters, and colours have six digits", () => {
  const frame = box("group:f", 200, 500, { kind: "group", open: true, title: "f" });
  const empty = box("group:e", 200, 500, { kind: "group", open: true, title: "e" });
  const scene = chain({ boxes: [frame, empty, box("a", 0, 0, { up: 0 })], edges: [] });
  const text = dot(scene, 0, "us", () => "rgb(1, 32, 255)");
  assert.match(text, /subgraph cluster_0 \{\n {4}label="f"\n {4}b2 \[.*fillcolor="#0120ff"/);
  assert.ok(!text.includes("cluster_1"));
  const closed = chain({ boxes: [box("group:g", 0, 0, { kind: "group", title: "g", still: [[1, 1]] })], edges: [] });
  assert.match(dot(closed, 0), /label="g\\n1 node" tooltip="group:g" style=filled fillcolor="#FFDAB9"/);
  assert.match(dot(closed, 0, "pass"), /fillcolor="#ffffff"/);
});

test("hits hold from moment to moment, and only for the query that was asked last", () => {
  const scene = chain("a", "b");
  const marks = new Marks();
  const data = { found: { query: "op:A", hits: [], fault: "" }, marks: [[0, 0, 1, 1], [0, 1, 2, 1], [1, 1, 2, 3]] };
  marks.update(data, "op:A", scene);
  assert.deepEqual([marks.hitsAt(0, 0), marks.hitsAt(1, 0), marks.hitsAt(1, 1)], [1, 0, 3]);
  assert.deepEqual(marks.colourings, [["query", "Query"]]);
  assert.ok(marks.legendOf("query", { hit: "#123456", neutral: "#fff" })[0].text.startsWith(HIT_SIGN));
  marks.update(data, "op:B", scene);
  assert.deepEqual([marks.hits.size, marks.query], [0, ""]); // its hits are still on their way
});

test("one's own numbers are shaded between the ends, and said with their unit", () => {
  const marks = new Marks();
  const ends = { low: "2 us", high: "4 us", origin: "from a.csv" };
  const column = { title: "latency", unit: "us", ...ends, boxes: [[0, 0, "2 us"], [1, 1, "4 us"]] };
  marks.update({ own: { columns: [column, { title: "none", unit: "", boxes: [] }], fault: "", n: 1 } }, "", chain("a"));
  assert.deepEqual(marks.colourings, [["own:0", "latency (us)"]]);
  assert.deepEqual([0, 1, 2].map((index) => marks.numberText("own:0", index)), ["2 us", "4 us", ""]);
  assert.equal(marks.numberText("layout", 0), "");
  assert.deepEqual([marks.largest("own:0", [0, 2, 1]), marks.largest("own:0", [2]), marks.largest("layout", [0, 1])], [1, undefined, undefined]);
  const { low, high, text } = marks.legendOf("own:0", { heat: [] })[0];
  assert.deepEqual([low, high, text], ["2 us", "4 us", "latency, from a.csv"]);
});
