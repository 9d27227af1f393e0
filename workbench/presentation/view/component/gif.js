// @ts-check
// A sequence of pictures as an animated GIF (CompuServe, GIF89a), compressed by LZW with codes of growing length.

const COLOURS = 256;
const BITS = 8; // of an index into the palette
const MAX_CODE_BITS = 12;

export class Gif {
  /** @param {number} width @param {number} height in px, of each picture */
  constructor(width, height) {
    this.size = [width, height];
    this.bytes = /** @type {number[]} */ ([]);
    this.parts = /** @type {Uint8Array[]} */ ([]);
    this.#text("GIF89a");
    this.#shorts(width, height);
    this.bytes.push(0x70, 0, 0, 0x21, 0xff, 11); // no global palette; then the extension that repeats the animation
    this.#text("NETSCAPE2.0");
    this.bytes.push(3, 1, 0, 0, 0);
  }

  /** @param {Uint8ClampedArray} pixels red, green, blue, opacity of each @param {number} ms for which it is shown */
  add(pixels, ms) {
    const { palette, indices } = quantized(pixels);
    this.bytes.push(0x21, 0xf9, 4, 4);
    this.#shorts(Math.round(ms / 10));
    this.bytes.push(0, 0, 0x2c);
    this.#shorts(0, 0, ...this.size);
    this.bytes.push(0x80 | (BITS - 1));
    for (let at = 0; at < COLOURS; at++) {
      const colour = palette[at] ?? 0;
      this.bytes.push(colour >> 16, (colour >> 8) & 255, colour & 255);
    }
    this.bytes.push(BITS);
    this.#flush();
    this.parts.push(subBlocks(lzw(indices)));
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

  /** @param {...number} numbers 16-bit integers, written with the low byte first */
  #shorts(...numbers) {
    for (const number of numbers) this.bytes.push(number & 255, number >> 8);
  }
}

/** Colour quantization: a palette of the most frequent colours, and for each pixel the index of the nearest. Colours are
 * compared by the five high bits of each channel.
 * @param {Uint8ClampedArray} pixels */
export function quantized(pixels) {
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
  const indexOf = new Map(frequent.map((key, index) => [key, index]));
  for (const key of counts.keys()) if (!indexOf.has(key)) indexOf.set(key, nearest(key, frequent));
  return { palette: frequent.map((key) => seen.get(key)), indices: Uint8Array.from(keys, (key) => indexOf.get(key) ?? 0) };
}

/** @param {number} key @param {number[]} colours */
function nearest(key, colours) {
  let nearestIndex = 0;
  let minDistance = Infinity;
  colours.forEach((other, index) => {
    const distance = [10, 5, 0].reduce((sum, shift) => sum + (((key >> shift) & 31) - ((other >> shift) & 31)) ** 2, 0);
    if (distance < minDistance) [nearestIndex, minDistance] = [index, distance];
  });
  return nearestIndex;
}

/** LZW in GIF's variant: the table is cleared when all codes of 12 bits are used. @param {Uint8Array} indices */
function lzw(indices) {
  const out = /** @type {number[]} */ ([]);
  const [clear, end] = [COLOURS, COLOURS + 1];
  let table = new Map();
  let [code, length] = [end + 1, BITS + 1];
  let [buffer, bits] = [0, 0];
  const write = (/** @type {number} */ value) => {
    buffer |= value << bits;
    for (bits += length; bits >= 8; bits -= 8, buffer >>= 8) out.push(buffer & 255);
  };
  write(clear);
  let prefix = indices[0];
  for (let at = 1; at < indices.length; at++) {
    const key = (prefix << BITS) | indices[at];
    const known = table.get(key);
    if (known !== undefined) {
      prefix = known;
      continue;
    }
    write(prefix);
    prefix = indices[at];
    table.set(key, code);
    if (code++ === 1 << length) length++;
    if (length <= MAX_CODE_BITS) continue;
    length = MAX_CODE_BITS;
    write(clear);
    table = new Map();
    [code, length] = [end + 1, BITS + 1];
  }
  write(prefix);
  write(end);
  if (bits) out.push(buffer & 255);
  return out;
}

/** GIF's sub-blocks: at most 255 bytes each after their length, then an empty block. @param {number[]} data */
function subBlocks(data) {
  const out = /** @type {number[]} */ ([]);
  for (let at = 0; at < data.length; at += 255) {
    const block = data.slice(at, at + 255);
    out.push(block.length);
    for (const byte of block) out.push(byte);
  }
  out.push(0);
  return new Uint8Array(out);
}
