// @ts-check
// Hits of a query, and numbers for nodes that the user or the page has: Python finds them; this module makes fills, signs and legend entries of them.

import { mixColours } from "./theme.js";

/** @import { Found, OwnColumn, OwnNumbers, Scene, Theme, View, ViewData } from "./types.js" */

export const QUERY = "query"; // the colouring by hits
export const HIT_SIGN = "\u25c6";
const OWN = "own:"; // prefix of the colourings by the user's own numbers
const SHADES = 24; // few, since boxes of one shade are painted together

export class Marks {
  constructor() {
    this.asked = ""; // the query asked last
    this.query = ""; // the query of `hits`
    this.hits = /** @type {Map<number, number[][]>} */ (new Map()); // by box: its [from, to, number of hits]
    this.own = /** @type {OwnNumbers | null} */ (null);
    this.columns = /** @type {{ column: OwnColumn, numbers: Map<number, { share: number, text: string }> }[]} */ ([]);
    this.seen = 0; // number of the last file
  }

  /** Reads the hits and numbers of the shown scene; hits of another query than the last one are ignored.
   * @param {ViewData} data @param {string} asked @param {Scene} scene */
  update(data, asked, scene) {
    const { found } = data;
    this.asked = asked;
    this.query = found?.query === asked && !found.fault ? asked : "";
    this.hits = new Map();
    for (const [box, ...span] of found && this.query ? data.marks ?? marksOf(found, scene) : []) this.hits.set(box, [...(this.hits.get(box) ?? []), span]);
    this.own = data.own ?? null;
    this.columns = (this.own?.columns ?? []).map((column) => ({ column, numbers: new Map(column.boxes.map(([box, share, text]) => [box, { share, text }])) }));
  }

  /** The number of hits in a box at moment t. @param {number} box @param {number} t */
  hitsAt(box, t) {
    let count = 0;
    for (const [from, to, hits] of this.hits.get(box) ?? []) count += t >= from && t < to ? hits : 0;
    return count;
  }

  /** The boxes with hits at either moment. @param {number} a @param {number} b */
  boxesAt(a, b) {
    return new Set([...this.hits.keys()].filter((box) => this.hitsAt(box, a) || this.hitsAt(box, b)));
  }

  /** The colourings by query and by the user's columns, as [key, title]; a query has one before its hits arrive, too. @returns {[string, string][]} */
  get colourings() {
    const own = this.columns.flatMap(({ column }, index) => (column.boxes.length ? [/** @type {[string, string]} */ ([`${OWN}${index}`, titleOf(column)])] : []));
    return this.asked ? [[QUERY, "Query"], ...own] : own;
  }

  /** The colouring by the first of the user's columns with numbers for boxes of this scene, or null. */
  get firstOwn() {
    return this.colourings.find(([key]) => key.startsWith(OWN))?.[0] ?? null;
  }

  /** @param {string} colouring */
  #column(colouring) {
    return colouring.startsWith(OWN) ? this.columns[Number(colouring.slice(OWN.length))] : undefined;
  }

  /** The number of a box with its unit, "" if it has none or the colouring is not by a column. @param {string} colouring @param {number} box */
  numberText(colouring, box) {
    const number = this.#column(colouring)?.numbers.get(box);
    return number?.text ?? "";
  }

  /** Which of these boxes has the largest number; undefined if none has one, or the colouring is not by a column.
   * @param {string} colouring @param {number[]} boxes */
  largest(colouring, boxes) {
    const numbers = this.#column(colouring)?.numbers;
    const known = boxes.filter((box) => numbers?.has(box));
    return known.sort((one, other) => (numbers?.get(other)?.share ?? 0) - (numbers?.get(one)?.share ?? 0)).at(0);
  }

  /** The fill of a box, or undefined if the colouring is by look. @param {string} colouring @param {number} box @param {number} t @param {Theme} theme */
  fillOf(colouring, box, t, theme) {
    if (colouring === QUERY) return this.hitsAt(box, t) ? theme.hit : theme.neutral;
    const own = this.#column(colouring);
    if (!own) return undefined;
    const number = own.numbers.get(box);
    if (number === undefined) return theme.background;
    return mixColours(theme.heat[0], theme.heat[1], Math.round(number.share * SHADES) / SHADES);
  }

  /** What the fills mean, as entries of the legend; undefined if the colouring is by look. @param {string} colouring @param {Theme} theme */
  legendOf(colouring, theme) {
    if (colouring === QUERY) {
      return [{ fill: theme.hit, text: `${HIT_SIGN} found by ${this.asked}` }, { fill: theme.neutral, text: "not found" }];
    }
    const own = this.#column(colouring);
    if (!own) return undefined;
    const { title, low, high, origin, note } = own.column;
    return [
      { scale: theme.heat, low, high, text: `${title}, ${origin}` },
      { fill: theme.background, line: theme.muted, border: "thin", text: "no number" },
      { text: note },
    ];
  }
}

/** Reports what the user asked for: a file of numbers, or ONNX Runtime's providers; colours by it, or says why not. @param {View} view */
export function reportAnswers(view) {
  reportNumbers(view);
  const { placed } = view.data;
  const previous = view.seen.placed;
  view.seen.placed = placed?.n ?? 0;
  if (!placed || previous === undefined || previous === placed.n) return;
  if (placed.fault) view.say(placed.fault);
  else view.setColouring("provider");
}

/** Reports new numbers for nodes, or why a file of them was refused, and colours by their first column. @param {View} view */
function reportNumbers(view) {
  const { own } = view.data;
  const previous = view.seen.own;
  view.seen.own = own?.n ?? 0;
  if (!own || previous === own.n || (previous === undefined && !own.computed)) return;
  const said = own.fault || own.sentence;
  if (said) view.say(said);
  if (!own.fault && view.marks.firstOwn) view.setColouring(view.marks.firstOwn);
}

/** The marks of hits without moments, as a report finds them: they hold at all moments. @param {Found} found @param {Scene} scene */
function marksOf(found, scene) {
  return found.hits.flatMap(([id]) => {
    const index = scene.byId.get(id);
    return index === undefined ? [] : [[index, 0, scene.T + 1, 1]];
  });
}

/** @param {OwnColumn} column */
function titleOf({ title, unit }) {
  return unit ? `${title} (${unit})` : title;
}
