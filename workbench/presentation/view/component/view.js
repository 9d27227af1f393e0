// @ts-check
// The graph view: its scene, moment, selection and colouring. Its parts paint it and call its methods. Requests to Python,
// or in a report to the file's tables, go through `outside`.

import { findAnchor, putAt } from "./anchor.js";
import { Breadcrumb } from "./breadcrumb.js";
import { bringIntoView } from "./changes.js";
import { Clock } from "./clock.js";
import { Comparison } from "./comparison.js";
import { colouringsOf, fillBy } from "./colouring.js";
import { make } from "./dom.js";
import { Help } from "./help.js";
import { Inspector } from "./inspector.js";
import { ignoreKeys, KEYS, listenToKeys } from "./keys.js";
import { Legend } from "./legend.js";
import { joinLockstep, leadLockstep, leaveLockstep } from "./lockstep.js";
import { Marks, reportAnswers } from "./marks.js";
import { forgetCuts } from "./text_metrics.js";
import { initialize } from "./memory.js";
import { Messages } from "./messages.js";
import { Palette } from "./palette.js";
import { entriesOf } from "./palette_entries.js";
import { Playbar } from "./playbar.js";
import { boxAt } from "./pick.js";
import { listenToPointer } from "./pointer.js";
import { Regions } from "./regions.js";
import { addSkipLink, removeSkipLink } from "./skip.js";
import { EMPTY, unpack, Scene } from "./scene.js";
import { Search } from "./search.js";
import { Stage } from "./stage.js";
import { readTheme } from "./theme.js";
import { Timing } from "./timing.js";
import { showTip } from "./tip.js";
import { SETTLED, SelectionSync, WALKED } from "./selection_sync.js";
import { Toolbar } from "./toolbar.js";
import { Opening } from "./opening.js";
import { within } from "./navigation.js";
import { comparisonOf } from "./one_pane.js";

/** @import { Box, Choices, Memory, Outside, Point, Seen, ViewData } from "./types.js" */

export class View {
  /** @param {HTMLElement} parent @param {Outside} outside @param {Memory} [memory] */
  constructor(parent, outside, memory = null) {
    this.outside = outside;
    this.memory = memory;
    this.data = /** @type {ViewData} */ ({});
    this.scene = new Scene(EMPTY); // before the first one
    this.receivedScene = ""; // id of the last scene received; shownScene: of the one that is shown
    this.shownScene = "";
    this.clock = new Clock();
    this.selectionSync = new SelectionSync(this);
    this.comparison = new Comparison(this.scene, 0, 0);
    this.colouring = "layout";
    this.regions = new Regions();
    this.marks = new Marks(); // hits of the query, and the user's own numbers
    this.onlyHits = false; // boxes without hits are dimmed
    this.panes = 2;
    this.selected = ""; // id of a box, which the scene may not have
    this.selectedBox = -1;
    this.framed = /** @type {number[]} */ ([]);
    this.inFocus = /** @type {Set<number> | null} */ (null);
    this.hops = 0;
    this.wheelZooms = false;
    this.pageKeys = true; // keys act without the focus; WCAG 2.1.4 asks for a way to switch that off
    this.inspectorOpen = true;
    this.seen = /** @type {Seen} */ ({}); // numbers of Python's last requests
    this.isPlaced = false; // the camera has its first position
    this.opening = new Opening(this);
    this.timing = new Timing();
    this.stage = new Stage(this);
    this.search = new Search(this);
    this.toolbar = new Toolbar(this);
    this.breadcrumb = new Breadcrumb(this);
    this.inspector = new Inspector(this);
    this.playbar = new Playbar(this);
    this.legend = new Legend(this);
    this.help = new Help(KEYS, () => this.stage.focus());
    this.palette = new Palette("Passes, changes, goals, nodes, actions, pages", (text) => entriesOf(this, KEYS, text), () => this.stage.focus());
    this.side = make("div", { class: "gw-side" }, this.search.panel, this.inspector.element);
    this.messages = new Messages();
    this.stage.element.append(this.breadcrumb.element, this.messages.element, this.help.element, this.palette.element);
    this.root = make("div", { class: "graph-workbench", role: "region", "aria-label": "Graph, before and after" },
      this.toolbar.element,
      this.playbar.sentence,
      make("div", { class: "gw-middle" }, this.stage.element, this.side),
      this.playbar.element,
      this.legend.element,
      this.messages.live);
    parent.append(this.root);
    this.theme = readTheme(this.root);
    this.fill = fillBy(this.colouring, this.scene, this.theme);
    listenToPointer(this);
    listenToKeys(this);
    addSkipLink(this);
    this.lightOrDark = window.matchMedia("(prefers-color-scheme: dark)");
    this.takeTheme = () => this.readTheme();
    this.lightOrDark.addEventListener("change", this.takeTheme);
    document.fonts?.ready.then(() => {
      forgetCuts();
      this.stage.request();
    });
  }

  get hasScene() {
    return this.scene.id !== "";
  }

