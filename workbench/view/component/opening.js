// @ts-check
// Opening and closing groups; stepping to a rewrite inside a closed group opens it.

import { WALKED } from "./selection_sync.js";

/** @import { View } from "./types.js" */

/** Opens or closes a group; its upper left corner stays where it is on the screen.
 * @param {View} view @param {number} index @param {boolean} all */
export function toggleGroup(view, index, all) {
  const box = view.scene?.boxes[index];
  if (box?.kind !== "group") return;
  const { camera } = view.stage;
  let [x, y] = [camera.screenX(box.left), camera.screenY(box.top)];
  // A frame that begins outside of the pane: what it closes to comes in sight.
  if (box.open) [x, y] = [Math.max(x, 8), Math.max(y, 8)];
  view.anchor = { id: box.id, x, y };
  view.root.classList.add("gw-busy");
  view.outside.setOpen(box.id, !box.open, all);
}

/** Opens the closed groups in which the present rewrite is, once it is stayed at. @param {View} view */
export function stepInto(view) {
  clearTimeout(view.steppingInto);
  const closed = view.framed.map((index) => view.scene.boxes[index]).find((box) => box.kind === "group" && !box.open);
  if (!closed || view.clock.rewrite < 0) return;
  view.steppingInto = setTimeout(() => {
    const { camera } = view.stage;
    view.anchor = { id: closed.id, x: camera.screenX(closed.left), y: camera.screenY(closed.top) };
    view.steppedInto = true; // what was closed comes in sight with the next scene
    view.outside.stepInto(view.clock.rewrite);
  }, WALKED);
}
