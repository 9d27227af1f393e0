// @ts-check
// The canvas with its one or two panes: size, camera, and drawing when something has changed.

import { Camera, READING_ZOOM, SMALL_ZOOM } from "./camera.js";
import { make } from "./dom.js";
import { Minimap } from "./minimap.js";
import { paintPane } from "./painter.js";
import { AFTER, BEFORE, BOTH, Pane } from "./pane.js";
import { mixColours } from "./theme.js";

/** @import { Box, Context, View } from "./types.js" */

const GAP = 3; // px between two panes

export class Stage {
  /** @param {View} view */
  constructor(view) {
    this.view = view;
    this.camera = new Camera();
    this.minimap = new Minimap();
    this.frames = 0; // pictures drawn so far
    this.width = this.height = 0;
    this.ratio = 1;
    this.panes = 0; // how many there were when it took on its size
    this.scheduled = 0;
    this.screenChanged = false; // full screen begins or ends, or the window has another size: that of the view follows
    this.whole = /** @type {number | null} */ (null); // the box with which all is kept in sight, until the user moves it
    this.canvas = make("canvas", { class: "gw-canvas", tabindex: "0", role: "application" });
    this.labels = [make("span", { class: "gw-pane-label" }), make("span", { class: "gw-pane-label" })];
    this.tip = make("div", { class: "gw-tip", role: "tooltip", hidden: true });
    this.element = make("div", { class: "gw-stage" }, this.canvas, ...this.labels, this.tip);
    for (const kind of ["pointerdown", "wheel", "keydown"]) this.canvas.addEventListener(kind, () => { this.whole = null; }, { passive: true });
    this.sizes = new ResizeObserver(() => this.resize());
    this.sizes.observe(this.element);
    this.toScreen = () => (this.screenChanged = true);
    document.addEventListener("fullscreenchange", this.toScreen);
    window.addEventListener("resize", this.toScreen);
  }

  destroy() {
    this.sizes.disconnect();
    document.removeEventListener("fullscreenchange", this.toScreen);
    window.removeEventListener("resize", this.toScreen);
    cancelAnimationFrame(this.scheduled);
  }

  focus() {
    this.canvas.focus({ preventScroll: true });
  }

  get sides() {
    return this.view.panes === 2 ? [BEFORE, AFTER] : [BOTH];
  }

  /** Takes on the element's size. What was in the middle of the panes stays there, unless this is the first time. */
  resize(first = false) {
    const { camera, element, canvas } = this;
    const [width, height] = [element.clientWidth, element.clientHeight];
    if (!width || !height) return;
    this.ratio = window.devicePixelRatio || 1;
    if (width !== this.width || height !== this.height || canvas.width !== Math.round(width * this.ratio)) {
      [this.width, this.height] = [width, height];
      canvas.width = Math.round(width * this.ratio);
      canvas.height = Math.round(height * this.ratio);
    }
    const panes = this.sides.length;
    const paneWidth = (width - GAP * (panes - 1)) / panes;
    // Another number of panes or another window: what is in the middle stays there. Else what is under the pointer does.
    if (!first && (panes !== this.panes || this.screenChanged)) camera.x -= (paneWidth - camera.width) / camera.zoom / 2;
    this.panes = panes;
    const grew = camera.width !== paneWidth || camera.height !== height;
    camera.width = paneWidth;
    camera.height = height;
    if (grew && this.screenChanged) this.view.inspector.update(); // in a narrow view it waits for a selection
    if (grew && this.view.scene && (camera.fits || this.screenChanged)) this.fitAgain();
    this.view.resized();
    if (this.whole !== null) this.keepWhole(this.whole);
    this.request();
  }

  /** All again, if that can be read; else what is in the middle stays there. */
  fitAgain() {
    this.screenChanged = false;
    const { scene } = this.view;
    this.camera.allow(scene);
    if (this.camera.fits || this.camera.fittingZoom(scene) >= READING_ZOOM) this.camera.fit(scene);
  }

  get ready() {
    return this.width > 0;
  }

  /** @param {number} place */
  leftOf(place) {
    return place * (this.camera.width + GAP);
  }

  /** Which pane is at that x of the stage. @param {number} x */
  placeAt(x) {
    return this.sides.length === 2 && x > this.leftOf(1) - GAP / 2 ? 1 : 0;
  }

  /** @param {number} place */
  pane(place) {
    const { camera } = this;
    const region = { left: camera.x, top: camera.y, right: camera.sceneX(camera.width), bottom: camera.sceneY(camera.height) };
    return new Pane(this.view, this.sides[place], region, camera.zoom);
  }

  /** Shows all of a small graph, whatever size the panes get, else that box. @param {number} box */
  keepWhole(box) {
    this.whole = box;
    if (this.ready && this.view.scene) this.begin(box, SMALL_ZOOM);
  }

  /** The start: everything if it can be read, else the first change (or the top) at reading zoom. @param {number} first */
  begin(first, least = READING_ZOOM) {
    const { camera } = this;
    const { scene } = this.view;
    camera.allow(scene);
    if (camera.fittingZoom(scene) >= least) {
      camera.fit(scene);
      return;
    }
    camera.zoom = READING_ZOOM;
    if (first >= 0) {
      camera.show(scene.boxes[first]);
      camera.y = Math.max(camera.y, -20); // nothing stands above the graph
    } else {
      camera.centre(scene.width / 2, 0);
      camera.y = -20;
    }
  }

  /** Draw in the next frame. */
  request() {
    if (!this.scheduled) this.scheduled = requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.scheduled = 0;
    const { view, camera } = this;
    if (!view.scene || !this.ready) return;
    camera.keepInSight(view.scene);
    const ctx = this.canvas.getContext("2d", { alpha: false });
    this.paint(ctx, this.ratio);
    ctx.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.minimap.paint(ctx, this);
    this.frames++;
    view.drawn();
  }

  /** The panes as they are seen, on any context, so many pixels to one of CSS. @param {Context} ctx @param {number} ratio */
  paint(ctx, ratio) {
    const { view, camera } = this;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.fillStyle = view.theme.background;
    ctx.fillRect(0, 0, this.width, this.height);
    this.sides.forEach((side, place) => {
      ctx.save();
      ctx.beginPath();
      ctx.rect(this.leftOf(place), 0, camera.width, this.height);
      ctx.clip();
      const scale = ratio * camera.zoom;
      ctx.setTransform(scale, 0, 0, scale, ratio * this.leftOf(place) - camera.x * scale, -camera.y * scale);
      paintPane(ctx, this.pane(place));
      ctx.restore();
      ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    });
    if (this.sides.length < 2) return;
    ctx.globalAlpha = 1;
    ctx.fillStyle = mixColours(view.theme.background, view.theme.ink, 0.16);
    ctx.fillRect(this.leftOf(1) - GAP, 0, GAP, this.height);
  }

  /** Where a box is on the screen, in px of the page, in the last pane. @param {Box} box */
  onScreen(box) {
    const { camera, canvas } = this;
    const page = canvas.getBoundingClientRect();
    const left = page.left + this.leftOf(this.sides.length - 1);
    return { x: left + camera.screenX(box.left), y: page.top + camera.screenY(box.top), w: box.w * camera.zoom, h: box.h * camera.zoom };
  }
}
