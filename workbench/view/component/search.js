// @ts-check
// Finding over the whole model: a query goes out, hits come back with the data and are listed beside the graph.

import { make, makeButton, makeToggle, setPressed, setShown, setText } from "./dom.js";
import { QUERY, takeMarks } from "./marks.js";
import { printable, thousands } from "./text_metrics.js";

/** @import { Found, View } from "./types.js" */

const PAUSE = 300; // ms without a key before the search starts
const LISTED = 100; // hits
const ANSWERED = 5000; // ms after which a query that has no answer is sent again: Streamlit may drop a request
const HINT = "Words, or op:Transpose  scope:attn2  name:to_q  shape:4096  layout:NHWC; all of them must hold";

/** A hit: the operator and the name, and below them shapes and layouts; two blanks part them. @param {string} words */
function linesOf(words) {
  const [op, name = "", ...rest] = words.split("  ");
  const first = make("span", {}, make("b", { text: printable(op) }), ` ${printable(name)}`);
  return rest.length ? [first, make("small", { text: printable(rest.join(" ")) })] : [first];
}

export class Search {
  /** @param {View} view */
  constructor(view) {
    this.view = view;
    this.asked = ""; // the query sent last
    this.fault = ""; // why it cannot be read
    this.repeated = /** @type {string} */ (null); // the scene for which it was sent again
    this.seen = /** @type {number} */ (undefined); // number of the answer taken last
    this.hits = /** @type {[string, string][]} */ ([]);
    this.total = 0;
    this.current = -1;
    this.goWhenFound = false;
    this.revealing = ""; // the hit that was asked for, since the scene has not got it
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
    this.on = makeButton("\u2193", "Next hit (Enter)", () => this.step(1));
    this.element = make("span", { class: "gw-find", role: "search" }, this.field, this.count, this.back, this.on);
    this.heading = make("h2", { class: "gw-title", dir: "auto" });
    this.colour = makeToggle("Colour", "Colour by the query: what it finds, and what not", () => view.setColouring(view.colouring === QUERY ? "layout" : QUERY));
    this.only = makeToggle("Only hits", "Dim all that the query does not find", () => this.#toggleOnly());
    this.list = make("div", { class: "gw-hits", role: "listbox", "aria-label": "Hits" });
    this.rest = make("p", { class: "gw-rest" });
    this.panel = make("aside", { class: "gw-found", "aria-label": "Hits", hidden: true },
      make("div", { class: "gw-inspector-head" }, this.heading, makeButton("\u00d7", "Clear the query", () => this.ask(""))),
      make("div", { class: "gw-found-how" }, this.colour, this.only),
      this.list,
      this.rest);
  }

  #toggleOnly() {
    const { view } = this;
    view.onlyHits = !view.onlyHits;
    view.focus();
    view.stage.request();
    view.refresh();
  }

  focus() {
    this.field.focus();
    this.field.select();
  }

  /** What another search of the same view goes on with; whoever pressed Enter meanwhile still goes to the hit. */
  get state() {
    const { asked, fault, seen, hits, total, current, goWhenFound, revealing } = this;
    return { asked, fault, seen, hits, total, current, goWhenFound, revealing };
  }

  /** A request of a component that is taken down may be lost: it is made again. @param {Search["state"]} state */
  restore(state) {
    Object.assign(this, state);
    this.field.value = this.asked;
    this.#fillList();
    setTimeout(() => this.revealing && this.view.outside.reveal(this.revealing)); // not while the component is mounted
  }

  /** What has arrived with the data. @param {Found} found */
  heed(found) {
    if (this.view.data.show?.id === this.revealing) this.revealing = "";
    this.#take(found);
    this.#askAgain(found);
  }

