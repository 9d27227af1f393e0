// @ts-check
// One camera for both panes: the scene's point at a pane's upper left corner, and the zoom.

/** @import { Box, Scene } from "./types.js" */

export const READING_ZOOM = 1; // here and above, all text is at least 11 px high
const MAX_ZOOM = 4;
const MAX_FIT_ZOOM = 2.2; // a small graph fills the pane; a single node does not
const FRAME_ZOOM = 1.2; // a part of a graph is shown with what is around it
const FRAME_MARGIN = 4; // px around what is framed
const MARGIN = 14; // px around the fitted scene

const MIN_READABLE_ZOOM = 0.45; // below, a box cannot be read

export class Camera {
  constructor() {
    this.x = 0;
    this.y = 0;
    this.zoom = 1;
    this.width = 1; // of one pane, in px
    this.height = 1;
    this.minZoom = 0.05;
    this.fits = false; // it shows the whole scene, and the user has not moved it since
  }

  /** @param {number} x */
  screenX(x) {
    return (x - this.x) * this.zoom;
  }

  /** @param {number} y */
  screenY(y) {
    return (y - this.y) * this.zoom;
  }

  /** @param {number} x */
  sceneX(x) {
    return x / this.zoom + this.x;
  }

  /** @param {number} y */
  sceneY(y) {
    return y / this.zoom + this.y;
  }

  /** @param {number} dx @param {number} dy */
  pan(dx, dy) {
    this.fits = false;
    this.x -= dx / this.zoom;
    this.y -= dy / this.zoom;
  }

  /** Zoom by a factor around a point of the pane, which keeps its position. @param {number} x @param {number} y @param {number} factor */
  zoomAt(x, y, factor) {
    this.fits = false;
    const zoom = Math.min(MAX_ZOOM, Math.max(this.minZoom, this.zoom * factor));
    this.x += x / this.zoom - x / zoom;
    this.y += y / this.zoom - y / zoom;
    this.zoom = zoom;
  }

  /** @param {number} x @param {number} y */
  centre(x, y) {
    this.fits = false;
    this.x = x - this.width / this.zoom / 2;
    this.y = y - this.height / this.zoom / 2;
  }

  /** The zoom at which the whole scene fits into a pane. @param {Scene} scene */
  fittingZoom(scene) {
    const across = (this.width - 2 * MARGIN) / Math.max(1, scene.width);
    const down = (this.height - 2 * MARGIN) / Math.max(1, scene.height);
    return Math.max(1e-4, Math.min(across, down, MAX_FIT_ZOOM));
  }

  /** @param {Scene} scene */
  fit(scene) {
    this.zoom = this.fittingZoom(scene);
    this.centre(scene.width / 2, scene.height / 2);
    this.fits = true;
  }

  /** Sets the smallest zoom, at which the whole scene fits into a pane. @param {Scene} scene */
  setMinZoom(scene) {
    this.minZoom = Math.min(0.1, this.fittingZoom(scene));
  }

  /** Whether the centre of a box is inside a pane. @param {Box} box */
  sees(box) {
    const x = this.screenX(box.x);
    const y = this.screenY(box.y);
    return x > 10 && y > 10 && x < this.width - 10 && y < this.height - 10;
  }

  /** Whether at least this share of the scene's width and height is inside a pane. @param {Scene} scene @param {number} share */
  seesMost(scene, share) {
    const across = Math.min(this.width, this.screenX(scene.width)) - Math.max(0, this.screenX(0));
    const down = Math.min(this.height, this.screenY(scene.height)) - Math.max(0, this.screenY(0));
    return across >= share * scene.width * this.zoom && down >= share * scene.height * this.zoom;
  }

  /** Moves so that all boxes are visible. If they do not fit into the pane and none is visible, the first is shown. @param {Box[]} boxes */
  showAll(boxes) {
    const visibleCount = boxes.filter((box) => this.sees(box)).length;
    if (visibleCount === boxes.length) return;
    const [left, right] = [Math.min(...boxes.map((box) => box.left)), Math.max(...boxes.map((box) => box.left + box.w))];
    const [top, bottom] = [Math.min(...boxes.map((box) => box.top)), Math.max(...boxes.map((box) => box.top + box.h))];
    const fits = (right - left) * this.zoom <= this.width - 2 * MARGIN && (bottom - top) * this.zoom <= this.height - 2 * MARGIN;
    if (fits) this.centre((left + right) / 2, (top + bottom) / 2);
    else if (!visibleCount) this.show(boxes[0]);
  }

