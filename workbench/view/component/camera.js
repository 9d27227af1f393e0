// @ts-check
// One camera for both panes: the scene's point at a pane's upper left corner, and the zoom.

/** @import { Box, Scene } from "./types.js" */

export const SMALL_ZOOM = 0.5; // down to here all of a small graph is more use than large names
export const READING_ZOOM = 1; // all text is at least 11 px high from here on
const LARGEST = 4;
const LARGEST_FIT = 2.2; // a small graph fills the pane, and a node does not fill the wall
const MARGIN = 24; // px left free round what is fitted

const LEAST_READABLE = 0.45; // below, a box is a spot

export class Camera {
  constructor() {
    this.x = 0;
    this.y = 0;
    this.zoom = 1;
    this.width = 1; // of one pane, in px
    this.height = 1;
    this.smallest = 0.05;
    this.fits = false; // it shows all, and nobody moved it since
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

  /** Zoom by a factor; what is under that point of the pane stays there. @param {number} x @param {number} y @param {number} factor */
  zoomAt(x, y, factor) {
    this.fits = false;
    const zoom = Math.min(LARGEST, Math.max(this.smallest, this.zoom * factor));
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

  /** The zoom at which all of the scene can be seen. @param {Scene} scene */
  fittingZoom(scene) {
    const across = (this.width - 2 * MARGIN) / Math.max(1, scene.width);
    const down = (this.height - 2 * MARGIN) / Math.max(1, scene.height);
    return Math.max(1e-4, Math.min(across, down, LARGEST_FIT));
  }

  /** @param {Scene} scene */
  fit(scene) {
    this.zoom = this.fittingZoom(scene);
    this.centre(scene.width / 2, scene.height / 2);
    this.fits = true;
  }

  /** How far out one may zoom: always far enough to see everything. @param {Scene} scene */
  allow(scene) {
    this.smallest = Math.min(0.1, this.fittingZoom(scene));
  }

  /** Does a box lie, at least with its middle, inside a pane? @param {Box} box */
  sees(box) {
    const x = this.screenX(box.x);
    const y = this.screenY(box.y);
    return x > 10 && y > 10 && x < this.width - 10 && y < this.height - 10;
  }

  /** Is this share of the scene in view, across and down? @param {Scene} scene @param {number} share */
  seesMost(scene, share) {
    const across = Math.min(this.width, this.screenX(scene.width)) - Math.max(0, this.screenX(0));
    const down = Math.min(this.height, this.screenY(scene.height)) - Math.max(0, this.screenY(0));
    return across >= share * scene.width * this.zoom && down >= share * scene.height * this.zoom;
  }

  /** Moves, where some of the boxes are out of sight: all come in, or if the pane is too small, one when none is. @param {Box[]} boxes */
  showAll(boxes) {
    const seen = boxes.filter((box) => this.sees(box)).length;
    if (seen === boxes.length) return;
    const [left, right] = [Math.min(...boxes.map((box) => box.left)), Math.max(...boxes.map((box) => box.left + box.w))];
    const [top, bottom] = [Math.min(...boxes.map((box) => box.top)), Math.max(...boxes.map((box) => box.top + box.h))];
    const fits = (right - left) * this.zoom <= this.width - 2 * MARGIN && (bottom - top) * this.zoom <= this.height - 2 * MARGIN;
    if (fits) this.centre((left + right) / 2, (top + bottom) / 2);
    else if (!seen) this.show(boxes[0]);
  }

  /** Moves, with the same zoom, so that a box comes to the middle; of one larger than the pane, its upper left. @param {Box} box */
  show(box) {
    this.centre(box.x, box.y);
    if (box.w * this.zoom > this.width - 2 * MARGIN) this.x = box.left - MARGIN / this.zoom;
    if (box.h * this.zoom > this.height - 2 * MARGIN) this.y = box.top - MARGIN / this.zoom;
  }

  /** Shows a box, so near that it can be read: for a jump from afar. @param {Box} box */
  showReadably(box) {
    if (this.zoom < LEAST_READABLE) this.zoom = READING_ZOOM;
    this.show(box);
  }

  /** Never loses the scene: some of it stays in the pane. @param {Scene} scene */
  keepInSight(scene) {
    const rest = 60 / this.zoom;
    this.x = Math.min(Math.max(this.x, rest - this.width / this.zoom), scene.width - rest);
    this.y = Math.min(Math.max(this.y, rest - this.height / this.zoom), scene.height - rest);
  }
}
