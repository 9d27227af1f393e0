// @ts-check
// Search over the whole model: Python, or the report, answers a query with hits, which are listed beside the graph.

import { make, makeButton, makeToggle, setPressed, setShown, setText } from "./dom.js";
import { QUERY } from "./marks.js";
import { printable, thousands } from "./text_metrics.js";

/** @import { Found, View } from "./types.js" */

const PAUSE_MS = 300; // ms without a key before the search starts
const MAX_LISTED = 100; // hits in the list
const ANSWER_MS = 5000; // ms after which a query without an answer is sent again: Streamlit may drop a request
const HINT = "Words, or op:Transpose  scope:attn2  name:to_q  shape:4096  layout:NHWC; a node must match all of them";

/** The lines of a hit: operator and name, then shapes and layouts. Two blanks separate these parts in `hit`. @param {string} hit */
function linesOf(hit) {
  const [op, name = "", ...rest] = hit.split("  ");
  const first = make("span", {}, make("b", { text: printable(op) }), ` ${printable(name)}`);
  return rest.length ? [first, make("small", { text: printable(rest.join(" ")) })] : [first];
}

export class Search {
  /** @param {View} view */
  constructor(view) {
    this.view = view;
    this.query = ""; // the last query
    this.fault = ""; // why the query cannot be read, "" if it can
    this.repeated = ""; // the scene for which the query was sent again
    this.seen = /** @type {number | undefined} */ (undefined); // number of the last answer
    this.hits = /** @type {[string, string][]} */ ([]);
    this.total = 0;
    this.current = -1;
    this.goWhenFound = false;
    this.revealing = ""; // the hit that Python was asked to reveal
    this.field = make("input", {
      type: "search",
      class: "gw-search",
      placeholder: "Find (/)",
      title: HINT,
      "aria-label": "Find in the whole model",
      spellcheck: "false",
      input: () => this.#typed(),
      keydown: (/** @type {KeyboardEvent} */ event) => this.#key(event),
    });
    this.count = make("span", { class: "gw-count", role: "status" });
    this.back = makeButton("\u2191", "Previous hit (Shift+Enter)", () => this.step(-1));
    this.forward = makeButton("\u2193", "Next hit (Enter)", () => this.step(1));
    this.element = make("span", { class: "gw-find", role: "search" }, this.field, this.count, this.back, this.forward);
    this.heading = make("h2", { class: "gw-title", dir: "auto" });
    this.colour = makeToggle("Colour", "Colour hits and other nodes differently", () => view.setColouring(view.colouring === QUERY ? "layout" : QUERY));
    this.only = makeToggle("Only hits", "Dim all nodes but the hits", () => view.set({ onlyHits: !view.onlyHits }));
    this.list = make("div", { class: "gw-hits", role: "listbox", "aria-label": "Hits" });
    this.rest = make("p", { class: "gw-rest" });
    this.panel = make("aside", { class: "gw-found", "aria-label": "Hits", hidden: true },
      make("div", { class: "gw-inspector-head" }, this.heading, makeButton("\u00d7", "Clear the query", () => this.ask(""))),
      make("div", { class: "gw-found-how" }, this.colour, this.only),
      this.list,
      this.rest);
  }

  focus() {
    this.field.focus();
    this.field.select();
  }

  /** The state for the search of a view that takes this one's place, including a pending Enter. */
  get state() {
    const { query, fault, seen, hits, total, current, goWhenFound, revealing } = this;
    return { query, fault, seen, hits, total, current, goWhenFound, revealing };
  }

  /** Takes over a state, and repeats its request, which an unmounted component may have lost. @param {Search["state"]} state */
  restore(state) {
    Object.assign(this, state);
    this.field.value = this.query;
    this.#fillList();
    setTimeout(() => this.revealing && this.view.outside.reveal(this.revealing)); // not while the component is mounted
  }

  /** Reads the request for a query, and the answer, in new data. @param {Found | null | undefined} found */
  receive(found) {
    const { query } = this.view.data;
    if (query && query.n !== this.view.seen.query) {
      this.view.seen.query = query.n;
      setTimeout(() => { // not while the component is mounted
        this.ask(query.query);
        this.view.setColouring(QUERY);
      });
    }
    if (this.view.data.show?.id === this.revealing) this.revealing = "";
    this.#show(found);
    this.#askAgain(found);
  }

