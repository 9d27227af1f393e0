// @ts-check
// Playback: steps, rewrites, the slider, and the sentence of the present rewrite or step.

import { make, makeButton, makeSelect, makeToggle, setOptions, setPressed, setShown, setText } from "./dom.js";
import { duration, printable, thousands } from "./text_metrics.js";

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
    this.play = makeToggle("Play", "Play (P)", () => this.togglePlaying());
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
    this.text = makeToggle("As text", "The text of this rewrite (t)", () => this.toggleText());
    this.sentence = make("div", { class: "gw-sentence", dir: "auto" });
    this.removedText = make("pre", { class: "gw-went" });
    this.insertedText = make("pre", { class: "gw-came" });
    this.lines = make("div", { class: "gw-lines", hidden: true }, this.removedText, this.insertedText);
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
    const { clock } = view;
    if (!view.hasScene) return;
    setOptions(this.steps, this.#stepOptions(), clock.step);
    setPressed(this.hide, clock.hideUnchanged);
    setShown(this.hide, clock.steps.some((step, index) => index > 0 && step.rewrites === 0));
    setPressed(this.play, this.playing !== 0);
    setText(this.play, this.playing ? "Pause" : "Play");
    this.slider.max = String(clock.current.rewrites);
    this.slider.value = String(clock.t - clock.first);
    this.slider.disabled = clock.current.rewrites === 0;
    const position = `rewrite ${thousands(clock.t - clock.first)} of ${thousands(clock.current.rewrites)}`;
    this.slider.setAttribute("aria-valuetext", position);
    setText(this.count, clock.current.rewrites ? position : "no rewrites");
    this.#updateSentence();
    this.#updateTicks();
    this.#updateLabels();
  }

  #stepOptions() {
    const { clock } = this.view;
    const text = (/** @type {Step} */ step, /** @type {number} */ index) => `step ${index} of ${clock.steps.length - 1}: ${printable(step.title)}`;
    return clock.steps.map((step, index) => /** @type {[number, string]} */ ([index, text(step, index)])).filter(([index]) => clock.shows(index));
  }

  #updateSentence() {
    const { view } = this;
    const { clock, scene } = view;
    const rewrite = view.clock.compare === "rewrite" ? scene.rewrites[clock.rewrite] : undefined;
    const step = clock.current;
    const pieces = rewrite
      ? [make("b", { text: rewrite.s.startsWith(rewrite.c) ? "" : rewrite.c }), printable(rewrite.s)]
      : [make("b", { text: printable(step.title) }), view.data.player ? counted(step.rewrites) : "", printable(step.facts)];
    setShown(this.sentence, clock.step > 0 || !view.data.player); // a lesson has nothing to say of the graph as loaded
    if (step.verdict && clock.t === clock.last) pieces.push(make("span", { class: step.ok === false ? "gw-failed" : "gw-verdict", text: printable(step.verdict) }));
    const shown = pieces.filter((piece) => textOf(piece) !== "");
    const text = shown.map(textOf).join(" \u00b7 ");
    if (this.sentence.title !== text) {
      this.sentence.title = text;
      this.sentence.replaceChildren(...shown.flatMap((piece, index) => (index ? [" \u00b7 ", piece] : [piece])));
      view.messages.tell(`${this.count.textContent}: ${text}`);
    }
    setPressed(this.text, this.textShown);
    setShown(this.lines, this.textShown);
    if (!this.textShown) return;
    const present = scene.rewrites[clock.rewrite];
    setText(this.removedText, signed("\u2212", present?.g ?? ""));
    setText(this.insertedText, signed("+", present?.a ?? ""));
  }

  /** Marks on the slider: the moments of this step at which the selected box appears, changes or disappears. */
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

  /** Labels of the panes: the moments that they show. */
  #updateLabels() {
    const { view } = this;
    const { clock, stage } = view;
    const [a, b] = view.scene.pair ? clock.steps.map((step) => printable(step.title)) : momentNames(clock);
    const texts = view.panes === 2 ? [withTotal(view, a, 0), withTotal(view, b, 1)] : [a === b ? a : `${a} and ${b}`, ""];
    stage.labels.forEach((label, index) => {
      setText(label, texts[index]);
      setShown(label, texts[index]);
    });
    stage.canvas.setAttribute("aria-label", `Graph: ${texts.filter(Boolean).join("; ")}. Press question mark for the keys.`);
  }

  togglePlaying() {
    if (this.playing) this.pause();
    else this.playing = window.setInterval(() => this.view.tick((clock) => clock.move(1)) || this.pause(), PACE);
    this.update();
  }

  pause() {
    window.clearInterval(this.playing);
    this.playing = 0;
    if (this.view.hasScene) this.update();
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

/** @param {number} rewrites */
function counted(rewrites) {
  return `${thousands(rewrites)} rewrite${rewrites === 1 ? "" : "s"}`;
}

/** The names of the comparison's two moments. @param {Clock} clock */
function momentNames(clock) {
  if (!clock.current.rewrites && clock.step) return ["before this step", "after this step: the same"];
  if (!clock.current.rewrites) return Array(2).fill(clock.steps.length > 1 ? "as loaded" : printable(clock.current.title));
  const rewrite = clock.t - clock.first;
  if (clock.compare === "rewrite" && rewrite > 0) return [`before rewrite ${rewrite}`, `after rewrite ${rewrite}`];
  if (rewrite === 0) return ["before this step", "before this step"];
  return ["before this step", clock.t === clock.last ? "after this step" : `after rewrite ${rewrite}`];
}

/** @param {string} sign @param {string} text */
function signed(sign, text) {
  return (text || "").split("\n").filter(Boolean).map((line) => `${sign} ${line}`).join("\n") || `${sign} nothing`;
}

/** The [moment, kind of change] pairs of a box, in order. @param {Box} box @param {number} end */
function momentsOf(box, end) {
  const moments = new Map();
  const versions = box.kind === "group" ? [] : box.v;
  versions.forEach(([from, to], index) => {
    if (from > 0) moments.set(from, versions[index - 1]?.[1] === from ? "changes" : "appears");
    if (to <= end && versions[index + 1]?.[0] !== to) moments.set(to, "disappears");
  });
  for (const [from, to] of box.inner ?? []) {
    if (from > 0) moments.set(from, "changes");
    if (to <= end) moments.set(to, "changes");
  }
  return [...moments].sort(([one], [other]) => one - other);
}

/** The moments without those that are too close to an earlier one of the same kind to be distinguished. @param {[number, string][]} moments @param {number} range */
function thinned(moments, range) {
  const last = /** @type {Record<string, number>} */ ({});
  return moments.filter(([t, what]) => {
    if (t - (last[what] ?? -Infinity) < range / 60) return false;
    last[what] = t;
    return true;
  });
}

/** The label of a pane; if its graph was measured and latency is the colour, with the sum of its nodes' times.
 * @param {View} view @param {string} label @param {0 | 1} pane */
function withTotal({ scene, colouring, clock }, label, pane) {
  const isMeasured = colouring === "us" && clock.moments[pane] === [0, scene.T][pane];
  const total = isMeasured ? scene.measured?.totals[pane] : null;
  return total == null ? label : `${label}: ${duration(total)} in all nodes, one by one in ${scene.measured?.backend || "one backend"}`;
}
