// @ts-check
// Where in the history the view stands: a step (pass), a moment of it, and what is compared with what.

/** @import { Step } from "./types.js" */

export const WHOLE_STEP = "step";
export const THIS_REWRITE = "rewrite";

export class Clock {
  constructor() {
    this.steps = /** @type {Step[]} */ ([{ title: "", first: 0, rewrites: 0 }]);
    this.step = 0;
    this.t = 0;
    this.compare = WHOLE_STEP;
    this.chosen = false; // the user said what to compare, in this step
    this.hideUnchanged = true;
  }

  get current() {
    return this.steps[this.step];
  }

  get first() {
    return this.current.first;
  }

  get last() {
    return this.current.first + this.current.rewrites;
  }

  /** The two moments that the panes show. */
  get moments() {
    return [this.compare === THIS_REWRITE ? Math.max(this.first, this.t - 1) : this.first, this.t];
  }

  /** Index of the rewrite that led here, -1 where the step begins. */
  get rewrite() {
    return this.t > this.first ? this.t - 1 : -1;
  }

  /** Another history: the place in it stays as far as it exists. @param {Step[]} steps */
  take(steps) {
    this.steps = steps.length ? steps : [{ title: "", first: 0, rewrites: 0 }];
    this.step = Math.min(this.step, this.steps.length - 1);
    this.t = Math.min(Math.max(this.t, this.first), this.last);
  }

  /** To a step as a whole: its last moment against its first. @param {number} step */
  goToStep(step) {
    this.step = Math.min(Math.max(step, 0), this.steps.length - 1);
    this.t = this.last;
    this.compare = WHOLE_STEP;
    this.chosen = false;
  }

  /** To the last step that changed something. */
  goToLastChange() {
    const last = this.steps.findLastIndex((step) => step.rewrites > 0);
    this.goToStep(last < 0 ? this.steps.length - 1 : last);
  }

  /** @param {number} step @param {number} rewrite */
  goToRewrite(step, rewrite) {
    this.goToStep(step);
    this.goToMoment(this.first + rewrite);
  }

  /** To a moment of this step; from then on single rewrites are compared, unless the user chose otherwise. @param {number} t */
  goToMoment(t) {
    this.t = Math.min(Math.max(t, this.first), this.last);
    if (!this.chosen) this.compare = THIS_REWRITE;
  }

  /** To the moment of a clock with the same steps, as it compares. @param {Clock} other */
  goWith(other) {
    [this.step, this.t, this.compare, this.chosen] = [other.step, other.t, other.compare, other.chosen];
  }

  /** One rewrite on or back, over the ends of steps too. Says whether it moved. @param {number} by */
  move(by) {
    if (this.t + by >= this.first && this.t + by <= this.last) {
      this.goToMoment(this.t + by);
      return true;
    }
    const step = this.#neighbour(by, (other) => other.rewrites > 0);
    if (step === this.step) return false;
    // The last moment of a step is the first of the next: going on starts with what its first rewrite did.
    this.goToRewrite(step, by > 0 ? 1 : this.steps[step].rewrites);
    return true;
  }

  /** One step on or back. @param {number} by */
  moveStep(by) {
    const step = this.#neighbour(by, (other, index) => this.shows(index));
    if (step === this.step) return false;
    this.goToStep(step);
    return true;
  }

  /** Is this step offered? Those that changed nothing may be hidden, except the beginning and the present one. @param {number} index */
  shows(index) {
    return !this.hideUnchanged || index === 0 || index === this.step || this.steps[index].rewrites > 0;
  }

  /** The step during which a moment came to be. @param {number} t */
  stepOf(t) {
    const found = this.steps.findIndex((step) => t > step.first && t <= step.first + step.rewrites);
    return Math.max(0, found);
  }

  /** @param {string} compare */
  choose(compare) {
    this.compare = compare;
    this.chosen = true;
  }

  /** @param {number} by @param {(step: Step, index: number) => boolean} wanted */
  #neighbour(by, wanted) {
    for (let step = this.step + by; step >= 0 && step < this.steps.length; step += by) {
      if (wanted(this.steps[step], step)) return step;
    }
    return this.step;
  }
}
