// @ts-check
// The view without a server: tables in the HTML file take the place of Python.

import { PLAYER } from "./keys.js";
import { isFrame, unpack, Scene } from "./scene.js";
import { View } from "./view.js";

/** @import { Found, Inspected, Outside, ViewData } from "./types.js" */

/** @typedef {{ scenes: Record<string, { scene: string, scene_id?: string }>, inspectors: string, drawings?: string }} Tables */

const KEY = /(?:^|\s)(op|scope|module|name|shape|layout):/; // keys of a query, which only the app understands

export class Offline {
  /** @param {Tables} tables @param {HTMLElement} parent @param {{ height?: string, hash?: boolean, player?: boolean }} [options]
   * hash: whether the page's address holds the view's state. player: see `ViewData` */
  constructor(tables, parent, { height = "100vh", hash = true, player = false } = {}) {
    this.height = height;
    this.player = player;
    this.hash = hash;
    this.scenes = tables.scenes;
    this.inspectors = /** @type {Record<string, Inspected>} */ ({}); // by node; empty until it is unpacked
    const here = new URLSearchParams(hash ? window.location.hash.slice(1) : "");
    const picture = here.get("picture") ?? "";
    this.shown = picture in this.scenes ? picture : Object.keys(this.scenes)[0];
    this.drawings = /** @type {string[]} */ ([]);
    this.absent = ""; // why the inspector has no texts
    this.initialQuery = { query: here.get("query") ?? "", hits: here.get("hits") ?? "" };
    this.asked = 0; // numbers the answers, as Python does
    this.searchScene = /** @type {Scene | null} */ (null); // the scene with the most boxes, unpacked for the first search
    const step = here.get("step");
    const rewrite = here.get("rewrite");
    this.at = /** @type {ViewData["at"]} */ (step === null ? null : { step: Number(step), rewrite: rewrite === null ? null : Number(rewrite), n: 1 });
    this.show = /** @type {ViewData["show"]} */ (here.get("node") ? { id: here.get("node"), n: 1 } : null);
    this.found = /** @type {Found | null} */ (null);
    this.selected = here.get("node") ?? "";
    this.view = new View(parent, this.#answers());
    this.view.root.style.padding = "6px";
    this.view.root.classList.toggle(PLAYER, player);
    this.update();
    if (tables.inspectors) this.#unpackTexts(tables);
  }

  /** @param {Tables} tables */
  async #unpackTexts({ inspectors, drawings }) {
    [this.inspectors, this.drawings] = await Promise.all([unpack(inspectors), drawings ? unpack(drawings) : []]);
    if (!Object.keys(this.inspectors).length) this.absent = "A report of a model of this size has no details of its nodes: open the model in the app to see them.";
    this.update();
  }

  update() {
    const scene = this.scenes[this.shown];
    this.view.update({
      ...scene,
      scene_id: scene.scene_id ?? this.shown,
      at: this.at,
      found: this.found,
      show: this.show,
      inspector: this.#inspector(),
      drawings: this.drawings,
      height: this.height,
      player: this.player,
      absent: this.absent,
      constants: this.shown === "constants",
      flat: this.shown === this.#withAll,
      offers: { constants: "constants" in this.scenes, flat: this.#withAll !== "" },
    });
  }

  /** Shows the scene of this name at a moment, with a box selected and boxes framed.
   * @param {string} scene @param {NonNullable<ViewData["at"]>} at @param {string} node @param {string[]} frame */
  goTo(scene, at, node, frame) {
    this.shown = scene;
    this.at = { ...at, n: ++this.asked + 1 };
    this.show = { id: node, frame, n: ++this.asked + 1 };
    this.selected = node;
    this.update();
  }

  #inspector() {
    const known = this.inspectors[this.selected];
    return known ? { ...known, id: this.selected } : null;
  }

  /** @returns {Outside} */
  #answers() {
    return {
      seen: ({ id }) => {
        this.selected = id;
        this.update();
      },
      setOpen: (_, open) => this.#setOpen(open),
      find: (query) => this.#find(query),
      reveal: (id) => this.#reveal(id),
      stepInto: () => this.#swap("open"),
      constants: (on) => this.#swap(on ? "constants" : "collapsed"),
      flat: (on) => this.#swap(on ? this.#withAll : "collapsed"),
      initialQuery: () => this.initialQuery,
      address: (state) => this.hash && writeHash({ picture: this.shown === "collapsed" ? "" : this.shown, ...state }),
    };
  }

  /** The scene for "Open all": without groups, or else with all groups open; "" without either. */
  get #withAll() {
    return ["flat", "open"].find((name) => name in this.scenes) ?? "";
  }

  /** @param {string} name */
  #swap(name) {
    this.shown = name;
    this.update();
  }

  /** Opens or closes groups: a report does so with all at once. @param {boolean} open */
  #setOpen(open) {
    if ((open && "open" in this.scenes) || this.shown === "open") {
      this.#swap(open ? "open" : "collapsed");
      return;
    }
    this.view.opening.done();
    this.update(); // the view waits no more
    if (!open) this.view.say("A report cannot close this group: zoom out to see it as one box");
  }

  /** Shows a node that is in a closed group. @param {string} id */
  #reveal(id) {
    this.show = { id, n: ++this.asked + 1 };
    this.#swap("open" in this.scenes ? "open" : "collapsed");
  }

  /** @param {string} query */
  async #find(query) {
    const scene = (this.searchScene ??= new Scene(await unpack((this.scenes[this.#withAll] ?? this.scenes.collapsed).scene)));
    const terms = query.toLowerCase().split(/\s+/);
    const key = KEY.exec(query);
    const fault = key ? `a report finds plain words only; open the model in the app to search by ${key[1]}:` : "";
    const hits = /** @type {[string, string][]} */ ([]);
    scene.boxes.forEach((box, index) => {
      if (isFrame(box)) return;
      const label = searchText(scene, index);
      const text = `${box.id} ${label}`.toLowerCase();
      if (fault || !terms.every((term) => text.includes(term))) return;
      hits.push([box.id, label]);
    });
    this.found = { query, hits, total: hits.length, fault, n: ++this.asked };
    this.update();
  }
}

/** The text of a box that a search looks at: operator, name and details, and the labels of its outgoing edges. @param {Scene} scene @param {number} index */
function searchText(scene, index) {
  const box = scene.boxes[index];
  if (box.kind === "group") return box.title ?? "";
  const looks = box.v.flatMap((version) => scene.lookOf(version) ?? []);
  const values = scene.from[index].flatMap((edge) => scene.edges[edge].v.map((version) => scene.words[version[2]] ?? ""));
  return [...new Set([...looks.flatMap((look) => [look.op, look.name, look.d]), ...values])].filter(Boolean).join(" ");
}

/** @param {Record<string, any>} state */
function writeHash(state) {
  if (window.location.protocol === "about:") return; // an inline frame of a notebook has no address
  const entries = Object.entries(state).filter(([, value]) => value !== "");
  const hash = `#${new URLSearchParams(entries)}`;
  if (hash !== window.location.hash) window.history.replaceState(null, "", hash);
}
