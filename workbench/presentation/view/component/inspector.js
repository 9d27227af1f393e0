// @ts-check
// The inspector: what Python, or the report's table, has about the selected box, in sections.

import { make, makeButton, setShown } from "./dom.js";
import { Drawing } from "./drawing.js";
import { printable, thousands } from "./text_metrics.js";
import { tipLines } from "./tip.js";

/** @import { DrawingEntry, Histogram, Inspected, MomentEntry, Section, View } from "./types.js" */

export class Inspector {
  /** @param {View} view */
  constructor(view) {
    this.view = view;
    this.drawing = new Drawing(view); // covers the view while it is open
    this.title = make("h2", { class: "gw-title", dir: "auto" });
    this.body = make("div", { class: "gw-sections" });
    this.element = make("aside", { class: "gw-inspector", "aria-label": "Inspector" },
      make("div", { class: "gw-inspector-head" }, this.title, makeButton("\u00d7", "Close the inspector (i)", () => view.toggleInspector())),
      this.body,
      this.drawing.element);
    this.shown = /** @type {Inspected | string} */ ("");
    this.folded = new Map(); // by title of a section: whether the user left it open
  }

  update() {
    const { view } = this;
    setShown(this.element, view.inspectorOpen && view.selected !== "");
    const known = view.data.inspector?.id === view.selected ? view.data.inspector : null;
    // Until Python answers: what the scene has.
    const key = known ?? `${view.selected}\n${view.scene.id}\n${view.data.absent}`;
    if (key === this.shown) return;
    this.shown = key;
    if (known) this.#show(known);
    else this.#showFromScene();
  }

  #showFromScene() {
    const { view } = this;
    const name = view.selectedBox >= 0 ? view.scene.nameOf(view.selectedBox) : view.selected;
    this.title.textContent = name ? printable(name) : "Nothing selected";
    const lines = view.selectedBox >= 0 ? tipLines(view, view.selectedBox) : [];
    const texts = view.selected ? [...lines, view.data.absent ?? ""].filter(Boolean) : ["Click a box, or press n."];
    this.body.replaceChildren(...texts.map((text) => make("p", { text, dir: "auto" })));
  }

  /** @param {Inspected} known */
  #show(known) {
    this.title.textContent = known.title ?? known.id;
    const about = known.about ? [make("p", { text: known.about, dir: "auto" })] : [];
    this.body.replaceChildren(...about, ...this.#actions(known.id), ...(known.sections ?? []).map((section) => this.#section(section)));
    this.body.scrollTop = 0;
    performance.mark("graph-workbench:inspector");
  }

  /** What the page can do with the box. @param {string} id */
  #actions(id) {
    const { actions } = this.view.data;
    if (!actions?.length) return [];
    return [make("div", { class: "gw-actions" }, ...actions.map((label) =>
      makeButton(label, `${label} this box`, () => this.view.outside.act?.(label, id))))];
  }

  /** @param {Section} section */
  #section(section) {
    const open = this.folded.get(section.title) ?? section.open ?? false;
    const details = make("details", { class: "gw-section", open, toggle: () => this.folded.set(section.title, details.open) },
      make("summary", { text: section.title }));
    if (section.rows?.length) details.append(tableOf(section, (t) => this.#goTo(t)));
    if (section.histogram) details.append(histogramOf(section.histogram));
    if (section.drawings?.length) details.append(this.#drawings(section.drawings));
    if (section.moments?.length) details.append(this.#moments(section.moments));
    if (section.text) details.append(make("p", { class: "gw-text", text: section.text, dir: "auto" }));
    return details;
  }

  /** The node's history: each moment is a button that goes there. @param {MomentEntry[]} moments */
  #moments(moments) {
    return make("ol", { class: "gw-moments" }, ...moments.map(({ t, words, what }) => make("li", {},
      make("button", { type: "button", class: `gw-moment gw-${what ?? ""}`, text: words, dir: "auto", click: () => this.#goTo(t) }))));
  }

  /** @param {DrawingEntry[]} drawings */
  #drawings(drawings) {
    return make("div", { class: "gw-drawings" }, ...drawings.map((drawing) =>
      makeButton(`Draw ${printable(drawing.words)}`, drawing.about, () => this.drawing.show(drawing))));
  }

  /** To the moment after t rewrites. @param {number} t */
  #goTo(t) {
    this.view.tick((clock) => clock.goToRewrite(clock.stepOf(t), t - clock.steps[clock.stepOf(t)].first));
  }
}

/** A table; if its rows have moments, the first cell of each is a button that goes there.
 * @param {Section} section @param {(t: number) => void} goTo */
function tableOf({ head, rows = [], at }, goTo) {
  const cells = (/** @type {"th" | "td"} */ tag, /** @type {string[]} */ row) => row.map((cell) => make(tag, { text: cell, dir: "auto" }));
  const lineOf = (/** @type {string[]} */ row, /** @type {number} */ index) => {
    if (!at) return cells("td", row);
    const button = make("button", { type: "button", class: "gw-moment", text: row[0], dir: "auto", click: () => goTo(at[index]) });
    return [make("td", {}, button), ...cells("td", row.slice(1))];
  };
  const table = make("table", {});
  if (head) table.append(make("thead", {}, make("tr", {}, ...cells("th", head))));
  table.append(make("tbody", {}, ...rows.map((row, index) => make("tr", {}, ...lineOf(row, index)))));
  return make("div", { class: "gw-table" }, table);
}

/** @param {Histogram} histogram */
function histogramOf({ low, high, counts, words }) {
  const maxCount = Math.max(1, ...counts);
  const bars = counts.map((count) => {
    const bar = make("i", { title: thousands(count) });
    bar.style.height = `${Math.max(count ? 3 : 0, (100 * count) / maxCount)}%`;
    return bar;
  });
  const ends = make("div", { class: "gw-ends" }, make("span", { text: short(low) }), make("span", { text: short(high) }));
  return make("figure", { class: "gw-histogram" },
    make("div", { class: "gw-bars", role: "img", "aria-label": `Histogram of ${words ?? "the values"}` }, ...bars),
    ends,
    make("figcaption", { text: words ?? "", dir: "auto" }));
}

/** @param {number | string} number */
function short(number) {
  return typeof number === "number" ? String(Number(number.toPrecision(3))) : String(number);
}