  /** Shows the hits of a new answer. @param {Found | null | undefined} found */
  #show(found) {
    if (!found || found.n === this.seen) return;
    this.seen = found.n;
    if (found.query !== this.query) return; // the answer to an older query
    const at = this.hits[this.current]?.[0]; // of a repeated query: the current hit stays
    this.hits = found.hits;
    this.total = found.total;
    this.fault = found.fault;
    this.current = at === undefined ? -1 : this.hits.findIndex(([name]) => name === at);
    this.#fillList();
    if (this.goWhenFound && this.hits.length) this.step(1);
    this.goWhenFound = false;
  }

  /** Sends the query again for a scene whose data answers another query, as after a change of the history. @param {Found | null | undefined} found */
  #askAgain(found) {
    if (!this.query || found?.query === this.query || this.repeated === this.view.shownScene) return;
    this.repeated = this.view.shownScene;
    setTimeout(() => this.#send()); // not while the component is mounted
  }

  /** Sends the query, repeatedly until it is answered. */
  #send() {
    clearTimeout(this.sending);
    this.view.outside.find(this.query);
    this.sending = setTimeout(() => this.#isPending() && this.view.root.isConnected && this.#send(), ANSWER_MS);
  }

  /** To the next (1) or previous (-1) hit. @param {number} direction */
  step(direction) {
    if (!this.hits.length) return;
    this.current = this.current < 0 && direction < 0 ? this.hits.length - 1 : (this.current + direction + this.hits.length) % this.hits.length;
    this.#go();
  }

  #go() {
    const { view } = this;
    const { scene } = view;
    const [name] = this.hits[this.current];
    if (scene.byId.has(name)) view.select(name, { centre: true });
    else {
      this.revealing = name;
      view.outside.reveal(name);
    }
    this.update();
  }

  #typed() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.ask(this.field.value), PAUSE_MS);
  }

  /** Sends the query, unless it was the last one; "" clears it. @param {string} text */
  ask(text) {
    clearTimeout(this.waiting);
    const query = text.trim();
    if (this.field.value.trim() !== query) this.field.value = query;
    if (query === this.query) return;
    this.query = query;
    this.hits = /** @type {[string, string][]} */ ([]);
    this.total = 0;
    this.fault = "";
    this.current = -1;
    this.#fillList();
    if (query) this.#send();
    this.view.updateMarks();
    this.view.refresh();
  }

  /** Searches, and goes to the first hit. @param {string} query */
  goTo(query) {
    this.goWhenFound = true;
    this.ask(query);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const direction = { Enter: event.shiftKey ? -1 : 1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!direction) return;
    event.preventDefault();
    if (this.field.value.trim() !== this.query) this.goTo(this.field.value);
    else if (this.hits.length) this.step(direction);
    else if (this.#isPending()) {
      this.goWhenFound = true;
      this.#send(); // a second Enter sends it again
    }
  }

  #fillList() {
    this.list.replaceChildren(...this.hits.slice(0, MAX_LISTED).map(([name, text], index) => make("button", {
      type: "button",
      class: "gw-hit",
      role: "option",
      dir: "auto",
      tabindex: "-1",
      title: printable(name),
      click: () => {
        this.current = index;
        this.#go();
      },
    }, ...linesOf(text || name))));
    const more = this.total - Math.min(MAX_LISTED, this.hits.length);
    setText(this.rest, more > 0 ? `and ${thousands(more)} more` : "");
    setShown(this.rest, more > 0);
  }

  /** Whether the query has no answer yet. */
  #isPending() {
    return Boolean(this.query) && this.view.data.found?.query !== this.query;
  }

  update() {
    const { view } = this;
    const isPending = this.#isPending();
    const position = this.current < 0 ? thousands(this.total) : `${thousands(this.current + 1)} of ${thousands(this.total)}`;
    setText(this.count, !this.query || this.fault ? "" : isPending ? "\u2026" : position);
    this.back.disabled = this.forward.disabled = !this.hits.length;
    setShown(this.panel, this.query);
    this.panel.classList.toggle("gw-failed", Boolean(this.fault));
    setText(this.heading, isPending ? "Searching" : this.#summary());
    this.colour.disabled = this.only.disabled = !this.hits.length;
    setPressed(this.colour, view.colouring === QUERY);
    setPressed(this.only, view.onlyHits);
    [...this.list.children].forEach((hit, at) => hit.setAttribute("aria-selected", String(at === this.current)));
    this.list.children[this.current]?.scrollIntoView({ block: "nearest" });
  }

  #summary() {
    if (this.fault) return `${this.fault[0].toUpperCase()}${this.fault.slice(1)}.`;
    if (!this.total) return `No node matches \u201c${printable(this.query)}\u201d.`;
    return `${thousands(this.total)} ${this.total === 1 ? "node" : "nodes"} found`;
  }
}
