// @ts-check
// The controls above the graph.

import { goToChange } from "./changes.js";
import { THIS_REWRITE, WHOLE_STEP } from "./clock.js";
import { colouringsOf, PROVIDER_TITLE } from "./colouring.js";
import { make, makeButton, makeSelect, makeToggle, setOptions, setPressed, setShown } from "./dom.js";
import { makeMenu, makeMenuLine } from "./menu.js";
import { saveGif } from "./recording.js";
import { copyLink, saveDot, savePng, saveSvg } from "./saving.js";
import { megabytes } from "./text_metrics.js";

/** @import { View } from "./types.js" */

const MAX_FILE_BYTES = 20e6; // of a file of numbers
const ASK_PROVIDERS = "ask_providers"; // an entry of the list of colourings
const ZOOM_STEP = 1.25;
const HOPS = /** @type {[number, string][]} */ ([[0, "all boxes"], [1, "1 hop away"], [2, "2 hops away"], [3, "3 hops away"]]);

export class Toolbar {
  /** @param {View} view */
  constructor(view) {
    this.view = view;
    this.colouring = makeSelect("Colour by", (value) => (value === ASK_PROVIDERS ? this.#askProviders() : view.setColouring(value)));
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
    this.wheel = makeToggle("Wheel zooms", "The wheel zooms instead of scrolling", () => view.set({ wheelZooms: !view.wheelZooms }));
    this.pageKeys = makeToggle("Without focus", "Keys act without a click on the graph", () => view.set({ pageKeys: !view.pageKeys }));
    setOptions(this.hops, HOPS, 0);
    const save = (/** @type {string} */ text, /** @type {string} */ title, /** @type {(view: View) => void} */ action) =>
      makeButton(text, title, () => {
        this.more.open = false; // it would cover what is said
        if (view.hasScene) action(view);
      });
    this.more = makeMenu("More", "More controls of the graph",
      makeMenuLine("Show", this.constants, this.flat, this.inspector),
      makeMenuLine("Near the selection", this.hops),
      makeMenuLine("Picture", this.wheel, makeButton("Full screen", "Full screen", () => this.#fullScreen())),
      makeMenuLine("Save",
        save("SVG", "The whole graph as SVG", saveSvg),
        save("PNG", "The visible part as PNG", savePng),
        save("GIF", "This step, played, as GIF", saveGif),
        save("DOT", "The whole graph for Graphviz", saveDot),
        save("Copy link", "The link to this view", copyLink)),
      makeMenuLine("Keys", makeButton("Palette", "Passes, nodes, actions and pages in one list (Ctrl+K)", () => view.palette.open()), this.pageKeys, makeButton("All keys", "All keys (?)", () => view.help.toggle())),
      makeMenuLine("Other", this.numbers, this.file));

    this.element = make("div", { class: "gw-toolbar", role: "toolbar", "aria-label": "Graph" },
      view.search.element,
      this.colouring,
      make("span", { class: "gw-joined gw-of-history", role: "group", "aria-label": "Panes" }, this.two, this.one),
      make("span", { class: "gw-joined gw-of-history gw-compared", role: "group", "aria-label": "What is compared" }, this.thisRewrite, this.wholeStep),
      makeButton("Next change", "Next change (c)", () => goToChange(view, 1), { class: "gw-button gw-of-history" }),
      make("span", { class: "gw-joined", role: "group", "aria-label": "Zoom" },
        makeButton("\u2212", "Zoom out (-)", () => view.zoomBy(1 / ZOOM_STEP)),
        makeButton("+", "Zoom in (+)", () => view.zoomBy(ZOOM_STEP)),
        makeButton("Fit", "Show the whole graph (Space)", () => view.fit())),
      this.more);
  }

  update() {
    const { view } = this;
    if (view.hasScene) setOptions(this.colouring, [...colouringsOf(view.scene), ...this.#questions(), ...view.marks.colourings], view.colouring);
    setPressed(this.two, view.panes === 2);
    setPressed(this.one, view.panes === 1);
    setPressed(this.thisRewrite, view.clock.compare === THIS_REWRITE);
    setPressed(this.wholeStep, view.clock.compare === WHOLE_STEP);
    setPressed(this.constants, view.data.constants);
    setPressed(this.flat, view.data.flat);
    setPressed(this.inspector, view.inspectorOpen);
    setPressed(this.wheel, view.wheelZooms);
    setPressed(this.pageKeys, view.pageKeys);
    setShown(this.constants, view.data.offers?.constants ?? true);
    setShown(this.flat, view.data.offers?.flat ?? true);
    setShown(this.numbers, view.outside.numbers);
    this.hops.value = String(view.hops);
  }

  /** The colouring for which ONNX Runtime has to be asked first. @returns {[string, string][]} */
  #questions() {
    const { view } = this;
    const isAsked = Boolean(view.scene.providers?.length) || !view.data.placeable || !view.outside.providers;
    return isAsked ? [] : [[ASK_PROVIDERS, `${PROVIDER_TITLE}\u2026`]];
  }

  #askProviders() {
    this.colouring.value = this.view.colouring;
    this.view.say("ONNX Runtime is asked where it runs each node");
    this.view.outside.providers?.();
  }

  #fullScreen() {
    const { view } = this;
    this.more.open = false;
    view.stage.focus(); // so that the arrow keys go through the rewrites
    if (document.fullscreenElement) document.exitFullscreen();
    else view.root.requestFullscreen?.().catch(() => view.say("This browser does not allow full screen here"));
  }

  async #readNumbers() {
    const [file] = this.file.files ?? [];
    if (!file) return;
    this.file.value = ""; // so that the same file can be chosen again
    if (file.size > MAX_FILE_BYTES) this.view.say(`${file.name} is larger than ${megabytes(MAX_FILE_BYTES / 1e6)}; keep one line for each node`);
    else this.view.outside.numbers?.(file.name, await file.text());
  }
}
