// @ts-check
// The whole graph in a corner, with what the panes show of it. It goes away when most is in view: it would hide more
// than it tells.

import { SAME } from "./comparison.js";
import { isFrame } from "./scene.js";

/** @import { Box, Context, Rectangle, Stage } from "./types.js" */

const WIDEST = 90;
const NARROWEST = 34;
const EDGE = 8; // px from the pane's corner
const MOST = 0.75; // of the graph, across and down
const FEW = 12; // boxes, among which nobody gets lost

export class Minimap {
  constructor() {
    this.picture = document.createElement("canvas");
    this.painted = null; // the comparison that the picture shows
  }

  /** Where it stands in the stage, or null when there is no need for it. @param {Stage} stage */
  place(stage) {
    const { scene } = stage.view;
    const { camera } = stage;
    if (!scene || scene.boxes.length <= FEW || camera.seesMost(scene, MOST)) return null;
    const height = Math.min(camera.height * 0.45, 220);
    // Graphs are far taller than wide: the two directions have scales of their own.
    const width = Math.min(WIDEST, Math.max(NARROWEST, (height * scene.width) / scene.height));
    return { left: stage.width - width - EDGE, top: stage.height - height - EDGE, width, height };
  }

  /** @param {Context} ctx @param {Stage} stage */
  paint(ctx, stage) {
    const place = this.place(stage);
    if (!place) return;
    const { scene, theme } = stage.view;
    const { camera } = stage;
    this.#refresh(stage, place);
    ctx.globalAlpha = 0.93;
    ctx.drawImage(this.picture, place.left, place.top, place.width, place.height);
    ctx.globalAlpha = 1;
    ctx.setLineDash([]);
    ctx.strokeStyle = theme.neutralBorder;
    ctx.lineWidth = 1;
    ctx.strokeRect(place.left, place.top, place.width, place.height);
    const [across, down] = [place.width / scene.width, place.height / scene.height];
    const left = Math.max(0, camera.x * across);
    const top = Math.max(0, camera.y * down);
    const right = Math.min(place.width, camera.sceneX(camera.width) * across);
    const bottom = Math.min(place.height, camera.sceneY(camera.height) * down);
    ctx.strokeStyle = theme.primary;
    ctx.lineWidth = 2;
    ctx.strokeRect(place.left + left, place.top + top, Math.max(4, right - left), Math.max(4, bottom - top));
  }

  /** @param {Stage} stage @param {Rectangle} place */
  #refresh(stage, place) {
    const { view, ratio } = stage;
    const { scene, comparison, theme } = view;
    const wanted = [comparison, theme, view.colouring, Math.round(place.width), Math.round(place.height), ratio];
    if (this.painted?.every((value, index) => value === wanted[index])) return;
    this.painted = wanted;
    this.picture.width = Math.round(place.width * ratio);
    this.picture.height = Math.round(place.height * ratio);
    const ctx = this.picture.getContext("2d");
    const [across, down] = [this.picture.width / scene.width, this.picture.height / scene.height];
    ctx.fillStyle = theme.background;
    ctx.fillRect(0, 0, this.picture.width, this.picture.height);
    const bars = /** @type {Box[][]} */ ([[], [], [], [], []]);
    scene.boxes.forEach((box, index) => {
      if (!isFrame(box)) bars[comparison.marks[index]].push(box);
    });
    bars.forEach((boxes, mark) => {
      ctx.fillStyle = mark > SAME ? theme.marks[mark] : theme.neutralBorder;
      const least = mark > SAME ? 2 * ratio : 1;
      if (mark) boxes.forEach(({ left, top, w, h }) => ctx.fillRect(left * across, top * down, Math.max(w * across, least), Math.max(h * down, least)));
    });
  }

  /** The scene's point at a point of the stage, or null outside of the minimap. @param {Stage} stage @param {number} x @param {number} y */
  scenePoint(stage, x, y) {
    const place = this.place(stage);
    if (!place || x < place.left || y < place.top || x > place.left + place.width || y > place.top + place.height) return null;
    const { scene } = stage.view;
    return { x: ((x - place.left) / place.width) * scene.width, y: ((y - place.top) / place.height) * scene.height };
  }
}
