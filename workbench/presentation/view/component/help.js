// @ts-check
// A dialog with all keys.

import { make, makeButton } from "./dom.js";

const NAMES = /** @type {Record<string, string>} */ ({ ArrowUp: "\u2191", ArrowDown: "\u2193", ArrowLeft: "\u2190", ArrowRight: "\u2192" });
const POINTER = [
  ["drag", "moves the picture"],
  ["wheel", "scrolls; with Ctrl, or a pinch: zooms at the pointer"],
  ["click", "selects a box; on nothing: deselects"],
  ["double-click", "opens or closes a group; with Alt: all below"],
];

export class Help {
  /** `closed` is called after it was closed, to set the focus.
   * @param {[string[], string, unknown][]} keys @param {() => void} closed */
  constructor(keys, closed) {
    this.closed = closed;
    const rows = [...keys.map(([names, text]) => [names.map(nameOf).join(" or "), text]), ...POINTER];
    this.element = make("div", { class: "gw-help", role: "dialog", "aria-label": "Keys", hidden: true },
      makeButton("\u00d7", "Close (Escape)", () => this.close()),
      make("dl", {}, ...rows.map(([names, text]) => make("div", {}, make("dt", { text: names }), make("dd", { text: text })))));
  }

  toggle() {
    if (this.close()) return;
    this.element.hidden = false;
    this.element.querySelector("button")?.focus();
  }

  /** Closes the dialog; returns whether it was open. */
  close() {
    const wasOpen = !this.element.hidden;
    this.element.hidden = true;
    if (wasOpen) this.closed();
    return wasOpen;
  }
}

/** @param {string} combination */
function nameOf(combination) {
  return combination.replace(/Arrow\w+/, (arrow) => NAMES[arrow]).replace(/^([A-Z])$/, "Shift+$1");
}
