// @ts-check
// A sequence of pictures as an animated GIF (CompuServe, GIF89a; compression by LZW with codes of growing length).

const COLOURS = 256;
const BITS = 8; // of a place in the palette
const LONGEST_CODE = 12;

export class Gif {
  /** @param {number} width @param {number} height in px, of each picture */
  constructor(width, height) {
    this.size = [width, height];
    this.bytes = /** @type {number[]} */ ([]);
    this.parts = /** @type {Uint8Array[]} */ ([]);
    this.#text("GIF89a");
    this.#words(width, height);
    this.bytes.push(0x70, 0, 0, 0x21, 0xff, 11); // no colours for all; the extension that makes it play again
    this.#text("NETSCAPE2.0");
    this.bytes.push(3, 1, 0, 0, 0);
  }

  /** @param {Uint8ClampedArray} pixels red, green, blue, opacity of each @param {number} ms that it is shown */
  add(pixels, ms) {
    const { palette, places } = reduced(pixels);
    this.bytes.push(0x21, 0xf9, 4, 4);
    this.#words(Math.round(ms / 10));
    this.bytes.push(0, 0, 0x2c);
    this.#words(0, 0, ...this.size);
    this.bytes.push(0x80 | (BITS - 1));
    for (let at = 0; at < COLOURS; at++) {
      const colour = palette[at] ?? 0;
      this.bytes.push(colour >> 16, (colour >> 8) & 255, colour & 255);
    }
    this.bytes.push(BITS);
    this.#flush();
    this.parts.push(inBlocks(compressed(places)));
  }

  /** @returns {Blob} */
  file() {
    this.bytes.push(0x3b);
    this.#flush();
    return new Blob(/** @type {BlobPart[]} */ (this.parts), { type: "image/gif" });
  }

  #flush() {
    this.parts.push(new Uint8Array(this.bytes));
    this.bytes = [];
  }

  /** @param {string} text */
  #text(text) {
    this.bytes.push(...[...text].map((letter) => letter.charCodeAt(0)));
  }

  /** @param {...number} numbers of 16 bits */
  #words(...numbers) {
    for (const number of numbers) this.bytes.push(number & 255, number >> 8);
  }
}

/** The most frequent colours, and for each pixel the place of the nearest. Colours differ by their five high bits.
 * @param {Uint8ClampedArray} pixels */
export function reduced(pixels) {
  const counts = new Map();
  const keys = new Uint16Array(pixels.length / 4);
  const seen = new Map(); // the first full colour of each key
  for (let at = 0, pixel = 0; at < pixels.length; at += 4, pixel++) {
    const key = ((pixels[at] >> 3) << 10) | ((pixels[at + 1] >> 3) << 5) | (pixels[at + 2] >> 3);
    keys[pixel] = key;
    counts.set(key, (counts.get(key) ?? 0) + 1);
    if (!seen.has(key)) seen.set(key, (pixels[at] << 16) | (pixels[at + 1] << 8) | pixels[at + 2]);
  }
  const frequent = [...counts.keys()].sort((one, other) => counts.get(other) - counts.get(one)).slice(0, COLOURS);
  const placeOf = new Map(frequent.map((key, place) => [key, place]));
  for (const key of counts.keys()) if (!placeOf.has(key)) placeOf.set(key, nearest(key, frequent));
  return { palette: frequent.map((key) => seen.get(key)), places: Uint8Array.from(keys, (key) => placeOf.get(key)) };
}

/** @param {number} key @param {number[]} among */
function nearest(key, among) {
  let best = 0;
  let least = Infinity;
  among.forEach((other, place) => {
    const distance = [10, 5, 0].reduce((sum, shift) => sum + (((key >> shift) & 31) - ((other >> shift) & 31)) ** 2, 0);
    if (distance < least) [best, least] = [place, distance];
  });
  return best;
}

/** LZW as GIF has it: the table begins anew when codes of 12 bits are used up. @param {Uint8Array} places */
function compressed(places) {
  const out = /** @type {number[]} */ ([]);
  const [clear, end] = [COLOURS, COLOURS + 1];
  let table = new Map();
  let [code, length] = [end + 1, BITS + 1];
  let [held, bits] = [0, 0];
  const write = (/** @type {number} */ value) => {
    held |= value << bits;
    for (bits += length; bits >= 8; bits -= 8, held >>= 8) out.push(held & 255);
  };
  write(clear);
  let prefix = places[0];
  for (let at = 1; at < places.length; at++) {
    const key = (prefix << BITS) | places[at];
    const known = table.get(key);
    if (known !== undefined) {
      prefix = known;
      continue;
    }
    write(prefix);
    prefix = places[at];
    table.set(key, code);
    if (code++ === 1 << length) length++;
    if (length <= LONGEST_CODE) continue;
    length = LONGEST_CODE;
    write(clear);
    table = new Map();
    [code, length] = [end + 1, BITS + 1];
  }
  write(prefix);
  write(end);
  if (bits) out.push(held & 255);
  return out;
}

/** The data in blocks of at most 255 bytes, each behind its length, and an empty one. @param {number[]} data */
function inBlocks(data) {
  const out = /** @type {number[]} */ ([]);
  for (let at = 0; at < data.length; at += 255) {
    const block = data.slice(at, at + 255);
    out.push(block.length);
    for (const byte of block) out.push(byte);
  }
  out.push(0);
  return new Uint8Array(out);
}
