// @ts-check
// The graph view: what is shown, selected and compared. Its parts draw it and call its methods; whatever needs Python
// (or, in a report, the tables of the file) goes through `outside`.

import { findAnchor } from "./anchor.js";
import { Breadcrumb } from "./breadcrumb.js";
import { Clock } from "./clock.js";
import { fillBy } from "./colouring.js";
import { Comparison } from "./comparison.js";
import { make, setText } from "./dom.js";
import { Help } from "./help.js";
import { Inspector } from "./inspector.js";
import { ignoreKeys, KEYS, listenToKeys } from "./keys.js";
import { Legend } from "./legend.js";
import { joinLockstep, leadLockstep, leaveLockstep } from "./lockstep.js";
import { Marks, takeMarks, takeNumbers } from "./marks.js";
import { forgetCuts } from "./text_metrics.js";
import { beginAsLeft } from "./memory.js";
import { Playbar } from "./playbar.js";
import { listenToPointer } from "./pointer.js";
import { addSkipLink, removeSkipLink } from "./skip.js";
import { unpack, Scene } from "./scene.js";
import { Search } from "./search.js";
import { Stage } from "./stage.js";
import { readTheme } from "./theme.js";
import { showTip } from "./tip.js";
import { SETTLED, SelectionSync, WALKED } from "./selection_sync.js";
import { Toolbar } from "./toolbar.js";
import { stepInto } from "./opening.js";
import { within } from "./navigation.js";

/** @import { Box, Anchor, Memory, Outside, Point, ViewData } from "./types.js" */

const SAID_FOR = 4000; // ms that a message stays
const LONGEST_MESSAGE = 160;

export class View {
  /** @param {HTMLElement} parent @param {Outside} outside @param {Memory} [memory] */
  constructor(parent, outside, memory = null) {
    this.outside = outside;
    this.memory = memory;
    this.data = /** @type {ViewData} */ ({});
    this.scene = /** @type {Scene} */ (null); // until the first one has come
    this.wantedScene = null; // ids of the scene that came last, and of the one that is shown
    this.shownScene = null;
    this.clock = new Clock();
    this.lockstep = ""; // name shared by the views that step together
    this.told = new SelectionSync(this);
    this.comparison = /** @type {Comparison} */ (null);
    this.colouring = "layout";
    this.marks = new Marks(); // what the query and the user's own numbers say
    this.onlyHits = false; // what the query does not find is dimmed
    this.panes = 2;
    this.selected = ""; // id; it may be of a box that this scene does not show
    this.selectedBox = -1;
    this.framed = /** @type {number[]} */ ([]);
    this.near = /** @type {Set<number>} */ (null);
    this.hops = 0;
    this.wheelZooms = false;
    this.inspectorOpen = true;
    this.seen = { at: undefined, show: undefined, own: undefined }; // what Python asked for last
    this.begun = false; // the camera has its first place
    this.changePlace = -1;
    this.anchor = /** @type {Anchor} */ (null); // what must not move when the next scene comes
    this.steppingInto = 0; // the timer, and whether a closed group is being opened for a rewrite
    this.steppedInto = false;
    this.stepStarted = 0;
    this.lastStepMs = 0;
    this.build(parent);
  }

