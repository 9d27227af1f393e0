// @ts-check
// Finds the box that keeps its place on the screen when another scene is shown.

/** @import { Anchor, Box, Scene, View } from "./types.js" */

/** A box of both scenes and its present position on the screen, or null; it must stay there.
 * @param {View} view @param {Scene} scene the new scene @param {Box[]} before the boxes of the old scene */
export function findAnchor(view, scene, before) {
  const { anchor } = view.opening;
  if (anchor && scene.byId.has(anchor.id)) return anchor;
  const { camera } = view.stage;
  const shared = before.filter((box) => scene.byId.has(box.id));
  const visible = shared.filter((box) => camera.sees(box));
  const [x, y] = [camera.sceneX(camera.width / 2), camera.sceneY(camera.height / 2)];
  const distance = (/** @type {Box} */ box) => (box.id === view.selected && camera.sees(box) ? -1 : Math.hypot(box.x - x, box.y - y));
  // One box may move differently, such as a node that the new history removes: take one that moves as most visible boxes do.
  const shift = (/** @type {Box} */ box) => Math.round((scene.boxOf(box.id)?.x ?? box.x) - box.x);
  const shifts = visible.map(shift).sort((one, other) => one - other);
  const median = shifts[Math.floor(shifts.length / 2)];
  const steady = visible.filter((box) => box.id === view.selected || shift(box) === median);
  const [nearest] = (steady.length ? steady : shared).toSorted((one, other) => distance(one) - distance(other));
  return nearest ? { id: nearest.id, x: camera.screenX(nearest.left), y: camera.screenY(nearest.top) } : null;
}

/** Moves the camera so that the anchor's box is where it was. Of a group just opened, as much is shown as can be read.
 * @param {View} view @param {Anchor} anchor */
export function putAt(view, anchor) {
  const { scene } = view;
  const { camera } = view.stage;
  const box = scene.boxOf(anchor.id);
  if (!box) return;
  camera.x = box.left - anchor.x / camera.zoom;
  camera.y = box.top - anchor.y / camera.zoom;
  if (anchor === view.opening.anchor && box.open) camera.showInside(box);
}
