// @ts-check
// The command palette: one list of passes, changes, goals, nodes, actions and pages, narrowed by typing (Ctrl+K).

import { make, setText } from "./dom.js";
import { printable } from "./text_metrics.js";

/** @import { Key, View } from "./types.js" */

/** @typedef {{ kind: string, text: string, keys?: string, act: () => unknown }} Entry */

const MAX_NODES = 30; // nodes of the picture that are listed
const MAX_LISTED_ENTRIES = 60;
const MIN_NODE_LETTERS = 2; // of the text from which on nodes are listed
// Of the page Optimize beside the view, by what the palette calls them: kinds of change, goals.
const CONTROLS = {
  change: "[class*=st-key-show_kind_] button",
  goal: ".st-key-goal [role=radiogroup] label",
};
const PAGES = "[data-testid=stTopNav] a, .st-key-part_links a, [data-testid=stSidebar] [data-testid=stPageLink] a";

export class Palette {
  /** @param {View} view @param {Key[]} keys */
  constructor(view, keys) {
    this.view = view;
    this.keys = keys;
    this.shown = /** @type {Entry[]} */ ([]);
    this.current = 0;
    this.field = make("input", {
      type: "text",
      class: "gw-palette-field",
      role: "combobox",
      "aria-expanded": "true",
      "aria-controls": "gw-palette-list",
      "aria-label": "Passes, changes, goals, nodes, actions and pages",
      placeholder: "Passes, changes, goals, nodes, actions, pages",
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
    this.view.stage.focus();
    return true;
  }

  #fill() {
    const text = this.field.value.trim().toLowerCase();
    const words = text.split(/\s+/);
    const matches = entriesOf(this.view, this.keys).filter((entry) => words.every((word) => `${entry.kind} ${entry.text}`.toLowerCase().includes(word)));
    this.shown = [...matches, ...nodesOf(this.view, text), ...searchOf(this.view, this.field.value.trim())].slice(0, MAX_LISTED_ENTRIES);
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

/** Steps of the history, the controls beside the view, switches of passes, actions with their keys, and the pages of the app. @param {View} view @param {Key[]} keys @returns {Entry[]} */
function entriesOf(view, keys) {
  const { scene, clock } = view;
  const hasSteps = scene.T > 0 && !scene.pair;
  const passes = hasSteps
    ? clock.steps.map(({ title }, step) => ({ kind: "pass", text: title, act: () => view.tick((moved) => moved.goToStep(step)) }))
    : [];
  const controls = Object.entries(CONTROLS).flatMap(([kind, selector]) => linksOf(selector, kind));
  const switches = (view.data.switches ?? []).map(([key, text, isOn]) => ({
    kind: `switch ${isOn ? "off" : "on"}`,
    text,
    act: () => view.outside.switchPass?.(key),
  }));
  const actions = keys.map(([names, text, act]) => ({ kind: "action", text, keys: names[0], act: () => act(view) }));
  return [...passes, ...controls, ...switches, ...linksOf(PAGES, "page"), ...actions];
}

/** Elements of the page with a text, each as an entry that clicks it. @param {string} selector @param {string} kind @returns {Entry[]} */
function linksOf(selector, kind) {
  const links = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(selector)]);
  return links
    .filter((link) => link.textContent.trim())
    .map((link) => ({ kind, text: link.textContent.trim(), act: () => (link.querySelector("input") ?? link).click() }));
}

/** Nodes and groups of the picture with the text in their names. @param {View} view @param {string} text @returns {Entry[]} */
function nodesOf(view, text) {
  const { scene } = view;
  if (text.length < MIN_NODE_LETTERS) return [];
  const nodes = /** @type {Entry[]} */ ([]);
  for (const [index, { id, kind }] of scene.boxes.entries()) {
    const name = scene.nameOf(index);
    if (!`${name} ${id}`.toLowerCase().includes(text)) continue;
    nodes.push({ kind: kind === "group" ? "group" : "node", text: name, act: () => view.select(id, { centre: true }) });
    if (nodes.length === MAX_NODES) break;
  }
  return nodes;
}

/** The search of the whole model, which also finds what closed groups hide. @param {View} view @param {string} query @returns {Entry[]} */
function searchOf(view, query) {
  return query ? [{ kind: "find", text: `${query} in the whole model`, act: () => view.search.goTo(query) }] : [];
}