  /** @param {HTMLElement} parent */
  build(parent) {
    this.stage = new Stage(this);
    this.search = new Search(this);
    this.toolbar = new Toolbar(this);
    this.breadcrumb = new Breadcrumb(this);
    this.inspector = new Inspector(this);
    this.playbar = new Playbar(this);
    this.legend = new Legend(this);
    this.help = new Help(KEYS, () => this.stage.focus());
    this.side = make("div", { class: "gw-side" }, this.search.panel, this.inspector.element);
    this.message = make("div", { class: "gw-message", hidden: true });
    this.live = make("div", { class: "gw-hidden", "aria-live": "polite", role: "status" });
    this.stage.element.append(this.message, this.help.element);
    this.root = make("div", { class: "graph-workbench", role: "region", "aria-label": "Graph, before and after" },
      this.toolbar.element,
      make("div", { class: "gw-where" }, this.breadcrumb.element, this.toolbar.second),
      this.playbar.sentence,
      make("div", { class: "gw-middle" }, this.stage.element, this.side),
      this.playbar.element,
      this.legend.element,
      this.live);
    parent.append(this.root);
    this.theme = readTheme(this.root);
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

  destroy() {
    this.lightOrDark.removeEventListener("change", this.takeTheme);
    this.playbar.pause();
    clearTimeout(this.steppingInto);
    this.told.stop();
    leaveLockstep(this);
    ignoreKeys(this);
    removeSkipLink(this);
    this.wantedScene = null; // what is still on its way is not taken in
    this.stage.destroy();
    this.root.remove();
  }

  // ---- from outside

  /** @param {ViewData} data */
  update(data) {
    this.data = data ?? {};
    if (this.data.height) this.root.style.height = this.data.height;
    joinLockstep(this, this.data.lockstep ?? "");
    this.readTheme();
    const { scene, scene_id: id } = this.data;
    if (scene && id !== this.wantedScene) this.receive(scene, id);
    else if (this.scene && this.shownScene === this.wantedScene) {
      this.root.classList.remove("gw-busy");
      this.follow();
    }
    this.refresh();
  }

  /** @param {string} packed @param {string} id */
  async receive(packed, id) {
    this.wantedScene = id;
    let raw;
    try {
      raw = await unpack(packed);
    } catch {
      if (this.wantedScene === id) this.say("This graph cannot be shown: its data is damaged");
      return;
    }
    if (this.wantedScene !== id) return; // another one was asked for meanwhile
    const before = this.scene ? this.scene.boxes : beginAsLeft(this, raw.title);
    this.swap(new Scene({ ...raw, id }), before);
    this.shownScene = id;
    this.follow();
    if (this.steppedInto) this.bringIntoView();
    this.steppedInto = false;
    this.refresh();
    this.arrived = true;
  }

  /** Another scene takes the place of the present one; time, zoom, selection and colouring stay.
   * @param {Scene} scene @param {Box[]} before */
  swap(scene, before) {
    const anchor = findAnchor(this, scene, before);
    const isFirst = this.scene === null;
    this.scene = scene;
    this.clock.take(scene.steps);
    // Nothing of the old scene is in the new one: another model, seen from its beginning.
    if (!isFirst && !anchor) this.begun = false;
    if (!this.begun) this.clock.goToLastChange();
    this.root.classList.toggle("gw-still", scene.T === 0);
    this.root.classList.toggle("gw-pair", Boolean(scene.pair));
    if (isFirst && (scene.T === 0 || this.lockstep)) this.panes = 1;
    takeMarks(this);
    this.selectedBox = scene.byId.get(this.selected) ?? -1;
    this.compare();
    if (isFirst) this.stage.resize(true);
    this.stage.camera.allow(scene);
    if (anchor) {
      const { camera } = this.stage;
      const box = scene.boxes[scene.byId.get(anchor.id)];
      camera.x = box.left - anchor.x / camera.zoom;
      camera.y = box.top - anchor.y / camera.zoom;
    }
    this.anchor = null;
    this.hover(-1);
    this.root.classList.remove("gw-busy");
    this.stage.request();
  }

  /** Does what Python asks for, once. */
  follow() {
    const { at, show } = this.data;
    if (at && at.n !== this.seen.at) {
      this.seen.at = at.n;
      if (at.rewrite === null || at.rewrite === undefined) this.clock.goToStep(at.step);
      else this.clock.goToRewrite(at.step, at.rewrite);
      this.compare();
      if (at.panes) this.setPanes(at.panes);
      if (this.begun) this.bringIntoView();
    }
    this.resized();
    if (show && show.n !== this.seen.show) {
      this.seen.show = show.n;
      if (this.scene.byId.has(show.id)) {
        this.select(show.id, { centre: !show.whole, report: this.data.inspector?.id !== show.id });
        if (show.whole) this.stage.keepWhole(this.selectedBox);
      } else this.say(`${show.id} is not in this picture`);
    }
    this.search.heed(this.data.found);
    takeMarks(this);
    takeNumbers(this);
    this.told.heed();
    this.stage.request();
  }

  /** The stage has a size: the camera takes its first place, when it has none. */
  resized() {
    if (this.begun || !this.scene || !this.stage.ready) return;
    this.begun = true;
    const first = this.framed.length ? this.framed[0] : this.comparison.changed()[0];
    this.stage.begin(first ?? -1);
  }

  readTheme() {
    const theme = readTheme(this.root);
    if (!theme.background && this.root.isConnected) requestAnimationFrame(() => this.readTheme());
    if (!theme.background) return; // the style sheet is on its way
    if (JSON.stringify(theme) === JSON.stringify(this.theme) && this.root.dataset.theme) return;
    this.theme = theme;
    this.root.dataset.theme = theme.dark ? "dark" : "light";
    ["removed", "added", "changed"].forEach((name, index) => this.root.style.setProperty(`--gw-${name}`, theme.marks[index + 2]));
    forgetCuts();
    if (this.scene) this.fill = fillBy(this.colouring, this.scene, theme);
    this.stage.request();
    this.legend.update();
  }

  // ---- time

  /** Compares the clock's two moments anew. */
  compare() {
    if (!this.scene) return;
    const [a, b] = this.clock.moments;
    if (this.comparison?.a !== a || this.comparison?.b !== b || this.comparison.boxes !== this.scene.boxes) {
      this.comparison = new Comparison(this.scene, a, b);
      this.changePlace = -1;
    }
    const whole = this.clock.compare === "step" && this.clock.t === this.clock.last;
    const rewrite = whole ? undefined : this.scene.rewrites[this.clock.rewrite];
    this.framed = (rewrite?.b ?? []).filter((index) => this.scene.boxes[index]);
    this.focus();
  }

  /** Changes the time by that function of the clock, and shows it. @param {(clock: Clock) => unknown} change */
  tick(change) {
    if (!this.scene) return false;
    this.stepStarted = performance.now();
    const moved = change(this.clock);
    if (moved === false) {
      this.stepStarted = 0;
      return false;
    }
    this.compare();
    this.bringIntoView();
    stepInto(this);
    this.hover(-1);
    this.stage.request();
    this.refresh();
    this.told.late(SETTLED); // once this moment is stayed at, the inspector and the page follow
    leadLockstep(this);
    return true;
  }

  /** What this moment is about comes in sight: all of it where it fits into a pane, else a part. */
  bringIntoView() {
    const about = this.framed.length ? this.framed : this.comparison.changed();
    this.stage.camera.showAll(about.map((index) => this.scene.boxes[index]));
  }

  /** @param {string} compare */
  setCompare(compare) {
    this.tick((clock) => clock.choose(compare));
  }

  // ---- what is looked at

  /** @param {string} id */
  select(id, { centre = false, report = true, late = false } = {}) {
    if (!this.scene) return;
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
      if (late) this.told.late(WALKED);
      else this.told.now();
    }
    this.stage.request();
    this.refresh();
  }

