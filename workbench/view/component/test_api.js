// @ts-check
// For tests and benchmarks: what the view shows, readable from outside of its shadow root.

import { ABSENT, SIGNS } from "./comparison.js";

/** @import { View } from "./types.js" */

/** @param {string} key @param {View} view */
export function putHook(key, view) {
  window.graphWorkbench = window.graphWorkbench || {};
  window.graphWorkbench[key] = {
    state: () => stateOf(view),
    box: (/** @type {string} */ id) => boxOf(view, id),
    boxes: () => (view.scene ? view.scene.boxes.map((box) => box.id) : []),
    go: (/** @type {number} */ t) => view.tick((clock) => clock.goToRewrite(clock.stepOf(t), t - clock.steps[clock.stepOf(t)].first)),
    select: (/** @type {string} */ id) => view.select(id, { centre: true }),
    centre: (/** @type {string} */ id) => view.centreOn(view.scene.boxes[view.scene.byId.get(id)]),
    framed: () => view.framed.map((index) => view.scene.boxes[index].id),
    legend: () => view.legend.element.textContent,
  };
}

/** @param {string} key */
export function removeHook(key) {
  if (window.graphWorkbench) delete window.graphWorkbench[key];
}

/** @param {View} view */
function stateOf(view) {
  const { clock, stage } = view;
  return {
    t: clock.t,
    step: clock.step,
    rewrite: clock.t - clock.first,
    zoom: stage.camera.zoom,
    selected: view.selected,
    panes: view.panes,
    compare: clock.compare,
    colouring: view.colouring,
    hops: view.hops,
    query: view.search.asked,
    hits: view.marks.hits.size,
    only_hits: view.onlyHits,
    scene_id: view.shownScene,
    frames: stage.frames,
    last_step_ms: view.lastStepMs,
  };
}

/** A box on the screen, in the last pane. @param {View} view @param {string} id */
function boxOf(view, id) {
  const index = view.scene?.byId.get(id);
  if (index === undefined) return null;
  const { stage } = view;
  const box = view.scene.boxes[index];
  const place = stage.onScreen(box);
  const page = stage.canvas.getBoundingClientRect();
  const left = page.left + stage.leftOf(stage.sides.length - 1);
  const visible = place.x < page.right && place.x + place.w > left && place.y < page.bottom && place.y + place.h > page.top;
  const mark = view.comparison.marks[index];
  return { ...place, visible: visible && mark !== ABSENT, mark: SIGNS[mark], open: Boolean(box.open), number: view.marks.wordsOf(view.colouring, index) };
}
