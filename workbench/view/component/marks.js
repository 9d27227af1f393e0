// @ts-check
// What a query and the user's own numbers say of the boxes. Python finds it; here it becomes fills, signs and words.

import { colouringsOf, fillBy } from "./colouring.js";
import { mixColours } from "./theme.js";

/** @import { Found, OwnColumn, OwnNumbers, Scene, Theme, View, ViewData } from "./types.js" */

export const QUERY = "query"; // the colouring by hits
export const HIT_SIGN = "\u25c6";
const OWN = "own:"; // prefix of the colourings by the user's own numbers
const SHADES = 24; // few, so that boxes of one shade are painted together

export class Marks {
  constructor() {
    this.asked = ""; // the query asked last
    this.query = ""; // whose hits these are
    this.hits = /** @type {Map<number, number[][]>} */ (new Map()); // box: [from, to, number of hits], ...
    this.own = /** @type {OwnNumbers} */ (null);
    this.columns = /** @type {{ column: OwnColumn, numbers: Map<number, number> }[]} */ ([]);
    this.seen = 0; // number of the file taken last
  }

  /** What has arrived with the scene that is shown; hits of another query than the one asked last do not count.
   * @param {ViewData} data @param {string} asked @param {Scene} scene */
  take(data, asked, scene) {
    const { found } = data;
    this.asked = asked;
    this.query = found?.query === asked && !found.fault ? asked : "";
    this.hits = new Map();
    for (const [box, ...span] of this.query ? data.marks ?? marksOf(found, scene) : []) this.hits.set(box, [...(this.hits.get(box) ?? []), span]);
    this.own = data.own ?? null;
    this.columns = (this.own?.columns ?? []).map((column) => ({ column, numbers: new Map(column.boxes) }));
  }

  /** How many hits a box has at moment t. @param {number} box @param {number} t */
  hitsAt(box, t) {
    let count = 0;
    for (const [from, to, hits] of this.hits.get(box) ?? []) count += t >= from && t < to ? hits : 0;
    return count;
  }

  /** The boxes with hits at either moment. @param {number} a @param {number} b */
  boxesAt(a, b) {
    return new Set([...this.hits.keys()].filter((box) => this.hitsAt(box, a) || this.hitsAt(box, b)));
  }

  /** The colourings that these marks allow, as [key, words]; one by a query waits for its hits. @returns {[string, string][]} */
  get colourings() {
    const own = this.columns.flatMap(({ column }, place) => (column.boxes.length ? [/** @type {[string, string]} */ ([`${OWN}${place}`, titleOf(column)])] : []));
    return this.asked ? [[QUERY, "Query"], ...own] : own;
  }

  /** The colouring by the first of the user's columns that has numbers here, or null. */
  get firstOwn() {
    return this.colourings.find(([key]) => key.startsWith(OWN))?.[0] ?? null;
  }

  /** @param {string} colouring */
  #column(colouring) {
    return colouring.startsWith(OWN) ? this.columns[Number(colouring.slice(OWN.length))] : undefined;
  }

  /** The number of a box with its unit, "" without one or where another colouring is shown. @param {string} colouring @param {number} box */
  wordsOf(colouring, box) {
    const own = this.#column(colouring);
    const number = own?.numbers.get(box);
    return number === undefined ? "" : numberWords(number, own.column.unit);
  }

  /** The fill of a box, or undefined where the colouring is by its look. @param {string} colouring @param {number} box @param {number} t @param {Theme} theme */
  fillOf(colouring, box, t, theme) {
    if (colouring === QUERY) return this.hitsAt(box, t) ? theme.hit : theme.neutral;
    const own = this.#column(colouring);
    if (!own) return undefined;
    const number = own.numbers.get(box);
    if (number === undefined) return theme.background;
    const { low, high } = own.column;
    const share = high > low ? (number - low) / (high - low) : 1;
    return mixColours(theme.heat[0], theme.heat[1], Math.round(share * SHADES) / SHADES);
  }

  /** What the fills mean, as entries of the legend; undefined where the colouring is by look. @param {string} colouring @param {Theme} theme */
  legendOf(colouring, theme) {
    if (colouring === QUERY) {
      return [{ fill: theme.hit, words: `${HIT_SIGN} found by ${this.asked}` }, { fill: theme.neutral, words: "not found" }];
    }
    const own = this.#column(colouring);
    if (!own) return undefined;
    const { title, unit, low, high } = own.column;
    return [
      { scale: theme.heat, low: numberWords(low, unit), high: numberWords(high, unit), words: `${title}, from ${this.own.file}` },
      { fill: theme.background, line: theme.muted, border: "thin", words: "no number" },
      { words: this.own.sentence },
    ];
  }
}

/** Takes in the hits and numbers of the present data; without hits nothing is coloured by them or dimmed for them.
 * @param {View} view */
export function takeMarks(view) {
  const { marks, scene, search } = view;
  if (!scene) return;
  marks.take(view.data, search.asked, scene);
  if (!search.asked) view.onlyHits = false;
  if (![...colouringsOf(scene), ...marks.colourings].some(([key]) => key === view.colouring)) view.colouring = "layout";
  view.fill = fillBy(view.colouring, scene, view.theme);
  view.focus();
  view.stage.request();
}

/** A file of the user's own numbers that has just arrived, or why it was refused. @param {View} view */
export function takeNumbers(view) {
  const { own } = view.data;
  const known = view.seen.own;
  view.seen.own = own?.n ?? 0;
  if (known === undefined || known === view.seen.own) return;
  view.say(own.fault || own.sentence);
  if (!own.fault && view.marks.firstOwn) view.setColouring(view.marks.firstOwn);
}

/** Hits without moments, as a report finds them: they hold at all times. @param {Found} found @param {Scene} scene */
function marksOf(found, scene) {
  return found.hits.filter(([id]) => scene.byId.has(id)).map(([id]) => [scene.byId.get(id), 0, scene.T + 1, 1]);
}

/** @param {OwnColumn} column */
function titleOf({ title, unit }) {
  return unit ? `${title} (${unit})` : title;
}

/** @param {number} number @param {string} unit */
function numberWords(number, unit) {
  return `${number.toLocaleString("en-US", { maximumSignificantDigits: 6 })} ${unit}`.trim();
}
