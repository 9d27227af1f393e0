// @ts-check
// The view without a server: tables in an HTML file answer what Python answers in the app.

import { unpack, Scene } from "./scene.js";
import { View } from "./view.js";

/** @import { Found, Inspected, Outside, ViewData } from "./types.js" */

/** @typedef {{ scenes: Record<string, ViewData>, inspectors: string, drawings?: string }} Tables */

const MOST_HITS = 2500; // a file with all boxes open has no more nodes
const KEY = /(?:^|\s)(op|scope|name|shape|layout):/; // terms of a query, which only Python reads

export class Offline {
  /** @param {Tables} tables @param {HTMLElement} parent @param {{ height?: string, hash?: boolean }} [options]
   * hash: whether the address says what is shown */
  constructor(tables, parent, { height = "100vh", hash = true } = {}) {
    this.height = height;
    this.hash = hash;
    this.scenes = tables.scenes;
    this.inspectors = /** @type {Record<string, Inspected>} */ ({}); // by node; packed as the scenes are, since it is long
    const here = new URLSearchParams(hash ? window.location.hash.slice(1) : "");
    this.shown = here.get("picture") in this.scenes ? here.get("picture") : "collapsed";
    this.drawings = /** @type {string[]} */ ([]);
    this.begun = { query: here.get("query") ?? "", hits: here.get("hits") ?? "" };
    this.asked = 0; // numbers the requests, as Python does
    this.searched = /** @type {Scene} */ (null); // the scene that has most boxes, once something is searched
    const step = here.get("step");
    const rewrite = here.get("rewrite");
    this.at = /** @type {ViewData["at"]} */ (step === null ? null : { step: Number(step), rewrite: rewrite === null ? null : Number(rewrite), n: 1 });
    this.show = /** @type {ViewData["show"]} */ (here.get("node") ? { id: here.get("node"), n: 1 } : null);
    this.found = /** @type {Found} */ (null);
    this.pinned = /** @type {Inspected | null} */ (null);
    this.selected = here.get("node") ?? "";
    this.view = new View(parent, this.#answers());
    this.view.root.style.padding = "6px";
    this.update();
    if (tables.inspectors) this.#takeTexts(tables);
  }

  /** @param {Tables} tables */
  async #takeTexts({ inspectors, drawings }) {
    [this.inspectors, this.drawings] = await Promise.all([unpack(inspectors), drawings ? unpack(drawings) : []]);
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
      constants: this.shown === "constants",
      flat: this.shown === "flat",
      offers: { constants: "constants" in this.scenes, flat: "flat" in this.scenes },
    });
  }

  /** To a moment, with a box selected, of which the inspector says `text` until another is.
   * @param {ViewData["at"]} at @param {string} node @param {Inspected | null} text */
  goTo(at, node, text) {
    this.pinned = text;
    this.at = { ...at, n: ++this.asked + 1 };
    this.show = node ? { id: node, whole: true, n: ++this.asked + 1 } : null;
    this.selected = node;
    this.update();
  }

  #inspector() {
    if (this.pinned && this.pinned.id === this.selected) return this.pinned;
    const known = this.inspectors[this.selected];
    return known ? { ...known, id: this.selected } : null;
  }

  /** @returns {Outside} */
  #answers() {
    return {
      seen: ({ id }) => {
        if (id !== this.selected) this.pinned = null;
        this.selected = id;
        this.update();
      },
      setOpen: (id) => this.#swap("flat", id),
      find: (query) => this.#find(query),
      reveal: (id) => this.#swap("flat", id),
      stepInto: () => this.#stepInto(),
      constants: (on) => this.#swap(on ? "constants" : "collapsed"),
      flat: (on) => this.#swap(on ? "flat" : "collapsed"),
      begin: () => this.begun,
      address: (state) => this.hash && writeHash({ picture: this.shown === "collapsed" ? "" : this.shown, ...state }),
    };
  }

  /** To another scene, or back from it; `id` is then centred on. @param {string} wanted @param {string} [id] */
  #swap(wanted, id) {
    const to = wanted === "flat" && this.shown === "flat" ? "collapsed" : wanted;
    if (!(to in this.scenes)) {
      this.view.root.classList.remove("gw-busy");
      this.view.say("This file holds only the collapsed picture");
      return;
    }
    this.shown = to;
    if (id && to === "flat") this.show = { id, n: ++this.asked + 1 };
    this.update();
  }

  #stepInto() {
    if (!("flat" in this.scenes)) return;
    this.shown = "flat";
    this.update();
  }

  /** @param {string} query */
  async #find(query) {
    this.searched ??= new Scene(await unpack((this.scenes.flat ?? this.scenes.constants ?? this.scenes.collapsed).scene));
    const wanted = query.toLowerCase().split(/\s+/);
    const key = KEY.exec(query);
    const fault = key ? `a report finds plain words only; open the model in the app to search by ${key[1]}:` : "";
    const hits = /** @type {[string, string][]} */ ([]);
    let total = 0;
    this.searched.boxes.forEach((box, index) => {
      const words = wordsFor(this.searched, index);
      const text = `${box.id} ${words}`.toLowerCase();
      if (fault || !wanted.every((word) => text.includes(word))) return;
      total++;
      if (hits.length < MOST_HITS) hits.push([box.id, words]);
    });
    this.found = { query, hits, total, fault, n: ++this.asked };
    this.update();
  }
}

/** Operator, name and details of a box, with the shapes and layouts on its outgoing edges. @param {Scene} scene @param {number} index */
function wordsFor(scene, index) {
  const box = scene.boxes[index];
  if (box.kind === "group") return `${box.title} ${box.d ?? ""}`;
  const looks = box.v.map((version) => scene.lookOf(version)).filter(Boolean);
  const values = scene.from[index].flatMap((edge) => scene.edges[edge].v.map((version) => scene.words[version[2]] ?? ""));
  return [...new Set([...looks.flatMap((look) => [look.op, look.name, look.d]), ...values])].filter(Boolean).join(" ");
}

/** @param {Record<string, any>} state */
function writeHash(state) {
  if (window.location.protocol === "about:") return; // in the frame of a notebook, which has no address
  const given = Object.entries(state).filter(([, value]) => value !== "");
  const hash = `#${new URLSearchParams(given)}`;
  if (hash !== window.location.hash) window.history.replaceState(null, "", hash);
}