  destroy() {
    this.lightOrDark.removeEventListener("change", this.takeTheme);
    this.playbar.pause();
    this.opening.stop();
    this.selectionSync.destroy();
    leaveLockstep(this);
    ignoreKeys(this);
    removeSkipLink(this);
    this.receivedScene = ""; // ignores a scene that is still being unpacked
    this.stage.destroy();
    this.root.remove();
  }

  // ---- data from outside

  /** @param {ViewData} data */
  update(data) {
    this.data = data ?? {};
    if (this.data.height) this.root.style.height = this.data.height;
    if (!this.hasScene && this.data.form) this.root.classList.add(`gw-${this.data.form}`); // before the scene is unpacked
    joinLockstep(this, this.data.lockstep ?? "");
    this.readTheme();
    const { scene, scene_id: id } = this.data;
    if (scene && id && id !== this.receivedScene) this.receive(scene, id);
    else if (this.hasScene && this.shownScene === this.receivedScene) {
      this.root.classList.remove("gw-busy");
      this.follow();
    }
    this.refresh();
  }

  /** @param {string} packed @param {string} id */
  async receive(packed, id) {
    this.receivedScene = id;
    let raw;
    try {
      raw = await unpack(packed);
    } catch {
      if (this.receivedScene === id) this.say("This graph cannot be shown: its data is damaged");
      return;
    }
    if (this.receivedScene !== id) return; // a newer one was received
    const before = this.hasScene ? this.scene.boxes : initialize(this, raw.title);
    this.swap(new Scene({ ...raw, id }), before);
    this.shownScene = id;
    this.follow();
    if (this.opening.done()) bringIntoView(this);
    this.refresh();
    this.timing.sceneArrives();
  }

  /** Replaces the scene; moment, zoom, selection and colouring stay.
   * @param {Scene} scene @param {Box[]} before */
  swap(scene, before) {
    const anchor = findAnchor(this, scene, before);
    const showsWhole = this.stage.camera.fits && !this.opening.anchor; // it goes on to
    const isFirst = !this.hasScene;
    this.scene = scene;
    this.clock.setSteps(scene.steps, Boolean(scene.pair));
    // Without a box in common, it is another model.
    if (!isFirst && !anchor) this.isPlaced = false;
    if (!this.isPlaced) this.clock.goToLastChange();
    this.root.classList.toggle("gw-still", scene.T === 0);
    this.root.classList.toggle("gw-pair", Boolean(scene.pair));
    if (isFirst && (scene.T === 0 || this.data.lockstep)) this.panes = 1;
    this.updateMarks();
    this.selectedBox = scene.byId.get(this.selected) ?? -1;
    this.compare();
    if (isFirst) this.stage.resize(true);
    this.stage.camera.setMinZoom(scene);
    if (anchor && showsWhole) this.fit();
    else if (anchor) putAt(this, anchor);
    this.hover(-1);
    this.root.classList.remove("gw-busy");
    this.stage.request();
  }

  /** Carries out Python's requests, each once. */
  follow() {
    const { at, show } = this.data;
    if (at && at.n !== this.seen.at) {
      this.seen.at = at.n;
      if (at.rewrite === null || at.rewrite === undefined) this.clock.goToStep(at.step);
      else this.clock.goToRewrite(at.step, at.rewrite);
      this.compare();
      if (at.panes) this.setPanes(at.panes);
      if (this.isPlaced) bringIntoView(this);
    }
    this.resized();
    if (show && show.n !== this.seen.show) {
      this.seen.show = show.n;
      if (show.frame) this.stage.keepFrame(show.frame);
      if (this.scene.byId.has(show.id)) this.select(show.id, { centre: !show.frame, report: this.data.inspector?.id !== show.id });
      else if (show.id) this.say(`${show.id} is not in this picture`);
    }
    this.search.receive(this.data.found);
    this.updateMarks();
    reportAnswers(this);
    this.selectionSync.reportAgain();
    this.stage.request();
  }

  /** Gives the camera its first position, as soon as the stage has a size. */
  resized() {
    if (this.isPlaced || !this.hasScene || !this.stage.ready) return;
    this.isPlaced = true;
    if (this.framed.length) this.stage.begin(this.framed[0]);
    else this.fit();
  }

  readTheme() {
    const theme = readTheme(this.root);
    if (!theme.background && this.root.isConnected) requestAnimationFrame(() => this.readTheme());
    if (!theme.background) return; // the style sheet is not loaded yet
    if (JSON.stringify(theme) === JSON.stringify(this.theme) && this.root.dataset.theme) return;
    this.theme = theme;
    this.root.dataset.theme = theme.dark ? "dark" : "light";
    ["removed", "added", "changed"].forEach((name, index) => this.root.style.setProperty(`--gw-${name}`, theme.marks[index + 2]));
    forgetCuts();
    if (this.hasScene) this.fill = fillBy(this.colouring, this.scene, theme);
    this.stage.request();
    this.legend.update();
  }

  // ---- time

