// @ts-check
// The boxes that differ: selecting one after the other, and bringing them into view.

/** @import { View } from "./types.js" */

/** Selects the next (1) or previous (-1) box that differs between the two moments. @param {View} view @param {number} direction */
export function goToChange(view, direction) {
  const { comparison, scene } = view;
  const { length } = comparison.changed();
  if (!length) {
    view.say("These two moments do not differ");
    return;
  }
  view.select(scene.boxes[comparison.step(direction)].id, { centre: true });
  view.say(`change ${comparison.current + 1} of ${length}`);
}

/** Makes the boxes of this moment visible: all if they fit into a pane, else one. Those of a rewrite can be read then.
 * @param {View} view */
export function bringIntoView(view) {
  const { scene, framed, comparison } = view;
  const { camera } = view.stage;
  const boxes = (framed.length ? framed : comparison.changed()).map((index) => scene.boxes[index]);
  if (framed.length) camera.makeReadable(boxes[0]);
  camera.showAll(boxes);
}
