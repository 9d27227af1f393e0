// @ts-check
// A dialog over the view with a picture that Python drew.

import { make, makeButton } from "./dom.js";

/** @import { DrawingEntry, View } from "./types.js" */

export class Drawing {
  /** @param {View} view */
  constructor(view) {
    this.view = view;
    this.heading = make("h2", { class: "gw-title", dir: "auto" });
    this.about = make("p", { dir: "auto" });
    this.picture = make("div", { class: "gw-picture" });
    this.element = make("div", { class: "gw-help gw-drawing", role: "dialog", "aria-label": "Memory order", tabindex: "-1", hidden: true },
      make("div", { class: "gw-inspector-head" }, this.heading, makeButton("\u00d7", "Close (Escape)", () => this.close())),
      this.about,
      this.picture);
  }

  /** @param {DrawingEntry} drawing */
  show({ words, about, svg }) {
    const text = typeof svg === "number" ? this.view.data.drawings?.[svg] ?? "" : svg;
    // Parsed as XML and never as HTML; Python escapes the model's strings in it.
    const parsed = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
    this.heading.textContent = words;
    this.about.textContent = about;
    this.picture.replaceChildren(document.importNode(parsed, true));
    this.element.hidden = false;
    this.element.focus();
  }

  /** Closes the dialog; returns whether it was open. */
  close() {
    if (this.element.hidden) return false;
    this.element.hidden = true;
    this.view.stage.focus();
    return true;
  }
}
