// @ts-check
// The canvas with one or two panes: its size, camera and drawing.

import { Camera, READING_ZOOM } from "./camera.js";
import { contextOf, make } from "./dom.js";
import { Minimap } from "./minimap.js";
import { paintPane } from "./painter.js";
import { AFTER, BEFORE, BOTH, Pane } from "./pane.js";
import { mixColours } from "./theme.js";

/** @import { Box, Context, Point, View } from "./types.js" */

const GAP = 3; // px between two panes
const NARROW = 420; // px; in a narrower stage that is higher than wide, two panes are one below the other: on a phone

export class Stage {
  /** @param {View} view */
  constructor(view) {
    this.view = view;
    this.camera = new Camera();
    this.minimap = new Minimap();
    this.frames = 0; // pictures drawn so far
    this.width = this.height = 0;
    this.ratio = 1;
    this.panes = 0; // number of panes at the last resize
    this.stacked = false; // two panes are one below the other
    this.scheduled = 0;
    this.screenChanged = false; // full screen or the window's size changed, so that a resize follows
    this.kept = /** @type {string[] | null} */ (null); // ids of boxes: they are framed again at each resize, until the user acts
    this.canvas = make("canvas", { class: "gw-canvas", tabindex: "0", role: "application" });
    this.labels = [make("span", { class: "gw-pane-label" }), make("span", { class: "gw-pane-label" })];
    this.tip = make("div", { class: "gw-tip", role: "tooltip", hidden: true });
    this.element = make("div", { class: "gw-stage" }, this.canvas, ...this.labels, this.tip);
    for (const kind of ["pointerdown", "wheel", "keydown"]) this.canvas.addEventListener(kind, () => { this.kept = null; }, { passive: true });
    this.sizes = new ResizeObserver(() => this.resize());
    this.sizes.observe(this.element);
    this.toScreen = () => (this.screenChanged = true);
    document.addEventListener("fullscreenchange", this.toScreen);
    window.addEventListener("resize", this.toScreen);
    this.resolution = /** @type {MediaQueryList | undefined} */ (undefined);
    this.toRatio = () => this.#watchRatio();
    this.#watchRatio();
  }

