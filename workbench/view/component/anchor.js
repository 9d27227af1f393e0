// @ts-check
// What must not move on the screen when another scene comes.

/** @import { Box, Scene, View } from "./types.js" */

/** A box that stands in both scenes, and where on the screen it must stay.
 * @param {View} view @param {Scene} scene the one that comes @param {Box[]} before the boxes of the one that goes */
export function findAnchor(view, scene, before) {
  if (view.anchor && scene.byId.has(view.anchor.id)) return view.anchor;
  const { camera } = view.stage;
  const shared = before.filter((box) => scene.byId.has(box.id));
  const seen = shared.filter((box) => camera.sees(box));
  const [x, y] = [camera.sceneX(camera.width / 2), camera.sceneY(camera.height / 2)];
  const far = (/** @type {Box} */ box) => (box.id === view.selected && camera.sees(box) ? -1 : Math.hypot(box.x - x, box.y - y));
  // A node that the new history removes may stand aside; most of what is seen must stay where it is.
  const shift = (/** @type {Box} */ box) => Math.round(scene.boxes[scene.byId.get(box.id)].x - box.x);
  const shifts = seen.map(shift).sort((one, other) => one - other);
  const usual = shifts[Math.floor(shifts.length / 2)];
  const steady = seen.filter((box) => box.id === view.selected || shift(box) === usual);
  const best = (steady.length ? steady : shared).reduce((one, other) => (one && far(one) <= far(other) ? one : other), null);
  return best && { id: best.id, x: camera.screenX(best.left), y: camera.screenY(best.top) };
}
