// Small scenes in the format of docs/view.md.

import { Scene } from "../../workbench/presentation/view/component/scene.js";

export const LOOK = { op: "Relu", name: "", d: "NCHW", f: "", x: "", l: 0, w: -1, k: 0, c: 0, p: 0, us: null, us0: null, mb: null };

export function box(id, x, y, more = {}) {
  return { id, kind: "node", x, y, w: 100, h: 40, up: -1, v: [[0, 3, 0]], ...more };
}

/** Three boxes one below the other, x -> a -> b; `a` changes at moment 1 and goes at moment 2. */
export function chain(more = {}) {
  return new Scene({
    id: "1",
    title: "chain",
    T: 2,
    pair: 0,
    nodes: 2,
    width: 400,
    height: 1000,
    target: "NHWC",
    steps: [{ title: "As loaded", first: 0, rewrites: 0 }, { title: "A pass", first: 0, rewrites: 2 }],
    rewrites: [],
    looks: [LOOK, { ...LOOK, op: "Conv", name: "c", l: 1, k: 1, w: 0, us: 10 }],
    boxes: [
      box("in:x", 200, 100, { kind: "input" }),
      box("a", 200, 500, { v: [[0, 1, 0], [1, 2, 1]] }),
      box("b", 200, 900),
    ],
    edges: [
      { a: 0, b: 1, v: [[0, 2, 0, 0]] },
      { a: 1, b: 2, v: [[0, 2, 0, 0]] },
      { a: 0, b: 2, v: [[2, 3, 0, 1]] },
    ],
    words: ["1x8 NCHW"],
    categories: ["elementwise", "convolution"],
    types: ["float32"],
    classes: [],
    measured: null,
    ...more,
  });
}
