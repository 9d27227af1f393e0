// @ts-check
// The legend: fills, lines and signs of the picture, with their meanings.

import { legendOf } from "./colouring.js";
import { make } from "./dom.js";

/** @import { LegendEntry, View } from "./types.js" */

export class Legend {
  /** @param {View} view */
  constructor(view) {
    this.view = view;
    this.element = make("div", { class: "gw-legend", role: "note", "aria-label": "Legend" });
    this.shown = /** @type {unknown[]} */ ([]);
  }

  update() {
    const { scene, theme, colouring, marks, panes, clock } = this.view;
    if (!this.view.hasScene) return;
    const state = [scene, theme, colouring, marks.own, marks.asked, panes, clock.compare];
    if (state.every((value, index) => value === this.shown[index])) return;
    this.shown = state;
    this.element.replaceChildren(...(marks.legendOf(colouring, theme) ?? legendOf(colouring, scene, theme)).map(fillEntry), ...this.#marks(), ...this.#others());
  }

  #marks() {
    const { marks } = this.view.theme;
    return [
      markEntry("\u2212", marks[2], "dashed", "removed"),
      markEntry("+", marks[3], "solid", "added"),
      markEntry("~", marks[4], "solid", "changed"),
    ];
  }

  /** Entries for signs that only some scenes have. */
  #others() {
    const { scene, theme, panes, clock } = this.view;
    const entries = [];
    if (clock.compare === "rewrite") entries.push(outlineEntry(`2.5px solid ${theme.frame}`, "matched by this rewrite"));
    if (panes === 2) entries.push(outlineEntry(`1px dotted ${theme.muted}`, "only in the other pane"));
    if (scene.closed.length) entries.push(make("span", { class: "gw-key" }, make("i", { class: "gw-swatch gw-stacked" }), "closed group"));
    if (scene.closed.some((index) => scene.boxes[index].flops || scene.boxes[index].us)) entries.push(make("span", { class: "gw-key" }, make("i", { class: "gw-share" }), `share of the ${scene.measured?.us ? "time" : "FLOPs"}`));
    if (scene.looks.some((look) => look.w >= 0)) entries.push(make("span", { class: "gw-key" }, make("i", { class: "gw-swatch gw-small" }), "layout of the weights"));
    if (scene.widths?.length) entries.push(make("span", { class: "gw-key" }, make("i", { class: "gw-double" }), narrowText(scene.widths)));
    if (scene.ticks.some((ticks) => ticks.length)) entries.push(make("span", { class: "gw-key" }, make("i", { class: "gw-stub" }), "value with many uses"));
    return entries;
  }
}

/** Such as "int8 or float16, narrower than float32". @param {string[]} widths the usual type, then the narrower ones */
function narrowText([usual, ...narrower]) {
  return `${narrower.join(" or ")}, narrower than ${usual}`;
}

/** @param {LegendEntry} entry */
function fillEntry({ fill, line, border, text, scale, low, high }) {
  if (!fill && !scale) return make("span", { class: "gw-key", text });
  const swatch = make("i", { class: scale ? "gw-scale" : "gw-swatch" });
  if (scale) {
    swatch.style.background = `linear-gradient(to right, ${scale[0]}, ${scale[1]})`;
    return make("span", { class: "gw-key" }, `${text}: ${low}`, swatch, high ?? "");
  }
  swatch.style.background = fill ?? "";
  swatch.style.border = `${border === "thick" ? 2.5 : 1}px ${border === "dotted" ? "dotted" : "solid"} ${line ?? "transparent"}`;
  return make("span", { class: "gw-key" }, swatch, text);
}

/** @param {string} sign @param {string} colour @param {string} line @param {string} text */
function markEntry(sign, colour, line, text) {
  const swatch = make("i", { class: "gw-swatch gw-sign", text: sign });
  swatch.style.border = `1.5px ${line} ${colour}`;
  swatch.style.color = colour;
  return make("span", { class: "gw-key" }, swatch, text);
}

/** @param {string} border @param {string} text */
function outlineEntry(border, text) {
  const swatch = make("i", { class: "gw-swatch" });
  swatch.style.border = border;
  return make("span", { class: "gw-key" }, swatch, text);
}