  /** Paints at the screen's resolution, now and when it changes: on another screen, or by the browser's zoom. */
  #watchRatio() {
    this.resolution?.removeEventListener("change", this.toRatio);
    this.resolution = window.matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`);
    this.resolution.addEventListener("change", this.toRatio);
    this.resize();
  }

  destroy() {
    this.resolution?.removeEventListener("change", this.toRatio);
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

  /** Takes over the element's size. The centre of the panes keeps its point of the scene, except the first time. */
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
    this.stacked = panes === 2 && width < NARROW && height > width;
    const paneWidth = this.stacked ? width : (width - GAP * (panes - 1)) / panes;
    const paneHeight = this.stacked ? (height - GAP) / 2 : height;
    // With another number of panes or another window, the centre keeps its point; else the left border does.
    if (!first && (panes !== this.panes || this.screenChanged)) camera.x -= (paneWidth - camera.width) / camera.zoom / 2;
    if (!first && panes !== this.panes) camera.y -= (paneHeight - camera.height) / camera.zoom / 2;
    this.panes = panes;
    const grew = camera.width !== paneWidth || camera.height !== paneHeight;
    camera.width = paneWidth;
    camera.height = paneHeight;
    this.labels[0].style.right = panes === 2 && !this.stacked ? "50%" : "0";
    this.labels[1].style.top = this.stacked ? "50%" : "";
    if (grew && this.screenChanged) this.view.inspector.update(); // in a narrow view it is hidden without a selection
    if (grew && this.view.hasScene && (camera.fits || this.screenChanged)) this.fitAgain();
    this.view.resized();
    if (this.kept) this.keepFrame(this.kept);
    this.request();
  }

  /** Shows the whole scene again if it did before or if it can be read; else the centre stays. */
  fitAgain() {
    this.screenChanged = false;
    const { scene } = this.view;
    this.camera.setMinZoom(scene);
    if (this.camera.fits || this.camera.fittingZoom(scene) >= READING_ZOOM) this.camera.fit(scene);
  }

  get ready() {
    return this.width > 0;
  }

  /** @param {number} index */
  leftOf(index) {
    return this.stacked ? 0 : index * (this.camera.width + GAP);
  }

  /** @param {number} index */
  topOf(index) {
    return this.stacked ? index * (this.camera.height + GAP) : 0;
  }

  /** The index of the pane at a point of the stage. @param {Point} point */
  paneAt({ x, y }) {
    if (this.sides.length < 2) return 0;
    return (this.stacked ? y > this.topOf(1) - GAP / 2 : x > this.leftOf(1) - GAP / 2) ? 1 : 0;
  }

  /** A point of the stage as a point of the pane that it is in. @param {Point} point */
  inPane(point) {
    const index = this.paneAt(point);
    return { x: point.x - this.leftOf(index), y: point.y - this.topOf(index) };
  }

  /** @param {number} index */
  pane(index) {
    const { camera } = this;
    this.view.regions.update(this.view.scene, camera.zoom);
    const region = { left: camera.x, top: camera.y, right: camera.sceneX(camera.width), bottom: camera.sceneY(camera.height) };
    return new Pane(this.view, this.sides[index], region, camera.zoom);
  }

  /** Shows the whole graph if it can be read, else the boxes of these ids; also after later resizes. @param {string[]} ids */
  keepFrame(ids) {
    this.kept = ids;
    const { camera } = this;
    const { scene } = this.view;
    if (!this.ready || !this.view.hasScene) return;
    camera.setMinZoom(scene);
    camera.frame(scene, ids.flatMap((id) => scene.boxOf(id) ?? []));
    this.request();
  }

  /** The first position: the whole scene if it can be read, else box `first` at READING_ZOOM. @param {number} first */
  begin(first) {
    const { camera } = this;
    const { scene } = this.view;
    camera.setMinZoom(scene);
    if (camera.fittingZoom(scene) >= READING_ZOOM) {
      camera.fit(scene);
      return;
    }
    camera.zoom = READING_ZOOM;
    camera.show(scene.boxes[first]);
    camera.y = Math.max(camera.y, -20); // the graph begins at 0
  }

  /** Draw in the next frame. */
  request() {
    if (!this.scheduled) this.scheduled = requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.scheduled = 0;
    const { view, camera } = this;
    if (!view.hasScene || !this.ready) return;
    camera.keepInSight(view.scene);
    const ctx = contextOf(this.canvas, { alpha: false });
    this.paint(ctx, this.ratio);
    ctx.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.minimap.paint(ctx, this);
    this.frames++;
    view.timing.drawn();
  }

  /** Paints the panes on a context with `ratio` pixels for a CSS pixel. @param {Context} ctx @param {number} ratio */
  paint(ctx, ratio) {
    const { view, camera } = this;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.fillStyle = view.theme.background;
    ctx.fillRect(0, 0, this.width, this.height);
    this.sides.forEach((side, index) => {
      ctx.save();
      ctx.beginPath();
      const [left, top] = [this.leftOf(index), this.topOf(index)];
      ctx.rect(left, top, camera.width, camera.height);
      ctx.clip();
      const scale = ratio * camera.zoom;
      ctx.setTransform(scale, 0, 0, scale, ratio * left - camera.x * scale, ratio * top - camera.y * scale);
      paintPane(ctx, this.pane(index));
      ctx.restore();
      ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    });
    if (this.sides.length < 2) return;
    ctx.globalAlpha = 1;
    ctx.fillStyle = mixColours(view.theme.background, view.theme.ink, 0.16);
    if (this.stacked) ctx.fillRect(0, this.topOf(1) - GAP, this.width, GAP);
    else ctx.fillRect(this.leftOf(1) - GAP, 0, GAP, this.height);
  }

  /** The rectangle of a box in the last pane, in px of the page. @param {Box} box */
  onScreen(box) {
    const { camera, canvas } = this;
    const page = canvas.getBoundingClientRect();
    const last = this.sides.length - 1;
    const [left, top] = [page.left + this.leftOf(last), page.top + this.topOf(last)];
    return { x: left + camera.screenX(box.left), y: top + camera.screenY(box.top), w: box.w * camera.zoom, h: box.h * camera.zoom };
  }
}
