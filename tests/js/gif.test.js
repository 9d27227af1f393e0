import assert from "node:assert/strict";
import { test } from "node:test";

import { Gif, quantized } from "../../workbench/presentation/view/component/gif.js";

const [WIDTH, HEIGHT] = [120, 90];

/** A picture of noise in so many colours. */
function picture(colours, seed) {
  const pixels = new Uint8ClampedArray(WIDTH * HEIGHT * 4);
  let state = seed;
  for (let at = 0; at < pixels.length; at += 4) {
    state = (state * 1103515245 + 12345) & 0x7fffffff;
    const colour = (state >> 8) % colours;
    pixels.set([(colour & 7) * 32, ((colour >> 3) & 7) * 32, (colour >> 6) * 32, 255], at);
  }
  return pixels;
}

/** Reads a GIF as the standard says it: its pictures as lists of colours. */
function pictures(bytes) {
  const found = [];
  let at = 13; // no global colours
  while (bytes[at] !== 0x3b) {
    if (bytes[at] === 0x21) {
      at += 2;
      while (bytes[at]) at += bytes[at] + 1;
      at++;
      continue;
    }
    assert.equal(bytes[at], 0x2c);
    const palette = bytes.slice(at + 10, at + 10 + 768);
    at += 10 + 768 + 1;
    const data = [];
    while (bytes[at]) {
      data.push(...bytes.slice(at + 1, at + 1 + bytes[at]));
      at += bytes[at] + 1;
    }
    at++;
    found.push(expanded(data).map((place) => [...palette.slice(place * 3, place * 3 + 3)]));
  }
  return found;
}

function expanded(data) {
  const out = [];
  let [table, length, last] = [[], 9, null];
  let bit = 0;
  for (;;) {
    let code = 0;
    for (let i = 0; i < length; i++, bit++) code |= ((data[bit >> 3] >> (bit & 7)) & 1) << i;
    if (code === 257) return out;
    if (code === 256) {
      table = Array.from({ length: 258 }, (_, place) => [place]);
      [length, last] = [9, null];
      continue;
    }
    const entry = code < table.length ? table[code] : [...last, last[0]];
    out.push(...entry);
    if (last) table.push([...last, entry[0]]);
    if (table.length === 1 << length && length < 12) length++;
    last = entry;
  }
}

test("pictures come back as they were, of few colours and of many, over many tables", async () => {
  for (const colours of [1, 2, 200]) {
    const gif = new Gif(WIDTH, HEIGHT);
    const given = [picture(colours, 1), picture(colours, 2)];
    given.forEach((pixels) => gif.add(pixels, 500));
    const bytes = new Uint8Array(await gif.file().arrayBuffer());
    assert.equal(String.fromCharCode(...bytes.slice(0, 6)), "GIF89a");
    const found = pictures(bytes);
    assert.equal(found.length, 2);
    found.forEach((colours_, index) => {
      assert.equal(colours_.length, WIDTH * HEIGHT);
      const same = colours_.every((colour, at) => colour.every((part, place) => part === given[index][at * 4 + place]));
      assert.ok(same, `${colours} colours, picture ${index}`);
    });
  }
});

test("of more colours than a palette holds each pixel gets a near one", () => {
  const pixels = picture(512, 3);
  const { palette, indices } = quantized(pixels);
  assert.equal(palette.length, 256);
  indices.forEach((index, at) => {
    const colour = palette[index];
    [16, 8, 0].forEach((shift, part) => assert.ok(Math.abs(((colour >> shift) & 255) - pixels[at * 4 + part]) <= 96));
  });
});