  /** Shows the whole scene if it can be read, else the boxes, as large as they fit up to FRAME_ZOOM; without boxes the whole.
   * @param {Scene} scene @param {Box[]} boxes */
  frame(scene, boxes) {
    this.fits = false;
    const whole = this.#zoomOf(scene.width, scene.height, MAX_FIT_ZOOM);
    if (whole >= READING_ZOOM || !boxes.length) {
      this.zoom = whole;
      this.centre(scene.width / 2, scene.height / 2);
      return;
    }
    const [left, right] = [Math.min(...boxes.map((box) => box.left)), Math.max(...boxes.map((box) => box.left + box.w))];
    const [top, bottom] = [Math.min(...boxes.map((box) => box.top)), Math.max(...boxes.map((box) => box.top + box.h))];
    this.zoom = this.#zoomOf(right - left, bottom - top, FRAME_ZOOM);
    this.centre((left + right) / 2, (top + bottom) / 2);
    this.x = clamped(this.x, scene.width, this.width / this.zoom);
    this.y = clamped(this.y, scene.height, this.height / this.zoom);
  }

  /** The zoom, up to `max`, at which this width and height fill a pane. @param {number} width @param {number} height @param {number} max */
  #zoomOf(width, height, max) {
    return Math.min((this.width - 2 * FRAME_MARGIN) / width, (this.height - 2 * FRAME_MARGIN) / height, max);
  }

  /** Moves, without zooming, to the centre of a box, or to the upper left corner of a box larger than the pane. @param {Box} box */
  show(box) {
    this.centre(box.x, box.y);
    if (box.w * this.zoom > this.width - 2 * MARGIN) this.x = box.left - MARGIN / this.zoom;
    if (box.h * this.zoom > this.height - 2 * MARGIN) this.y = box.top - MARGIN / this.zoom;
  }

  /** Moves to a box, and zooms in if it could not be read. @param {Box} box */
  showReadably(box) {
    this.makeReadable(box);
    this.show(box);
  }

  /** Zooms to a box if it could not be read. @param {Box} box */
  makeReadable(box) {
    if (this.zoom >= MIN_READABLE_ZOOM) return;
    this.zoom = READING_ZOOM;
    this.show(box);
  }

  /** Shows a whole box, as large as fits. @param {Box} box */
  showWhole(box) {
    const zoom = Math.min((this.width - 2 * MARGIN) / box.w, (this.height - 2 * MARGIN) / box.h, MAX_FIT_ZOOM);
    this.zoom = Math.max(zoom, this.minZoom);
    this.centre(box.x, box.y);
  }

  /** Shows the inside of a frame that is not whole in the pane: all of it if it can be read then, else from its upper left
   * corner. A frame in which no text could be read is zoomed in to. @param {Box} box */
  showInside(box) {
    const [left, top] = [this.screenX(box.left), this.screenY(box.top)];
    const isWhole = left >= 0 && top >= 0 && this.screenX(box.left + box.w) <= this.width && this.screenY(box.top + box.h) <= this.height;
    if (isWhole && this.zoom >= MIN_READABLE_ZOOM) return;
    const fitting = Math.min((this.width - 2 * FRAME_MARGIN) / box.w, (this.height - 2 * FRAME_MARGIN) / box.h);
    this.fits = false;
    this.zoom = Math.max(MIN_READABLE_ZOOM, Math.min(fitting, Math.max(this.zoom, READING_ZOOM)));
    this.x = fitting >= this.zoom ? box.x - this.width / this.zoom / 2 : box.left - FRAME_MARGIN / this.zoom;
    this.y = fitting >= this.zoom ? box.y - this.height / this.zoom / 2 : box.top - FRAME_MARGIN / this.zoom;
  }

  /** Limits the position, so that some of the scene stays in the pane. @param {Scene} scene */
  keepInSight(scene) {
    const margin = 60 / this.zoom;
    this.x = Math.min(Math.max(this.x, margin - this.width / this.zoom), scene.width - margin);
    this.y = Math.min(Math.max(this.y, margin - this.height / this.zoom), scene.height - margin);
  }
}

/** The start of a pane along one axis of the scene: nothing empty is in it, or the scene is in its middle. @param {number} start @param {number} scene @param {number} pane */
function clamped(start, scene, pane) {
  return scene < pane ? (scene - pane) / 2 : Math.min(Math.max(start, 0), scene - pane);
}
