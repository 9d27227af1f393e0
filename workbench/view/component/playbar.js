// @ts-check
// Playback: steps, rewrites, the slider, and the sentence of what happened.

import { make, makeButton, makeSelect, makeToggle, setOptions, setPressed, setShown, setText } from "./dom.js";
import { printable, thousands } from "./text_metrics.js";

/** @import { Box, Clock, Step, View } from "./types.js" */

const PACE = 500; // ms for each rewrite while playing
const TICK_SIGNS = /** @type {Record<string, string>} */ ({ appears: "+", changes: "~", disappears: "\u2212" });

export class Playbar {
  /** @param {View} view */
  constructor(view) {
    this.view = view;
    this.playing = 0;
    this.textShown = false;
    this.ticksShown = "";
    this.steps = makeSelect("Step (up and down arrow keys)", (step) => view.tick((clock) => clock.goToStep(Number(step))), "gw-steps");
    this.hide = makeToggle("Hide unchanged", "Hide passes without change", () => this.#toggleHiding());
    this.play = makeToggle("Play", "Play (p)", () => this.togglePlaying());
    this.slider = make("input", {
      type: "range",
      class: "gw-slider",
      min: "0",
      step: "1",
      "aria-label": "Rewrite of this step",
      input: () => view.tick((clock) => clock.goToMoment(clock.first + Number(this.slider.value))),
    });
    this.ticks = make("div", { class: "gw-ticks" });
    this.count = make("span", { class: "gw-count" });
    this.text = makeToggle("Text", "The text of this rewrite (t)", () => this.toggleText());
    this.sentence = make("div", { class: "gw-sentence", dir: "auto" });
    this.went = make("pre", { class: "gw-went" });
    this.came = make("pre", { class: "gw-came" });
    this.lines = make("div", { class: "gw-lines", hidden: true }, this.went, this.came);
    this.element = make("div", { class: "gw-playbar", role: "group", "aria-label": "Playback" },
      this.lines,
      make("div", { class: "gw-row" },
        makeButton("\u2191", "Previous step (up arrow)", () => view.tick((clock) => clock.moveStep(-1))),
        makeButton("\u2193", "Next step (down arrow)", () => view.tick((clock) => clock.moveStep(1))),
        this.steps,
        this.hide,
        makeButton("|\u2190", "First moment of the step (Home)", () => view.tick((clock) => clock.goToMoment(clock.first))),
        makeButton("\u2190", "Rewrite back (left arrow)", () => view.tick((clock) => clock.move(-1))),
        this.play,
        makeButton("\u2192", "Rewrite forward (right arrow)", () => view.tick((clock) => clock.move(1))),
        makeButton("\u2192|", "Last moment of the step (End)", () => view.tick((clock) => clock.goToMoment(clock.last))),
        make("div", { class: "gw-track" }, this.ticks, this.slider),
        this.count,
        this.text));
  }

  update() {
    const { view } = this;
    const { clock, scene } = view;
    if (!scene) return;
    setOptions(this.steps, this.#stepOptions(), clock.step);
    setPressed(this.hide, clock.hideUnchanged);
    setShown(this.hide, clock.steps.some((step, index) => index > 0 && step.rewrites === 0));
    setPressed(this.play, this.playing !== 0);
    setText(this.play, this.playing ? "Pause" : "Play");
    this.slider.max = String(clock.current.rewrites);
    this.slider.value = String(clock.t - clock.first);
    this.slider.disabled = clock.current.rewrites === 0;
    const place = `rewrite ${thousands(clock.t - clock.first)} of ${thousands(clock.current.rewrites)}`;
    this.slider.setAttribute("aria-valuetext", place);
    setText(this.count, clock.current.rewrites ? place : "no rewrites");
    this.#updateSentence();
    this.#updateTicks();
    this.#updateLabels();
  }

  #stepOptions() {
    const { clock } = this.view;
    const words = (/** @type {Step} */ step, /** @type {number} */ index) => `step ${index} of ${clock.steps.length - 1}: ${printable(step.title)}`;
    return clock.steps.map((step, index) => /** @type {[number, string]} */ ([index, words(step, index)])).filter(([index]) => clock.shows(index));
  }

  #updateSentence() {
    const { view } = this;
    const { clock, scene } = view;
    const rewrite = view.clock.compare === "rewrite" ? scene.rewrites[clock.rewrite] : undefined;
    const step = clock.current;
    const pieces = rewrite
      ? [make("b", { text: rewrite.s.startsWith(rewrite.c) ? "" : rewrite.c }), printable(rewrite.s)]
      : [make("b", { text: printable(step.title) }), printable(step.facts)];
    if (step.verdict && clock.t === clock.last) pieces.push(make("span", { class: step.ok === false ? "gw-failed" : "gw-verdict", text: printable(step.verdict) }));
    const shown = pieces.filter((piece) => textOf(piece) !== "");
    const words = shown.map(textOf).join(" \u00b7 ");
    if (this.sentence.title !== words) {
      this.sentence.title = words;
      this.sentence.replaceChildren(...shown.flatMap((piece, index) => (index ? [" \u00b7 ", piece] : [piece])));
      setText(view.live, `${this.count.textContent}: ${words}`);
    }
    setPressed(this.text, this.textShown);
    setShown(this.lines, this.textShown);
    if (!this.textShown) return;
    const of = scene.rewrites[clock.rewrite];
    setText(this.went, signed("\u2212", of?.g));
    setText(this.came, signed("+", of?.a));
  }

