// @ts-check
// Level of detail: an open group is painted as one box, a region, while its boxes would be too small to be read.

import { TEXT_ZOOM } from "./pane.js";

/** @import { Scene } from "./types.js" */

const MIN_REGION_WIDTH = 130; // px on the screen; a group that is narrower or lower is a region
const MIN_REGION_HEIGHT = 90;
const AREA_OF_GROUP = 90 * 90; // px on the screen for each group in a group; with less room it is a region
const NODES_ZOOM = 0.2; // below, a group of nodes alone is a region: its boxes are less than 8 px high
const MOST = 0.6; // of the graph's area; a group with more opens with a quarter of the room: one box would be all there is to see
const HYSTERESIS = 1.15; // a region opens at a larger size than the size at which it closes, so that it does not flicker

export class Regions {
  constructor() {
    this.scene = /** @type {Scene | null} */ (null);
    this.zoom = 0;
    this.small = /** @type {Set<number>} */ (new Set());
    this.cover = /** @type {number[]} */ ([]); // by box: the outermost region around it or the region itself, or -1
    this.inside = /** @type {Map<number, number[]>} */ (new Map()); // by region: the boxes in it
  }

  /** Finds the regions of a scene at a zoom. @param {Scene} scene @param {number} zoom */
  update(scene, zoom) {
    if (scene === this.scene && zoom === this.zoom) return;
    const before = scene === this.scene ? this.small : new Set();
    this.scene = scene;
    this.zoom = zoom;
    this.small = new Set(zoom < TEXT_ZOOM ? scene.frames.filter((index) => isTooSmall(scene, index, before.has(index) ? zoom / HYSTERESIS : zoom)) : []);
    this.cover = [];
    this.inside = new Map();
    scene.boxes.forEach(({ up }, index) => { // a frame comes before its boxes
      const cover = this.cover[up] >= 0 ? this.cover[up] : this.small.has(index) ? index : -1;
      this.cover[index] = cover;
      if (cover === index) this.inside.set(index, []);
      else if (cover >= 0) this.inside.get(cover)?.push(index);
    });
  }

  /** Whether a group is painted as a region. @param {number} index */
  isRegion(index) {
    return this.cover[index] === index;
  }

  /** Whether a box is inside a region, so that it is not painted. @param {number} index */
  hides(index) {
    return this.cover[index] >= 0 && this.cover[index] !== index;
  }

  /** Whether two boxes are in one region. @param {number} one @param {number} other */
  joins(one, other) {
    return this.cover[one] >= 0 && this.cover[one] === this.cover[other];
  }

  /** The region that hides a box, or else the box. @param {number} index */
  shown(index) {
    return this.cover[index] >= 0 ? this.cover[index] : index;
  }

  /** The boxes in a region. @param {number} region */
  boxesIn(region) {
    return this.inside.get(region) ?? [];
  }
}

/** @param {Scene} scene @param {number} index @param {number} zoom */
function isTooSmall(scene, index, zoom) {
  const [width, height, groups] = [scene.boxes[index].w * zoom, scene.boxes[index].h * zoom, scene.groupsIn.get(index) ?? 0];
  if (!groups && zoom < NODES_ZOOM) return true;
  const isMost = scene.boxes[index].w * scene.boxes[index].h > MOST * scene.width * scene.height;
  return width < MIN_REGION_WIDTH || height < MIN_REGION_HEIGHT || width * height < groups * (isMost ? AREA_OF_GROUP / 4 : AREA_OF_GROUP);
}
