// @ts-check
// The controls on top of the graph: what is shown, and (on the line of the breadcrumb) how.

import { goToChange } from "./changes.js";
import { THIS_REWRITE, WHOLE_STEP } from "./clock.js";
import { colouringsOf } from "./colouring.js";
import { make, makeButton, makeSelect, makeToggle, setOptions, setPressed, setShown } from "./dom.js";
import { saveGif } from "./recording.js";
import { copyLink, saveDot, savePng, saveSvg } from "./saving.js";
import { megabytes } from "./text_metrics.js";

/** @import { View } from "./types.js" */

const MOST_BYTES = 20e6; // of a file of numbers
const ZOOM_STEP = 1.25;
const HOPS = /** @type {[number, string][]} */ ([[0, "Focus: all"], [1, "Focus: 1 hop"], [2, "Focus: 2 hops"], [3, "Focus: 3 hops"]]);

export class Toolbar {
  /** @param {View} view */
  constructor(view) {
    this.view = view;
    this.colouring = makeSelect("Colour by", (value) => view.setColouring(value));
    this.two = makeToggle("Two panes", "Before and after side by side", () => view.setPanes(2));
    this.one = makeToggle("One pane", "Before and after in one pane", () => view.setPanes(1));
    this.thisRewrite = makeToggle("This rewrite", "Compare with the moment before this rewrite", () => view.setCompare(THIS_REWRITE));
    this.wholeStep = makeToggle("Whole step", "Compare with the beginning of this step", () => view.setCompare(WHOLE_STEP));
    this.constants = makeToggle("Constants", "Show constants", () => view.outside.constants(!view.data.constants));
    this.flat = makeToggle("Open all", "Open every group", () => view.outside.flat(!view.data.flat));
    this.hops = makeSelect("Focus on what is near the selected box (k)", (value) => view.setHops(Number(value)));
    this.file = make("input", { type: "file", accept: ".csv,.json,.txt", hidden: true, change: () => this.#readNumbers() });
    this.numbers = makeButton("Numbers\u2026", "Your own numbers for nodes, from a CSV or JSON file: node,latency (us)", () => this.file.click());
    this.inspector = makeToggle("Inspector", "Show the inspector (i)", () => view.toggleInspector());
    this.save = makeSelect("Save the picture", (value) => this.#save(value), "gw-save");
    setOptions(this.save, [["", "Save\u2026"], ["svg", "SVG, whole graph"], ["png", "PNG, as seen"], ["gif", "GIF, this step played"], ["dot", "DOT, whole graph"], ["link", "Copy the link"]], "");
    setOptions(this.hops, HOPS, 0);

    this.element = make("div", { class: "gw-toolbar", role: "toolbar", "aria-label": "Graph" },
      view.search.element,
      this.colouring,
      make("span", { class: "gw-joined gw-of-history", role: "group", "aria-label": "Panes" }, this.two, this.one),
      make("span", { class: "gw-joined gw-of-history gw-compared", role: "group", "aria-label": "What is compared" }, this.thisRewrite, this.wholeStep),
      makeButton("Next change", "Next change (c)", () => goToChange(view, 1), { class: "gw-button gw-of-history" }),
      this.constants,
      this.flat,
      this.hops,
      this.numbers,
      this.file);

    this.wheel = makeToggle("Wheel zooms", "The wheel zooms instead of scrolling", () => this.#toggleWheel());
    this.second = make("div", { class: "gw-zooming", role: "toolbar", "aria-label": "Picture" },
      makeButton("\u2212", "Zoom out (-)", () => view.zoomBy(1 / ZOOM_STEP)),
      makeButton("+", "Zoom in (+)", () => view.zoomBy(ZOOM_STEP)),
      makeButton("Fit", "Show the whole graph (Space)", () => view.fit()),
      this.wheel,
      makeButton("Full screen", "Full screen", () => fullScreen(view)),
      this.save,
      this.inspector,
      makeButton("?", "All keys", () => view.help.toggle()));
  }

  update() {
    const { view } = this;
    if (view.scene) setOptions(this.colouring, [...colouringsOf(view.scene), ...view.marks.colourings], view.colouring);
    setPressed(this.two, view.panes === 2);
    setPressed(this.one, view.panes === 1);
    setPressed(this.thisRewrite, view.clock.compare === THIS_REWRITE);
    setPressed(this.wholeStep, view.clock.compare === WHOLE_STEP);
    setPressed(this.constants, view.data.constants);
    setPressed(this.flat, view.data.flat);
    setPressed(this.inspector, view.inspectorOpen);
    setPressed(this.wheel, view.wheelZooms);
    setShown(this.constants, view.data.offers?.constants ?? true);
    setShown(this.flat, view.data.offers?.flat ?? true);
    setShown(this.numbers, view.outside.numbers);
    this.hops.value = String(view.hops);
  }

  async #readNumbers() {
    const [file] = this.file.files;
    if (!file) return;
    this.file.value = ""; // so that the same file can be chosen again
    if (file.size > MOST_BYTES) this.view.say(`${file.name} is larger than ${megabytes(MOST_BYTES / 1e6)}; keep one line for each node`);
    else this.view.outside.numbers(file.name, await file.text());
  }

  #toggleWheel() {
    this.view.wheelZooms = !this.view.wheelZooms;
    this.view.refresh();
  }

  /** @param {string} kind */
  #save(kind) {
    this.save.value = "";
    if (!this.view.scene) return;
    if (kind === "svg") saveSvg(this.view);
    if (kind === "png") savePng(this.view);
    if (kind === "gif") saveGif(this.view);
    if (kind === "dot") saveDot(this.view);
    if (kind === "link") copyLink(this.view);
  }
}

/** @param {View} view */
function fullScreen(view) {
  if (document.fullscreenElement) document.exitFullscreen();
  else view.root.requestFullscreen?.().catch(() => view.say("This browser does not allow full screen here"));
}
