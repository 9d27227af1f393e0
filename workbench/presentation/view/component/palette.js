// @ts-check
// The command palette: one list that typing narrows (Ctrl+K). What it lists is its owner's: a view, or a page without one.

import { make, setText } from "./dom.js";
import { printable } from "./text_metrics.js";

/** @typedef {{ kind: string, text: string, keys?: string, act: () => unknown }} Entry */

const MAX_LISTED_ENTRIES = 60;

export class Palette {
  /** @param {string} label what it lists, in words @param {(text: string) => Entry[]} entries what it lists for a typed text
   * @param {() => void} closed called when it closes */
  constructor(label, entries, closed) {
    this.entries = entries;
    this.closed = closed;
    this.shown = /** @type {Entry[]} */ ([]);
    this.current = 0;
    this.field = make("input", {
      type: "text",
      class: "gw-palette-field",
      role: "combobox",
      "aria-expanded": "true",
      "aria-controls": "gw-palette-list",
      "aria-label": label,
      placeholder: label,
      spellcheck: "false",
      input: () => this.#fill(),
      keydown: (/** @type {KeyboardEvent} */ event) => this.#key(event),
    });
    this.list = make("div", { id: "gw-palette-list", class: "gw-hits", role: "listbox", "aria-label": "Commands" });
    this.count = make("div", { class: "gw-hidden", role: "status" });
    this.element = make("div", {
      class: "gw-help gw-palette",
      role: "dialog",
      "aria-label": "Command palette",
      hidden: true,
      focusout: (/** @type {FocusEvent} */ event) => {
        if (!this.element.contains(/** @type {Node} */ (event.relatedTarget))) this.element.hidden = true;
      },
    }, this.field, this.list, this.count);
  }

  open() {
    this.element.hidden = false;
    this.field.value = "";
    this.#fill();
    this.field.focus();
  }

  /** Closes the palette; returns whether it was open. */
  close() {
    if (this.element.hidden) return false;
    this.element.hidden = true;
    this.closed();
    return true;
  }

  #fill() {
    this.shown = this.entries(this.field.value.trim()).slice(0, MAX_LISTED_ENTRIES);
    this.list.replaceChildren(...this.shown.map((entry, index) => make("button", {
      type: "button",
      id: `gw-palette-${index}`,
      class: "gw-hit",
      role: "option",
      tabindex: "-1",
      click: () => this.#run(index),
    }, make("span", {}, make("small", { text: entry.kind }), " ", printable(entry.text), entry.keys ? make("kbd", { text: entry.keys }) : ""))));
    setText(this.count, `${this.shown.length} found`);
    this.#mark(0);
  }

  /** @param {number} index */
  #mark(index) {
    this.current = Math.min(Math.max(index, 0), this.shown.length - 1);
    [...this.list.children].forEach((option, at) => option.setAttribute("aria-selected", String(at === this.current)));
    this.field.setAttribute("aria-activedescendant", this.current < 0 ? "" : `gw-palette-${this.current}`);
    this.list.children[this.current]?.scrollIntoView({ block: "nearest" });
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const moves = /** @type {Record<string, number>} */ ({ ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 });
    if (!(event.key in moves) && event.key !== "Enter" && event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    if (event.key === "Escape") this.close();
    else if (event.key === "Enter") this.#run(this.current);
    else this.#mark(this.current + moves[event.key]);
  }

  /** @param {number} index */
  #run(index) {
    const entry = this.shown[index];
    this.close();
    entry?.act();
  }
}

/** The entries that have each word of the text. @param {Entry[]} entries @param {string} text @returns {Entry[]} */
export function withWords(entries, text) {
  const words = text.toLowerCase().split(/\s+/);
  return entries.filter((entry) => words.every((word) => `${entry.kind} ${entry.text}`.toLowerCase().includes(word)));
}

/** Elements of the page with a text, each as an entry that clicks it. @param {string} selector @param {string} kind @returns {Entry[]} */
export function linksOf(selector, kind) {
  const links = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(selector)]);
  return links
    .map((link) => ({ kind, text: buttonText(link), act: () => (link.querySelector("input") ?? link).click() }))
    .filter(({ text }) => text);
}

/** The text of a button, without the name of its icon. @param {HTMLElement} element */
function buttonText(element) {
  return (element.querySelector("[data-testid=stMarkdownContainer]") ?? element).textContent.trim();
}
