// @ts-check
// Views that step together: two pipelines' histories, to which Python gives the same steps and moments.

import { bringIntoView } from "./changes.js";

/** @import { View } from "./types.js" */

const lockstepOf = /** @type {WeakMap<View, string>} */ (new WeakMap()); // of a view's lockstep
const together = /** @type {Map<string, Set<View>>} */ (new Map()); // by the lockstep's name, from Python

/** @param {View} view @param {string} name "" for a view that steps alone */
export function joinLockstep(view, name) {
  if ((lockstepOf.get(view) ?? "") === name) return;
  leaveLockstep(view);
  if (!name) return;
  lockstepOf.set(view, name);
  view.set({ inspectorOpen: false }); // the views share the width
  together.set(name, (together.get(name) ?? new Set()).add(view));
}

/** @param {View} view */
export function leaveLockstep(view) {
  together.get(lockstepOf.get(view) ?? "")?.delete(view);
  lockstepOf.delete(view);
}

/** The other views of the lockstep go to the moment of this view. @param {View} view */
export function leadLockstep(view) {
  for (const other of together.get(lockstepOf.get(view) ?? "") ?? []) if (other !== view && other.hasScene) follow(other, view);
}

/** @param {View} view @param {View} leader */
function follow(view, leader) {
  view.clock.copyFrom(leader.clock);
  view.compare();
  bringIntoView(view);
  view.stage.request();
  view.refresh();
}
