// @ts-check
// Text on the canvas. Names from files may be very long or have control characters.

import { contextOf } from "./dom.js";

const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const MAX_CHARACTERS = 400; // characters of a text that are shown at most
const MAX_WRAPPED = 80; // characters of a text in several lines
const WORD_ENDS = /(?<=[ ._/-])/; // a text may go on in the next line behind these
const MAX_CACHED = 20000; // entries of the cache before it is cleared

const cutTexts = new Map();
const measuring = { context: /** @type {CanvasRenderingContext2D | null} */ (null) };

/** The text with a dot for each control character and each mark that changes the direction of text. @param {string | undefined} text */
export function printable(text) {
  const short = String(text ?? "").slice(0, MAX_CHARACTERS).replace(UNPRINTABLE, "\u00b7");
  return short.toWellFormed ? short.toWellFormed() : short;
}

/** The width of a text in px. @param {string} text @param {string} font */
export function widthOf(text, font) {
  measuring.context ??= contextOf(document.createElement("canvas"));
  if (measuring.context.font !== font) measuring.context.font = font;
  return measuring.context.measureText(text).width;
}

/** The text cut to the width with an ellipsis, and the width it then has.
 * @param {string} text @param {string} font @param {number} width */
export function cutText(text, font, width) {
  const key = `${font}|${Math.round(width)}|${text}`;
  let cut = cutTexts.get(key);
  if (cut === undefined) {
    if (cutTexts.size > MAX_CACHED) cutTexts.clear();
    cut = findCut(printable(text), font, width);
    cutTexts.set(key, cut);
  }
  return cut;
}

/** Clears the cache; to be called after a font was loaded. */
export function forgetCuts() {
  cutTexts.clear();
}

/** @param {string} text @param {string} font @param {number} width */
function findCut(text, font, width) {
  const whole = widthOf(text, font);
  if (whole <= width) return { text, width: whole };
  let low = 0;
  let high = text.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (widthOf(text.slice(0, middle) + "\u2026", font) <= width) low = middle;
    else high = middle - 1;
  }
  const start = text.slice(0, low).replace(/[\ud800-\udbff]$/, "");
  if (!start) return { text: "", width: 0 };
  return { text: `${start}\u2026`, width: widthOf(`${start}\u2026`, font) };
}

/** The text in lines, as many as it needs: of whole words, or of parts of a name such as "down_blocks.0".
 * @param {string} text @param {number} width @param {string} font */
export function wrapped(text, width, font) {
  const lines = [""];
  for (const word of text.slice(0, MAX_WRAPPED).split(WORD_ENDS)) {
    const longer = lines[lines.length - 1] + word;
    if (widthOf(longer.trim(), font) <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines.map((line) => line.trim()).filter(Boolean);
}

/** The font of titles and labels. @param {number} size @param {string} family */
export function boldFont(size, family) {
  return `600 ${size}px ${family}`;
}

/** A count with its thousands separated. @param {number} count */
export function thousands(count) {
  return Number(count).toLocaleString("en-US");
}

/** Microseconds in the unit that reads best. @param {number} us */
export function duration(us) {
  if (us >= 1e6) return `${(us / 1e6).toPrecision(3)} s`;
  if (us >= 1e3) return `${(us / 1e3).toPrecision(3)} ms`;
  return `${Number(us.toPrecision(3))} \u00b5s`;
}

/** Megabytes in the unit that reads best. @param {number} mb */
export function megabytes(mb) {
  if (mb >= 1000) return `${(mb / 1000).toPrecision(3)} GB`;
  if (mb > 0 && mb < 0.1) return `${Number((mb * 1000).toPrecision(3))} kB`;
  return `${Number(mb.toPrecision(3))} MB`;
}