  /** Hits that have arrived. @param {Found} found */
  #take(found) {
    if (!found || found.n === this.seen) return;
    this.seen = found.n;
    if (found.query !== this.asked) return; // an answer to what nobody asks any more
    const at = this.hits[this.current]?.[0]; // the same query answered again: one stays where one was
    this.hits = found.hits;
    this.total = found.total;
    this.fault = found.fault;
    this.current = at === undefined ? -1 : this.hits.findIndex(([name]) => name === at);
    this.#fillList();
    if (this.goWhenFound && this.hits.length) this.step(1);
    this.goWhenFound = false;
  }

  /** Asks again where the data are of another query: of a history that was not asked before. @param {Found} found */
  #askAgain(found) {
    if (!this.asked || found?.query === this.asked || this.repeated === this.view.shownScene) return;
    this.repeated = this.view.shownScene;
    setTimeout(() => this.#send()); // not while the component is mounted
  }

  /** Sends the query, and again until it is answered. */
  #send() {
    clearTimeout(this.sending);
    this.view.outside.find(this.asked);
    this.sending = setTimeout(() => this.#waits() && this.view.root.isConnected && this.#send(), ANSWERED);
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
    this.waiting = setTimeout(() => this.ask(this.field.value), PAUSE);
  }

  /** Sends the query, unless it was the last one; "" clears it. @param {string} text */
  ask(text) {
    clearTimeout(this.waiting);
    const query = text.trim();
    if (this.field.value.trim() !== query) this.field.value = query;
    if (query === this.asked) return;
    this.asked = query;
    this.hits = /** @type {[string, string][]} */ ([]);
    this.total = 0;
    this.fault = "";
    this.current = -1;
    this.#fillList();
    if (query) this.#send();
    takeMarks(this.view);
    this.view.refresh();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const direction = { Enter: event.shiftKey ? -1 : 1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!direction) return;
    event.preventDefault();
    if (this.field.value.trim() !== this.asked) {
      this.goWhenFound = true;
      this.ask(this.field.value);
    } else if (this.hits.length) this.step(direction);
    else if (this.#waits()) {
      this.goWhenFound = true;
      this.#send(); // Enter once more asks once more
    }
  }

  #fillList() {
    this.list.replaceChildren(...this.hits.slice(0, LISTED).map(([name, words], place) => make("button", {
      type: "button",
      class: "gw-hit",
      role: "option",
      dir: "auto",
      tabindex: "-1",
      title: printable(name),
      click: () => {
        this.current = place;
        this.#go();
      },
    }, ...linesOf(words || name))));
    const more = this.total - Math.min(LISTED, this.hits.length);
    setText(this.rest, more > 0 ? `and ${thousands(more)} more` : "");
    setShown(this.rest, more > 0);
  }

  /** Is the query sent, and its answer not here? */
  #waits() {
    return Boolean(this.asked) && this.view.data.found?.query !== this.asked;
  }

  update() {
    const { view } = this;
    const asking = this.#waits();
    const place = this.current < 0 ? thousands(this.total) : `${thousands(this.current + 1)} of ${thousands(this.total)}`;
    setText(this.count, !this.asked || this.fault ? "" : asking ? "\u2026" : place);
    this.back.disabled = this.on.disabled = !this.hits.length;
    setShown(this.panel, this.asked);
    this.panel.classList.toggle("gw-failed", Boolean(this.fault));
    setText(this.heading, asking ? "Searching" : this.#said());
    this.colour.disabled = this.only.disabled = !this.hits.length;
    setPressed(this.colour, view.colouring === QUERY);
    setPressed(this.only, view.onlyHits);
    [...this.list.children].forEach((hit, at) => hit.setAttribute("aria-selected", String(at === this.current)));
    this.list.children[this.current]?.scrollIntoView({ block: "nearest" });
  }

  #said() {
    if (this.fault) return `${this.fault[0].toUpperCase()}${this.fault.slice(1)}.`;
    if (!this.total) return `No node is found by \u201c${printable(this.asked)}\u201d.`;
    return `${thousands(this.total)} ${this.total === 1 ? "node" : "nodes"} found`;
  }
}
