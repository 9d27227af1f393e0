// @ts-check
// The playback of a step as an animated GIF: the picture after each rewrite, below the rewrite's sentence.

import { bringIntoView } from "./changes.js";
import { THIS_REWRITE } from "./clock.js";
import { contextOf } from "./dom.js";
import { Gif } from "./gif.js";
import { captionedCanvas, download, fileName, paintCaptioned } from "./saving.js";

/** @import { Context, View } from "./types.js" */

const MAX_PICTURES = 60; // a longer step has so many pictures, evenly spaced
const PICTURE_MS = 1200; // for which a picture is shown
const LAST_PICTURE_MS = 3000;

/** @param {View} view */
export async function saveGif(view) {
  const { clock, stage } = view;
  if (!clock.current.rewrites) {
    view.say("This step has no rewrites to play; choose another step");
    return;
  }
  const { step, t, compare, chosen } = clock;
  const { x, y, zoom } = stage.camera;
  const moments = playedMoments(clock.first, clock.current.rewrites);
  const canvas = captionedCanvas(view, 1);
  const ctx = contextOf(canvas, { willReadFrequently: true });
  const gif = new Gif(canvas.width, canvas.height);
  for (const [number, moment] of moments.entries()) {
    view.say(`GIF: picture ${number + 1} of ${moments.length}`);
    await new Promise((resolve) => setTimeout(resolve)); // so that the page stays responsive
    Object.assign(clock, { step, t: moment, compare: THIS_REWRITE, chosen: true });
    view.compare();
    bringIntoView(view);
    paintMoment(ctx, view);
    gif.add(ctx.getImageData(0, 0, canvas.width, canvas.height).data, moment === moments.at(-1) ? LAST_PICTURE_MS : PICTURE_MS);
  }
  Object.assign(clock, { step, t, compare, chosen });
  Object.assign(stage.camera, { x, y, zoom });
  view.compare();
  stage.request();
  view.refresh();
  download(gif.file(), `${fileName(view)}.gif`);
  view.say(`GIF: ${moments.length} pictures`);
}

/** The moments of a step that the GIF shows, its first and last among them. @param {number} first @param {number} rewrites */
export function playedMoments(first, rewrites) {
  const count = Math.min(rewrites + 1, MAX_PICTURES);
  return Array.from({ length: count }, (_, index) => first + Math.round((index * rewrites) / (count - 1)));
}

/** @param {Context} ctx @param {View} view */
function paintMoment(ctx, view) {
  const { clock, scene } = view;
  const sentence = scene.rewrites[clock.rewrite]?.s ?? `${clock.current.title}: before its first rewrite`;
  paintCaptioned(ctx, view, `${clock.t - clock.first} of ${clock.current.rewrites}: ${sentence}`, [], 1);
}
