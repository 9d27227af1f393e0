// @ts-check
// Views that step together: the histories of two pipelines, to which Python gives the same steps and moments.

/** @import { View } from "./types.js" */

const together = /** @type {Map<string, Set<View>>} */ (new Map()); // by the name that Python gives them

/** @param {View} view @param {string} name "" for a view that steps alone */
export function joinLockstep(view, name) {
  if (view.lockstep === name) return;
  leaveLockstep(view);
  view.lockstep = name;
  if (!name) return;
  view.inspectorOpen = false; // the views share the width
  if (!together.has(name)) together.set(name, new Set());
  together.get(name).add(view);
}

/** @param {View} view */
export function leaveLockstep(view) {
  together.get(view.lockstep)?.delete(view);
  view.lockstep = "";
}

/** The others go to the moment that this view shows. @param {View} view */
export function leadLockstep(view) {
  for (const other of together.get(view.lockstep) ?? []) if (other !== view && other.scene) goWith(other, view);
}

/** @param {View} view @param {View} leader */
function goWith(view, leader) {
  view.clock.goWith(leader.clock);
  view.compare();
  view.bringIntoView();
  view.stage.request();
  view.refresh();
}
