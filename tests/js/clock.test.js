import assert from "node:assert/strict";
import { test } from "node:test";

import { Clock, THIS_REWRITE, WHOLE_STEP } from "../../workbench/presentation/view/component/clock.js";

const STEPS = [
  { title: "As loaded", first: 0, rewrites: 0 },
  { title: "One", first: 0, rewrites: 2 },
  { title: "None", first: 2, rewrites: 0 },
  { title: "Three", first: 2, rewrites: 3 },
];

function clock() {
  const made = new Clock();
  made.setSteps(STEPS);
  return made;
}

test("it starts where something changed last, and shows the whole step", () => {
  const at = clock();
  at.goToLastChange();
  assert.deepEqual([at.step, at.moments, at.compare], [3, [2, 5], WHOLE_STEP]);
});

test("rewrite by rewrite it goes over the ends of steps, past those without any", () => {
  const at = clock();
  at.goToRewrite(1, 0);
  const seen = [];
  while (at.move(1)) seen.push([at.step, at.t]);
  assert.deepEqual(seen, [[1, 1], [1, 2], [3, 3], [3, 4], [3, 5]]);
  while (at.move(-1)) seen.pop();
  assert.deepEqual([at.step, at.t, seen.length], [1, 0, 0]);
});

test("single rewrites are compared, unless the user chose otherwise", () => {
  const at = clock();
  at.goToRewrite(3, 2);
  assert.deepEqual([at.compare, at.moments], [THIS_REWRITE, [3, 4]]);
  at.choose(WHOLE_STEP);
  at.move(1);
  assert.deepEqual(at.moments, [2, 5]);
});

test("steps without change are passed over while they are hidden", () => {
  const at = clock();
  at.goToStep(1);
  at.moveStep(1);
  assert.equal(at.step, 3);
  at.hideUnchanged = false;
  at.moveStep(-1);
  assert.equal(at.step, 2);
});

test("each moment belongs to the step that made it", () => {
  assert.deepEqual([0, 1, 2, 3, 5].map((t) => clock().stepOf(t)), [0, 1, 1, 3, 3]);
});

test("a shorter history keeps the place as far as it exists", () => {
  const at = clock();
  at.goToStep(3);
  at.setSteps(STEPS.slice(0, 2));
  assert.deepEqual([at.step, at.t], [1, 2]);
  at.setSteps([]);
  assert.deepEqual([at.step, at.t, at.last], [0, 0, 0]);
});

test("two graphs with nothing between them have one moment, to which every way leads", () => {
  const at = new Clock();
  at.setSteps([{ title: "original", first: 0, rewrites: 0 }, { title: "result", first: 0, rewrites: 1 }], true);
  const ways = [
    () => at.move(-1), () => at.move(1), () => at.moveStep(-1), () => at.goToMoment(at.first), () => at.goToStep(0),
    () => at.goToRewrite(0, 0), () => at.choose(THIS_REWRITE), () => at.goToLastChange(),
  ];
  for (const way of ways) {
    way();
    assert.deepEqual([at.step, at.moments, at.compare], [1, [0, 1], WHOLE_STEP], String(way));
  }
});
