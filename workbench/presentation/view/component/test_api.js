// @ts-check
// For tests and benchmarks: the view's state, readable from outside its shadow root.

import { ABSENT, SIGNS } from "./comparison.js";

/** @import { View } from "./types.js" */

/** Puts the hook of a view under its key; returns a function that takes it away. A view that is drawn elsewhere on the
 * page is mounted there before it is unmounted here, so only its own hook is taken. @param {string} key @param {View} view */
export function putHook(key, view) {
  const hook = {
    state: () => stateOf(view),
    box: (/** @type {string} */ id) => boxOf(view, id),
    boxes: () => view.scene.boxes.map((box) => box.id),
    // t: the number of a rewrite, counted over all steps.
    go: (/** @type {number} */ t) => view.tick((clock) => clock.goToRewrite(clock.stepOf(t), t - clock.steps[clock.stepOf(t)].first)),
    select: (/** @type {string} */ id) => view.select(id, { centre: true }),
    centre: (/** @type {string} */ id) => view.centreOn(boxNamed(view, id)),
    zoom: (/** @type {string} */ id) => {
      view.stage.camera.showReadably(boxNamed(view, id));
      view.stage.request();
    },
    // The ids of the boxes that are drawn, and of the groups that are drawn as one box.
    drawn: () => view.scene.boxes.filter((box, index) => !box.open && !view.regions.hides(index) && view.comparison.marks[index] !== ABSENT).map((box) => box.id),
    regions: () => view.scene.frames.filter((index) => view.regions.isRegion(index)).map((index) => view.scene.boxes[index].id),
    // The ids of the shown rewrite's boxes, which are drawn with a frame.
    framed: () => view.framed.map((index) => view.scene.boxes[index].id),
    openAll: () => view.outside.setOpen("group:", true, true),
    report: () => view.selectionSync.now(),
    legend: () => view.legend.element.textContent,
  };
  const hooks = (window.graphWorkbench ??= {});
  delete hooks[key]; // the newest is the last
  hooks[key] = hook;
  return () => {
    if (hooks[key] === hook) delete hooks[key];
  };
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
    query: view.search.query,
    hits: view.marks.hits.size,
    only_hits: view.onlyHits,
    scene_id: view.shownScene,
    frames: stage.frames,
    last_step_ms: view.timing.lastStepMs,
  };
}

/** @param {View} view @param {string} id */
function boxNamed(view, id) {
  const box = view.scene.boxOf(id);
  if (!box) throw new Error(`no box ${id} in this scene`);
  return box;
}

/** A box on the screen, in the last pane. @param {View} view @param {string} id */
function boxOf(view, id) {
  const index = view.scene.byId.get(id);
  if (index === undefined) return null;
  const { stage } = view;
  const box = view.scene.boxes[index];
  const rectangle = stage.onScreen(box);
  const page = stage.canvas.getBoundingClientRect();
  const last = stage.sides.length - 1;
  const [left, top] = [page.left + stage.leftOf(last), page.top + stage.topOf(last)];
  const visible = rectangle.x < page.right && rectangle.x + rectangle.w > left && rectangle.y < page.bottom && rectangle.y + rectangle.h > top;
  const mark = view.comparison.marks[index];
  return { ...rectangle, visible: visible && mark !== ABSENT, mark: SIGNS[mark], open: Boolean(box.open), number: view.marks.numberText(view.colouring, index) };
}