  /** Where in this step the selected box appears, changes, disappears. */
  #updateTicks() {
    const { view } = this;
    const { clock } = view;
    const key = [view.scene.id, view.selected, clock.step].join("\n");
    if (key === this.ticksShown) return;
    this.ticksShown = key;
    const box = view.scene.boxes[view.selectedBox];
    const within = box ? momentsOf(box, view.scene.T).filter(([t]) => t > clock.first && t <= clock.last) : [];
    const moments = thinned(within, clock.current.rewrites);
    this.ticks.replaceChildren(...moments.map(([t, what]) => {
      const mark = make("button", {
        type: "button",
        tabindex: "-1", // the inspector has the same moments for the keyboard
        class: `gw-tick gw-${what}`,
        text: TICK_SIGNS[what],
        title: `The selected box ${what} in rewrite ${t - clock.first}`,
        click: () => view.tick(() => clock.goToMoment(t)),
      });
      mark.style.left = `${((t - clock.first) / clock.current.rewrites) * 100}%`;
      return mark;
    }));
  }

  /** Which moments the panes show. */
  #updateLabels() {
    const { view } = this;
    const { clock, stage } = view;
    const [a, b] = view.scene.pair ? clock.steps.map((step) => printable(step.title)) : momentWords(clock);
    const words = view.panes === 2 ? [a, b] : [a === b ? a : `${a} and ${b}`, ""];
    stage.labels.forEach((label, place) => {
      setText(label, words[place]);
      setShown(label, words[place]);
      label.style.right = view.panes === 2 && place === 0 ? "50%" : "0";
    });
    stage.canvas.setAttribute("aria-label", `Graph: ${words.filter(Boolean).join("; ")}. Press question mark for the keys.`);
  }

  togglePlaying() {
    if (this.playing) this.pause();
    else this.playing = window.setInterval(() => this.view.tick((clock) => clock.move(1)) || this.pause(), PACE);
    this.update();
  }

  pause() {
    window.clearInterval(this.playing);
    this.playing = 0;
    if (this.view.scene) this.update();
  }

  toggleText() {
    this.textShown = !this.textShown;
    this.update();
  }

  #toggleHiding() {
    this.view.clock.hideUnchanged = !this.view.clock.hideUnchanged;
    this.update();
  }
}

/** @param {string | Node} piece */
function textOf(piece) {
  return typeof piece === "string" ? piece : piece.textContent;
}

/** What the two moments of the comparison are called. @param {Clock} clock */
function momentWords(clock) {
  if (!clock.current.rewrites) return clock.step ? ["before this step", "after this step: the same"] : ["as loaded", "as loaded"];
  const rewrite = clock.t - clock.first;
  if (clock.compare === "rewrite" && rewrite > 0) return [`before rewrite ${rewrite}`, `after rewrite ${rewrite}`];
  if (rewrite === 0) return ["before this step", "before this step"];
  return ["before this step", clock.t === clock.last ? "after this step" : `after rewrite ${rewrite}`];
}

/** @param {string} sign @param {string} text */
function signed(sign, text) {
  return (text || "").split("\n").filter(Boolean).map((line) => `${sign} ${line}`).join("\n") || `${sign} nothing`;
}

/** [moment, what happens to the box], in order. @param {Box} box @param {number} end */
function momentsOf(box, end) {
  const found = new Map();
  const versions = box.kind === "group" ? [] : box.v;
  versions.forEach(([from, to], place) => {
    if (from > 0) found.set(from, versions[place - 1]?.[1] === from ? "changes" : "appears");
    if (to <= end && versions[place + 1]?.[0] !== to) found.set(to, "disappears");
  });
  for (const [from, to] of box.inner ?? []) {
    if (from > 0) found.set(from, "changes");
    if (to <= end) found.set(to, "changes");
  }
  return [...found].sort(([one], [other]) => one - other);
}

/** Without moments too near to another of the same kind to be distinguishable. @param {[number, string][]} moments @param {number} range */
function thinned(moments, range) {
  const last = /** @type {Record<string, number>} */ ({});
  return moments.filter(([t, what]) => {
    if (t - (last[what] ?? -Infinity) < range / 60) return false;
    last[what] = t;
    return true;
  });
}
