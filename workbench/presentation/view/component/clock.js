// @ts-check
// The view's position in the history: a step (pass), a moment of it, and the moment that it is compared with.

/** @import { Step } from "./types.js" */

export const WHOLE_STEP = "step";
export const THIS_REWRITE = "rewrite";

export class Clock {
  constructor() {
    this.steps = /** @type {Step[]} */ ([{ title: "", first: 0, rewrites: 0 }]);
    this.step = 0;
    this.t = 0;
    this.compare = WHOLE_STEP;
    this.chosen = false; // the user chose `compare` in this step
    this.hideUnchanged = true;
    this.isPair = false; // two graphs with nothing between them: their only moment is the last
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

  /** Index of the rewrite before this moment, -1 at the first moment of the step. */
  get rewrite() {
    return this.t > this.first ? this.t - 1 : -1;
  }

  /** Another history; the step and the moment stay, as far as they exist in it. @param {Step[]} steps */
  setSteps(steps, isPair = false) {
    this.isPair = isPair;
    this.steps = steps.length ? steps : [{ title: "", first: 0, rewrites: 0 }];
    this.step = Math.min(this.step, this.steps.length - 1);
    this.t = Math.min(Math.max(this.t, this.first), this.last);
    if (isPair) this.goToStep(this.steps.length - 1);
  }

  /** To a whole step: its last moment, compared with its first. @param {number} step */
  goToStep(step) {
    this.step = this.isPair ? this.steps.length - 1 : Math.min(Math.max(step, 0), this.steps.length - 1);
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

  /** To a moment of this step, compared with the rewrite before, unless the user chose otherwise. @param {number} t */
  goToMoment(t) {
    if (this.isPair) return;
    this.t = Math.min(Math.max(t, this.first), this.last);
    if (!this.chosen) this.compare = THIS_REWRITE;
  }

  /** To the moment and the comparison of another clock, which must have the same steps. @param {Clock} other */
  copyFrom(other) {
    [this.step, this.t, this.compare, this.chosen] = [other.step, other.t, other.compare, other.chosen];
  }

  /** One rewrite forward (1) or back (-1), also into another step; returns whether it moved. @param {number} by */
  move(by) {
    if (this.isPair) return false;
    if (this.t + by >= this.first && this.t + by <= this.last) {
      this.goToMoment(this.t + by);
      return true;
    }
    const step = this.#neighbour(by, (other) => other.rewrites > 0);
    if (step === this.step) return false;
    // The last moment of a step is the first of the next one, so that forward leads to the moment after its first rewrite.
    this.goToRewrite(step, by > 0 ? 1 : this.steps[step].rewrites);
    return true;
  }

  /** One step forward (1) or back (-1); returns whether it moved. @param {number} by */
  moveStep(by) {
    if (this.isPair) return false;
    const step = this.#neighbour(by, (other, index) => this.shows(index));
    if (step === this.step) return false;
    this.goToStep(step);
    return true;
  }

  /** Whether the step is offered. Steps without rewrites may be hidden, except the first and the present one. @param {number} index */
  shows(index) {
    return !this.hideUnchanged || index === 0 || index === this.step || this.steps[index].rewrites > 0;
  }

  /** The step whose rewrite led to a moment. @param {number} t */
  stepOf(t) {
    const index = this.steps.findIndex((step) => t > step.first && t <= step.first + step.rewrites);
    return Math.max(0, index);
  }

  /** @param {string} compare */
  choose(compare) {
    if (this.isPair) return;
    this.compare = compare;
    this.chosen = true;
  }

  /** @param {number} by @param {(step: Step, index: number) => boolean} matches */
  #neighbour(by, matches) {
    for (let step = this.step + by; step >= 0 && step < this.steps.length; step += by) {
      if (matches(this.steps[step], step)) return step;
    }
    return this.step;
  }
}
