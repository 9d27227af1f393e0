// @ts-check
// A lesson in one HTML file. Python wrote a section for each stop; the page shows one section, and its moment in the view.

import { elementOf } from "./dom.js";
import { Offline } from "./offline.js";
import { putHook } from "./test_api.js";

/** @import { Tables } from "./offline.js" */

/** @typedef {{ history: number, step: number, rewrite: number | null, panes: number, node: string, frame: string[] }} LessonStop */

const HOOK = "lesson";
const TICK_MS = 500;
const PRESENTS = "presents"; // class of the page while it is presented, and the entry of its address: since when
const WITHOUT_NOTES = "without-notes";

class LessonPage {
  /** @param {{ histories: Tables[], stops: LessonStop[] }} data */
  constructor({ histories, stops }) {
    this.histories = histories;
    this.stops = stops;
    this.sections = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("section[data-stop]")]);
    this.pane = elementOf("graph-workbench");
    this.offline = /** @type {Offline | null} */ (null);
    this.removeHook = () => {};
    this.history = -1; // index of the one in the view, -1 before the first
    this.back = this.#button("back", () => this.show(this.shown - 1));
    this.next = this.#button("next", () => this.goOn());
    this.#button("present", () => this.present(Date.now()));
    this.#button("leave", () => this.present(0));
    this.keys = /** @type {HTMLDialogElement} */ (document.getElementById("keys"));
    this.#button("help", () => this.keys.showModal());
    this.place = elementOf("place");
    this.clock = elementOf("clock").querySelector("[role=timer]") ?? elementOf("clock");
    this.following = elementOf("following");
    this.link = this.following.querySelector("a"); // to the next lesson, if that is beside this file
    document.addEventListener("keydown", (event) => this.#key(event), { capture: true });
    setInterval(() => this.#tick(), TICK_MS);
    const here = new URLSearchParams(window.location.hash.slice(1));
    const stop = Number(here.get("stop") ?? 1);
    this.since = Number(here.get(PRESENTS) ?? 0); // ms, since when it is presented; 0: it is not
    this.shown = -1;
    this.show(Number.isInteger(stop) ? stop - 1 : 0);
    this.present(this.since);
  }

  /** The button of this id. @param {string} id @param {() => void} press */
  #button(id, press) {
    const button = /** @type {HTMLButtonElement} */ (document.getElementById(id));
    button.addEventListener("click", press);
    return button;
  }

  /** The stop of this index, or the nearest one. @param {number} index */
  show(index) {
    const number = Math.min(Math.max(index, 0), this.stops.length - 1);
    if (number === this.shown) return;
    this.shown = number;
    this.sections.forEach((section) => { section.hidden = Number(section.dataset.stop) !== number; });
    const isLast = number === this.stops.length - 1;
    this.back.disabled = number === 0;
    this.next.disabled = isLast && !this.link;
    this.next.textContent = isLast && this.link ? "Next lesson" : "Next";
    this.following.hidden = !isLast;
    this.place.textContent = `stop ${number + 1} of ${this.stops.length}`;
    this.#writeAddress();
    const { history, step, rewrite, panes, node, frame } = this.stops[number];
    if (history !== this.history) this.#mount(history);
    this.offline?.goTo(String(number), { step, rewrite, panes, n: 0 }, node, frame);
  }

  /** The next stop, or after the last one the next lesson, which is presented too. */
  goOn() {
    if (this.shown < this.stops.length - 1) this.show(this.shown + 1);
    else if (this.link) window.location.assign(`${this.link.getAttribute("href")}${this.since ? `#${PRESENTS}=${this.since}` : ""}`);
  }

  /** Begins or, with 0, ends to show the clock and the notes. @param {number} since */
  present(since) {
    this.since = since;
    document.body.classList.toggle(PRESENTS, since > 0);
    this.#writeAddress();
    this.#tick();
  }

  #writeAddress() {
    window.history.replaceState(null, "", `#stop=${this.shown + 1}${this.since ? `&${PRESENTS}=${this.since}` : ""}`);
  }

  #tick() {
    const seconds = Math.max(0, Math.floor((Date.now() - this.since) / 1000));
    if (this.since) this.clock.textContent = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  }

  /** @param {number} history */
  #mount(history) {
    if (this.offline) {
      this.removeHook();
      this.offline.view.destroy();
    }
    this.history = history;
    this.offline = new Offline(this.histories[history], this.pane, { height: "100%", hash: false, player: true });
    this.removeHook = putHook(HOOK, this.offline.view);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const tag = /** @type {HTMLElement} */ (event.target).tagName;
    if (this.keys.open || tag === "INPUT" || tag === "SELECT" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.shiftKey && event.key !== "?") return; // Shift with an arrow moves the picture
    const action = {
      PageDown: () => this.goOn(),
      ArrowRight: () => this.goOn(),
      PageUp: () => this.show(this.shown - 1),
      ArrowLeft: () => this.show(this.shown - 1),
      a: () => this.#toggleAnswer(),
      p: () => this.present(this.since || Date.now()),
      n: () => document.body.classList.toggle(WITHOUT_NOTES),
      Escape: () => this.present(0),
      "?": () => this.keys.showModal(),
    }[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  #toggleAnswer() {
    const answers = this.sections.filter((section) => !section.hidden).map((section) => section.querySelector("details"));
    answers.forEach((answer) => { if (answer) answer.open = !answer.open; });
  }
}

new LessonPage(JSON.parse(elementOf("graph-workbench-data").textContent));
