// @ts-check
// Opens and closes groups, also for a rewrite inside a closed group.

import { WALKED } from "./selection_sync.js";

/** @import { Anchor, View } from "./types.js" */

const OPENING_SHARE = 0.6; // of the pane's width or height; a closed group that is zoomed in to this size opens

export class Opening {
  /** @param {View} view */
  constructor(view) {
    this.view = view;
    this.anchor = /** @type {Anchor | null} */ (null); // the box that must not move when the next scene is shown
    this.forRewrite = false; // a group is being opened for a rewrite, whose boxes are to be brought into view
    this.waiting = 0; // timer
  }

  /** Opens or closes a group; its upper left corner stays where it is on the screen. A region is zoomed to, which opens it.
   * @param {number} index @param {boolean} all */
  toggle(index, all) {
    const { view } = this;
    const box = view.scene.boxes[index];
    if (box?.kind !== "group") return;
    const { camera } = view.stage;
    if (view.regions.isRegion(index)) {
      camera.showWhole(box);
      view.stage.request();
      return;
    }
    let [x, y] = [camera.screenX(box.left), camera.screenY(box.top)];
    // If the frame begins outside the pane, the closed group must be visible.
    if (box.open) [x, y] = [Math.max(x, 8), Math.max(y, 8)];
    this.anchor = { id: box.id, x, y };
    view.root.classList.add("gw-busy");
    view.outside.setOpen(box.id, !box.open, all);
  }

  /** Opens a closed group that was zoomed in to, once there would be little else to see. @param {number} index */
  zoomedTo(index) {
    const { camera } = this.view.stage;
    const box = this.view.scene.boxes[index];
    if (this.anchor || box?.kind !== "group" || box.open) return;
    if (Math.max((box.w * camera.zoom) / camera.width, (box.h * camera.zoom) / camera.height) >= OPENING_SHARE) this.toggle(index, false);
  }

  /** Opens the closed groups around the present rewrite, once the user stays at it. */
  stepInto() {
    const { view } = this;
    this.stop();
    const closed = view.framed.map((index) => view.scene.boxes[index]).find((box) => box.kind === "group" && !box.open);
    if (!closed || view.clock.rewrite < 0) return;
    this.waiting = window.setTimeout(() => {
      const { camera } = view.stage;
      this.anchor = { id: closed.id, x: camera.screenX(closed.left), y: camera.screenY(closed.top) };
      this.forRewrite = true;
      view.outside.stepInto(view.clock.rewrite);
    }, WALKED);
  }

  stop() {
    window.clearTimeout(this.waiting);
  }

  /** Another scene is shown: nothing is being opened any more. Returns whether it was, for a rewrite. */
  done() {
    const { forRewrite } = this;
    this.anchor = null;
    this.forRewrite = false;
    return forRewrite;
  }
}
