// @ts-check
// The whole graph in a corner, in the colours of the last pane, with a frame around the visible part and around each place of the kind of change that is shown. It is hidden when most of the graph is visible, or if it would cover a box of the shown rewrite.

import { plainFill } from "./boxes.js";
import { contextOf } from "./dom.js";
import { SAME } from "./comparison.js";
import { isFrame } from "./scene.js";

/** @import { Box, Context, Rectangle, Stage, View } from "./types.js" */

const MAX_SIDE = 180; // px
const MAX_SHARE = 0.4; // of the pane's width and height
const CORNER_GAP = 8; // px from the stage's corner
const MAX_VISIBLE_SHARE = 0.75; // of the graph's width and height; above, there is no minimap
const [PLACE_WIDTH, MIN_PLACE] = [2, 4]; // px of the line around a place of the shown kind, and of its sides at least
const MAX_BOXES_WITHOUT = 6; // up to so many boxes, there is no minimap

export class Minimap {
  constructor() {
    this.picture = document.createElement("canvas");
    this.painted = null; // the comparison that the picture shows
  }

  /** The minimap's rectangle in the stage, or null if it is hidden. @param {Stage} stage */
  bounds(stage) {
    const { scene } = stage.view;
    const { camera } = stage;
    if (scene.boxes.length <= MAX_BOXES_WITHOUT || camera.seesMost(scene, MAX_VISIBLE_SHARE)) return null;
    const scale = Math.min(MAX_SIDE, MAX_SHARE * camera.width) / scene.width;
    const [width, height] = [scene.width * scale, Math.min(scene.height * scale, MAX_SIDE, MAX_SHARE * camera.height)];
    const bounds = { left: stage.width - width - CORNER_GAP, top: stage.height - height - CORNER_GAP, width, height };
    return stage.view.framed.some((index) => covers(bounds, stage, scene.boxes[index])) ? null : bounds;
  }

  /** @param {Context} ctx @param {Stage} stage */
  paint(ctx, stage) {
    const bounds = this.bounds(stage);
    if (!bounds) return;
    const { scene, theme } = stage.view;
    const { camera } = stage;
    this.#refresh(stage, bounds);
    ctx.globalAlpha = 0.93;
    ctx.drawImage(this.picture, bounds.left, bounds.top, bounds.width, bounds.height);
    ctx.globalAlpha = 1;
    ctx.setLineDash([]);
    ctx.strokeStyle = theme.neutralBorder;
    ctx.lineWidth = 1;
    ctx.strokeRect(bounds.left, bounds.top, bounds.width, bounds.height);
    const [across, down] = [bounds.width / scene.width, bounds.height / scene.height];
    const left = Math.max(0, camera.x * across);
    const top = Math.max(0, camera.y * down);
    const right = Math.min(bounds.width, camera.sceneX(camera.width) * across);
    const bottom = Math.min(bounds.height, camera.sceneY(camera.height) * down);
    ctx.strokeStyle = theme.primary;
    ctx.lineWidth = 2;
    ctx.strokeRect(bounds.left + left, bounds.top + top, Math.max(4, right - left), Math.max(4, bottom - top));
  }

  /** @param {Stage} stage @param {Rectangle} bounds */
  #refresh(stage, bounds) {
    const { view, ratio } = stage;
    const { scene, comparison, theme } = view;
    const state = [comparison, theme, view.fill, view.marks.hits, view.data.places, Math.round(bounds.width), Math.round(bounds.height), ratio];
    if (this.painted?.every((value, index) => value === state[index])) return;
    this.painted = state;
    this.picture.width = Math.round(bounds.width * ratio);
    this.picture.height = Math.round(bounds.height * ratio);
    const ctx = contextOf(this.picture);
    const [across, down] = [this.picture.width / scene.width, this.picture.height / scene.height];
    ctx.fillStyle = theme.background;
    ctx.fillRect(0, 0, this.picture.width, this.picture.height);
    const pane = stage.pane(stage.sides.length - 1);
    scene.boxes.forEach((box, index) => {
      if (isFrame(box) || !pane.shows(index)) return;
      const [left, top, width, height] = [box.left * across, box.top * down, Math.max(box.w * across, 1), Math.max(box.h * down, 1)];
      ctx.fillStyle = plainFill(pane, index);
      ctx.fillRect(left, top, width, height);
      if (comparison.marks[index] === SAME) return;
      ctx.fillStyle = theme.marks[comparison.marks[index]];
      ctx.fillRect(left, top, Math.max(2, ratio), Math.max(height, 2 * ratio)); // beside the fill, which shows the layout
    });
    ctx.strokeStyle = theme.frame;
    ctx.lineWidth = PLACE_WIDTH * ratio;
    for (const index of placesOf(view)) {
      const box = scene.boxes[index];
      ctx.strokeRect(box.left * across, box.top * down, Math.max(box.w * across, MIN_PLACE * ratio), Math.max(box.h * down, MIN_PLACE * ratio));
    }
  }

  /** The scene's point at a point of the stage; null outside the minimap. @param {Stage} stage @param {number} x @param {number} y */
  scenePoint(stage, x, y) {
    const bounds = this.bounds(stage);
    if (!bounds || x < bounds.left || y < bounds.top || x > bounds.left + bounds.width || y > bounds.top + bounds.height) return null;
    const { scene } = stage.view;
    return { x: ((x - bounds.left) / bounds.width) * scene.width, y: ((y - bounds.top) / bounds.height) * scene.height };
  }
}

/** The boxes of all rewrites of the kind that is shown. @param {View} view */
function placesOf(view) {
  const rewrites = (view.data.places ?? []).flatMap((number) => view.scene.rewrites[number] ?? []);
  return new Set(rewrites.flatMap((rewrite) => rewrite.b).filter((index) => view.scene.boxes[index] && !isFrame(view.scene.boxes[index])));
}

/** Whether a part of a box of the last pane is inside the bounds. @param {Rectangle} bounds @param {Stage} stage @param {Box} box */
function covers({ left, top, width, height }, stage, box) {
  const { camera } = stage;
  const last = stage.sides.length - 1;
  const [x, y] = [stage.leftOf(last) + camera.screenX(box.left), stage.topOf(last) + camera.screenY(box.top)];
  return x < left + width && x + box.w * camera.zoom > left && y < top + height && y + box.h * camera.zoom > top;
}
