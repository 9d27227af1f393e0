// @ts-check
// Reports the selection and the moment to Python: the inspector's text, the page and its address depend on them.

import { QUERY } from "./marks.js";

/** @import { View } from "./types.js" */

export const COLOURED = "colour"; // values of `hits` in the address
export const ONLY = "only";
export const WALKED = 200; // ms after a move by keys: only the last of several is reported
export const SETTLED = 700; // ms after a change of the moment
const LEAVING = ["pointerdown", "focusin"];

export class SelectionSync {
  /** @param {View} view */
  constructor(view) {
    this.view = view;
    this.waiting = 0;
    this.reportedAgain = ""; // the node that was reported a second time
    this.leaves = (/** @type {Event} */ event) => {
      const key = `st-key-${view.data.replaced_by}`;
      if (this.waiting && event.composedPath().some((element) => element instanceof Element && element.classList.contains(key))) this.now();
    };
    for (const kind of LEAVING) window.addEventListener(kind, this.leaves, true); // before the press removes the view
  }

  destroy() {
    this.stop();
    for (const kind of LEAVING) window.removeEventListener(kind, this.leaves, true);
  }

  /** Reports the node again if the answer is about another one: two requests crossed, such as a lesson's stop and the
   * end of a step. */
  reportAgain() {
    const { data, selected } = this.view;
    if (!data.inspector || !selected || data.inspector.id === selected || this.reportedAgain === selected) return;
    this.reportedAgain = selected;
    this.late(SETTLED);
  }

  /** The view's state in the page's address; without a rewrite if a whole step is compared. */
  get addressState() {
    const { clock, selected, search, colouring, onlyHits } = this.view;
    const isPart = clock.compare === "rewrite" || clock.t !== clock.last;
    const hits = [colouring === QUERY ? COLOURED : "", onlyHits ? ONLY : ""].filter(Boolean).join(" ");
    return { step: clock.step, rewrite: isPart ? clock.t - clock.first : "", node: selected, query: search.query, hits };
  }

  now() {
    this.stop();
    if (this.view.selected !== this.reportedAgain) this.reportedAgain = "";
    const { step, rewrite, node } = this.addressState;
    this.view.outside.seen({ id: node, step, rewrite: rewrite === "" ? null : rewrite });
  }

  /** @param {number} ms */
  late(ms) {
    this.stop();
    this.waiting = setTimeout(() => this.now(), ms);
  }

  stop() {
    clearTimeout(this.waiting);
    this.waiting = 0;
  }
}