  /** Compares the clock's two moments. */
  compare() {
    if (!this.hasScene) return;
    this.comparison = comparisonOf(this);
    const whole = this.clock.compare === "step" && this.clock.t === this.clock.last;
    const rewrite = whole ? undefined : this.scene.rewrites[this.clock.rewrite];
    this.framed = (rewrite?.b ?? []).filter((index) => this.scene.boxes[index]);
    this.focus();
  }

  /** Changes the clock and shows the new moment; returns whether it changed. @param {(clock: Clock) => unknown} change */
  tick(change) {
    if (!this.hasScene) return false;
    this.timing.stepStarts();
    const moved = change(this.clock);
    if (moved === false) {
      this.timing.stepEnds();
      return false;
    }
    this.compare();
    bringIntoView(this);
    this.opening.stepInto();
    this.hover(-1);
    this.stage.request();
    this.refresh();
    this.selectionSync.late(SETTLED); // the inspector and the page follow once the user stays
    leadLockstep(this);
    return true;
  }

  /** @param {string} compare */
  setCompare(compare) {
    this.tick((clock) => clock.choose(compare));
  }

  // ---- selection, focus and camera

  /** @param {string} id */
  select(id, { centre = false, report = true, late = false } = {}) {
    if (!this.hasScene) return;
    const differs = id !== this.selected;
    this.selected = id;
    this.selectedBox = this.scene.byId.get(id) ?? -1;
    this.focus();
    if (this.selectedBox >= 0) {
      const box = this.scene.boxes[this.selectedBox];
      if (centre) this.stage.camera.showReadably(box);
      else if (late && !this.stage.camera.sees(box)) this.stage.camera.show(box);
    }
    this.hover(-1);
    if (report && differs) {
      if (late) this.selectionSync.late(WALKED);
      else this.selectionSync.now();
    }
    this.stage.request();
    this.refresh();
  }

  /** Dims boxes without hits, or boxes more than `hops` edges away from the selected box. */
  focus() {
    const [a, b] = this.clock.moments;
    if (this.onlyHits && this.marks.query) this.inFocus = this.marks.boxesAt(a, b);
    else this.inFocus = this.hops && this.selectedBox >= 0 ? within(this, this.selectedBox, this.hops) : null;
  }

  /** @param {number} hops */
  setHops(hops) {
    this.hops = hops;
    this.focus();
    if (hops && this.selectedBox < 0) {
      this.hops = 0;
      this.say("Select a box first: the focus is on boxes near it");
    }
    this.stage.request();
    this.refresh();
  }

  /** @param {Point} point */
  centreOn({ x, y }) {
    this.stage.camera.centre(x, y);
    this.stage.request();
  }

  fit() {
    if (!this.hasScene) return;
    this.stage.camera.fit(this.scene);
    this.stage.request();
  }

  /** @param {number} factor */
  zoomBy(factor) {
    const { camera } = this.stage;
    camera.zoomAt(camera.width / 2, camera.height / 2, factor);
    const pane = this.stage.pane(this.stage.sides.length - 1);
    if (factor > 1) this.opening.zoomedTo(boxAt(pane, camera.sceneX(camera.width / 2), camera.sceneY(camera.height / 2)));
    this.stage.request();
  }

  /** @param {number} panes */
  setPanes(panes) {
    this.panes = panes;
    this.compare();
    this.stage.resize();
    this.refresh();
  }

  /** @param {string} colouring */
  setColouring(colouring) {
    this.colouring = colouring;
    if (this.hasScene) this.fill = fillBy(colouring, this.scene, this.theme);
    this.stage.request();
    this.refresh();
  }

  toggleInspector() {
    this.set({ inspectorOpen: !this.inspectorOpen });
  }

  /** Takes over choices of the user. @param {Partial<Choices>} choices */
  set(choices) {
    Object.assign(this, choices);
    this.focus();
    this.stage.request();
    this.refresh();
  }

  /** Reads the hits of the query and the user's own numbers; a colouring without them is by layout. */
  updateMarks() {
    if (!this.hasScene) return;
    const { marks, search, scene } = this;
    marks.update(this.data, search.query, scene);
    if (!search.query) this.onlyHits = false;
    if (![...colouringsOf(scene), ...marks.colourings].some(([key]) => key === this.colouring)) this.colouring = "layout";
    this.fill = fillBy(this.colouring, scene, this.theme);
    this.focus();
    this.stage.request();
  }

  /** Takes the place of a view that is no more. @param {NonNullable<Memory>} memory */
  succeed({ seen, fields }) {
    this.seen = seen;
    this.isPlaced = true;
    Object.assign(this, fields);
  }

  /** @param {number} index @param {Point} [at] */
  hover(index, at) {
    showTip(this, index, at);
  }

  // ---- messages

  /** @param {string} text */
  say(text) {
    this.messages.say(text);
  }

  refresh() {
    for (const part of [this.toolbar, this.breadcrumb, this.inspector, this.playbar, this.legend, this.search]) part.update();
    if (!this.hasScene) return;
    this.outside.address(this.scene.pair ? { ...this.selectionSync.addressState, step: "", rewrite: "" } : this.selectionSync.addressState); // a pair has no moments
  }
}