  /** Dims what the query does not find, or what is further than so many hops from the selected box. */
  focus() {
    const [a, b] = this.clock.moments;
    if (this.onlyHits && this.marks.query) this.near = this.marks.boxesAt(a, b);
    else this.near = this.hops && this.selectedBox >= 0 ? within(this, this.selectedBox, this.hops) : null;
  }

  /** @param {number} hops */
  setHops(hops) {
    this.hops = hops;
    this.focus();
    if (hops && this.selectedBox < 0) {
      this.hops = 0;
      this.say("Select a box: the focus lies on what is near it");
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
    if (!this.scene) return;
    this.stage.camera.fit(this.scene);
    this.stage.request();
  }

  /** @param {number} factor */
  zoomBy(factor) {
    const { camera } = this.stage;
    camera.zoomAt(camera.width / 2, camera.height / 2, factor);
    this.stage.request();
  }

  /** @param {number} panes */
  setPanes(panes) {
    this.panes = panes;
    this.stage.resize();
    this.refresh();
  }

  /** @param {string} colouring */
  setColouring(colouring) {
    this.colouring = colouring;
    if (this.scene) this.fill = fillBy(colouring, this.scene, this.theme);
    this.stage.request();
    this.refresh();
  }

  toggleInspector() {
    this.inspectorOpen = !this.inspectorOpen;
    this.refresh();
  }

  /** @param {number} index @param {Point} [at] */
  hover(index, at) {
    showTip(this, index, at);
  }

  // ---- what is said

  /** @param {string} words */
  say(words) {
    this.message.textContent = words.slice(0, LONGEST_MESSAGE);
    this.message.hidden = !words;
    setText(this.live, words);
    clearTimeout(this.saying);
    this.saying = setTimeout(() => (this.message.hidden = true), SAID_FOR);
  }

  refresh() {
    for (const part of [this.toolbar, this.breadcrumb, this.inspector, this.playbar, this.legend, this.search]) part.update();
    if (!this.scene) return;
    this.outside.address(this.told.place);
  }

  /** After each picture. */
  drawn() {
    if (!this.painted) {
      this.painted = true;
      performance.mark("graph-workbench:first-picture");
    }
    if (this.arrived) performance.mark("graph-workbench:scene");
    this.arrived = false;
    if (!this.stepStarted) return;
    this.lastStepMs = performance.now() - this.stepStarted;
    this.stepStarted = 0;
    performance.mark("graph-workbench:step");
  }
}
