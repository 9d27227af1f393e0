// @ts-check
// An index by y: finds the items between two heights without looking at all of them.

const ROW = 400; // px of the scene in one row

export class Rows {
  /** @param {number} height */
  constructor(height) {
    this.rows = Array.from({ length: Math.max(1, Math.ceil(height / ROW) + 1) }, () => /** @type {number[]} */ ([]));
    this.last = /** @type {number[]} */ ([]); // by item: the last query that returned it, since a long item is in many rows
    this.query = 0;
  }

  /** @param {number} index @param {number} top @param {number} bottom */
  add(index, top, bottom) {
    const end = this.#row(bottom);
    for (let row = this.#row(top); row <= end; row++) this.rows[row].push(index);
    this.last[index] = 0;
  }

  /** The items in the rows between two heights, each once. @param {number} top @param {number} bottom */
  between(top, bottom) {
    this.query++;
    const items = /** @type {number[]} */ ([]);
    const end = this.#row(bottom);
    for (let row = this.#row(top); row <= end; row++) {
      for (const index of this.rows[row]) {
        if (this.last[index] === this.query) continue;
        this.last[index] = this.query;
        items.push(index);
      }
    }
    return items;
  }

  /** @param {number} y */
  #row(y) {
    return Math.min(this.rows.length - 1, Math.max(0, Math.floor(y / ROW)));
  }
}
