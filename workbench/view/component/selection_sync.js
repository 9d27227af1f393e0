// @ts-check
// Tells those outside what is looked at: the inspector's text, the page and its address depend on it.

import { QUERY } from "./marks.js";

/** @import { View } from "./types.js" */

export const COLOURED = "colour"; // how hits are shown, in the address
export const ONLY = "only";
export const WALKED = 200; // ms after a step along the edges: only where one stops matters
export const SETTLED = 700; // ms after a step in time

export class SelectionSync {
  /** @param {View} view */
  constructor(view) {
    this.view = view;
    this.waiting = 0;
    this.toldAgain = ""; // the node that was told a second time
  }

  /** Where the answer is about another node, two requests crossed, such as a stop of a lesson and the end of a step: the
   * node is told once more. */
  heed() {
    const { data, selected } = this.view;
    if (!data.inspector || !selected || data.inspector.id === selected || this.toldAgain === selected) return;
    this.toldAgain = selected;
    this.late(SETTLED);
  }

  /** What is looked at, as the page's address says it; no rewrite where a step is seen as a whole. */
  get place() {
    const { clock, selected, search, colouring, onlyHits } = this.view;
    const part = clock.compare === "rewrite" || clock.t !== clock.last;
    const hits = [colouring === QUERY ? COLOURED : "", onlyHits ? ONLY : ""].filter(Boolean).join(" ");
    return { step: clock.step, rewrite: part ? clock.t - clock.first : "", node: selected, query: search.asked, hits };
  }

  now() {
    this.stop();
    if (this.view.selected !== this.toldAgain) this.toldAgain = "";
    const { step, rewrite, node } = this.place;
    this.view.outside.seen({ id: node, step, rewrite: rewrite === "" ? null : rewrite });
  }

  /** @param {number} ms */
  late(ms) {
    this.stop();
    this.waiting = setTimeout(() => this.now(), ms);
  }

  stop() {
    clearTimeout(this.waiting);
  }
}
