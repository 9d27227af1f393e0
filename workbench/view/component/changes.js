// @ts-check
// Going from change to change.

/** @import { View } from "./types.js" */

/** Selects the next (1) or previous (-1) box that differs between the two moments. @param {View} view @param {number} direction */
export function goToChange(view, direction) {
  const changed = view.comparison?.changed() ?? [];
  if (!changed.length) {
    view.say("Nothing differs between these two moments");
    return;
  }
  view.changePlace = view.changePlace < 0 && direction < 0
    ? changed.length - 1
    : (view.changePlace + direction + changed.length) % changed.length;
  view.select(view.scene.boxes[changed[view.changePlace]].id, { centre: true });
  view.say(`change ${view.changePlace + 1} of ${changed.length}`);
}
