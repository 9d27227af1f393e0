// @ts-check
// Finding over the whole model: the search itself runs outside, hits come back with the data.

import { focusedIn, make, makeButton, setShown, setText } from "./dom.js";
import { printable, thousands } from "./text_metrics.js";

/** @import { Found, View } from "./types.js" */

const PAUSE = 300; // ms without a key before the search starts

export class Search {
  /** @param {View} view */
  constructor(view) {
    this.view = view;
    this.asked = ""; // the query sent last
    this.seen = /** @type {number} */ (undefined); // number of the answer taken last
    this.hits = /** @type {[string, string][]} */ ([]);
    this.total = 0;
    this.current = -1;
    this.goWhenFound = false;
    this.field = make("input", {
      type: "search",
      class: "gw-search",
      placeholder: "Find (/)",
      "aria-label": "Find a name, operator, shape or layout in the whole model",
      spellcheck: "false",
      input: () => this.#typed(),
      keydown: (/** @type {KeyboardEvent} */ event) => this.#key(event),
      blur: () => setTimeout(() => setShown(this.list, this.list.matches(":focus-within")), 150),
    });
    this.count = make("span", { class: "gw-count", role: "status" });
    this.back = makeButton("\u2191", "Previous hit (Shift+Enter)", () => this.step(-1));
    this.on = makeButton("\u2193", "Next hit (Enter)", () => this.step(1));
    this.list = make("div", { class: "gw-hits", role: "listbox", "aria-label": "Hits", hidden: true });
    this.element = make("span", { class: "gw-find", role: "search" }, this.field, this.count, this.back, this.on);
  }

  focus() {
    this.field.focus();
    this.field.select();
  }

  /** Hits that have arrived. @param {Found} found */
  take(found) {
    if (!found || found.n === this.seen) return;
    this.seen = found.n;
    if (found.query !== this.asked) return; // an answer to what nobody asks any more
    this.hits = found.hits;
    this.total = found.total;
    this.current = -1;
    this.#fillList();
    if (!this.total) this.view.say(`Nothing is called \u201c${printable(found.query)}\u201d`);
    if (this.goWhenFound && this.hits.length) this.step(1);
    this.goWhenFound = false;
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
    else view.outside.reveal(name);
    if (!this.list.matches(":focus-within")) setShown(this.list, focusedIn(view.root) === this.field && this.hits.length > 1);
    this.update();
  }

  #typed() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.#ask(), PAUSE);
  }

  #ask() {
    clearTimeout(this.waiting);
    const query = this.field.value.trim();
    if (query === this.asked) return;
    this.asked = query;
    this.hits = /** @type {[string, string][]} */ ([]);
    this.total = 0;
    this.current = -1;
    this.#fillList();
    if (query) this.view.outside.find(query);
    this.update();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const direction = { Enter: event.shiftKey ? -1 : 1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!direction) return;
    event.preventDefault();
    if (this.field.value.trim() !== this.asked) {
      this.goWhenFound = true;
      this.#ask();
    } else if (this.hits.length) this.step(direction);
    else this.goWhenFound = true;
  }

  #fillList() {
    this.list.replaceChildren(...this.hits.slice(0, 100).map(([name, words], place) => make("button", {
      type: "button",
      class: "gw-hit",
      role: "option",
      dir: "auto",
      tabindex: "-1",
      text: printable(words || name),
      title: printable(name),
      click: () => {
        this.current = place;
        this.#go();
      },
    })));
    setShown(this.list, this.hits.length > 0);
  }

  update() {
    const asking = this.asked && this.view.data.found?.query !== this.asked;
    const place = this.current < 0 ? thousands(this.total) : `${thousands(this.current + 1)} of ${thousands(this.total)}`;
    setText(this.count, !this.asked ? "" : asking ? "\u2026" : place);
    this.back.disabled = this.on.disabled = !this.hits.length;
    [...this.list.children].forEach((hit, at) => hit.setAttribute("aria-selected", String(at === this.current)));
    this.list.children[this.current]?.scrollIntoView({ block: "nearest" });
  }
}
