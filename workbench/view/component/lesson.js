// @ts-check
// A lesson in one HTML file: Python wrote a section for each stop; this shows one of them, with its moment in the view.

import { Offline } from "./offline.js";
import { putHook, removeHook } from "./test_api.js";

/** @import { Tables } from "./offline.js" */
/** @import { Inspected } from "./types.js" */

/** @typedef {{ history: number, step: number, rewrite: number | null, panes: number, node: string, text: Inspected | null }} LessonStop */

const HOOK = "lesson";

class LessonPage {
  /** @param {{ histories: Tables[], stops: LessonStop[] }} data */
  constructor({ histories, stops }) {
    this.histories = histories;
    this.stops = stops;
    this.sections = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("section[data-stop]")]);
    this.pane = document.getElementById("graph-workbench");
    this.offline = /** @type {Offline} */ (null);
    this.history = -1; // which is in the view
    this.back = /** @type {HTMLButtonElement} */ (document.getElementById("back"));
    this.next = /** @type {HTMLButtonElement} */ (document.getElementById("next"));
    this.place = document.getElementById("place");
    this.back.addEventListener("click", () => this.show(this.shown - 1));
    this.next.addEventListener("click", () => this.show(this.shown + 1));
    document.addEventListener("keydown", (event) => this.#key(event), { capture: true });
    const wanted = Number(new URLSearchParams(window.location.hash.slice(1)).get("stop") ?? 1);
    this.shown = -1;
    this.show(Number.isInteger(wanted) ? wanted - 1 : 0);
  }

  /** @param {number} wanted */
  show(wanted) {
    const number = Math.min(Math.max(wanted, 0), this.stops.length - 1);
    if (number === this.shown) return;
    this.shown = number;
    this.sections.forEach((section) => { section.hidden = Number(section.dataset.stop) !== number; });
    this.back.disabled = number === 0;
    this.next.disabled = number === this.stops.length - 1;
    this.place.textContent = `stop ${number + 1} of ${this.stops.length}`;
    window.history.replaceState(null, "", `#stop=${number + 1}`);
    const { history, step, rewrite, panes, node, text } = this.stops[number];
    if (history !== this.history) this.#mount(history);
    this.offline.goTo({ step, rewrite, panes, n: 0 }, node, text);
  }

  /** @param {number} history */
  #mount(history) {
    if (this.offline) {
      removeHook(HOOK);
      this.offline.view.destroy();
    }
    this.history = history;
    this.offline = new Offline(this.histories[history], this.pane, { height: "calc(100vh - 8.2rem)", hash: false });
    putHook(HOOK, this.offline.view);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const tag = /** @type {HTMLElement} */ (event.target).tagName;
    if (tag === "INPUT" || tag === "SELECT" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "PageDown") this.show(this.shown + 1);
    else if (event.key === "PageUp") this.show(this.shown - 1);
    else if (event.key === "a") this.#turnAnswer();
    else return;
    event.preventDefault();
  }

  #turnAnswer() {
    const answers = this.sections.filter((section) => !section.hidden).map((section) => section.querySelector("details"));
    answers.forEach((answer) => { if (answer) answer.open = !answer.open; });
  }
}

new LessonPage(JSON.parse(document.getElementById("graph-workbench-data").textContent));
