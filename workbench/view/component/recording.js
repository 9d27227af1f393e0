// @ts-check
// The playback of a step as an animated GIF: each rewrite with its sentence on top.

import { THIS_REWRITE } from "./clock.js";
import { Gif } from "./gif.js";
import { download, fileName } from "./saving.js";
import { cutText } from "./text_metrics.js";

/** @import { Context, View } from "./types.js" */

const MOST_PICTURES = 60; // pictures; of a longer step as many, evenly apart
const SHOWN_FOR = 1200; // ms
const LAST_FOR = 3000;
const HEAD = 34; // px above the picture, for the sentence
const FONT = '15px "Source Sans", system-ui, sans-serif';

/** @param {View} view */
export async function saveGif(view) {
  const { clock, stage } = view;
  if (!clock.current.rewrites) {
    view.say("This step has no rewrites to play; choose one that has");
    return;
  }
  const { step, t, compare, chosen } = clock;
  const { x, y, zoom } = stage.camera;
  const moments = playedMoments(clock.first, clock.current.rewrites);
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [stage.width, stage.height + HEAD];
  const ctx = canvas.getContext("2d", { willReadFrequently: true });
  const gif = new Gif(canvas.width, canvas.height);
  for (const [number, moment] of moments.entries()) {
    view.say(`GIF: picture ${number + 1} of ${moments.length}`);
    await new Promise((resolve) => setTimeout(resolve)); // the page stays alive
    Object.assign(clock, { step, t: moment, compare: THIS_REWRITE, chosen: true });
    view.compare();
    view.bringIntoView();
    paintMoment(ctx, view);
    gif.add(ctx.getImageData(0, 0, canvas.width, canvas.height).data, moment === moments.at(-1) ? LAST_FOR : SHOWN_FOR);
  }
  Object.assign(clock, { step, t, compare, chosen });
  Object.assign(stage.camera, { x, y, zoom });
  view.compare();
  stage.request();
  view.refresh();
  download(gif.file(), `${fileName(view)}.gif`);
  view.say(`GIF: ${moments.length} pictures`);
}

/** From the beginning of the step to its end. @param {number} first @param {number} rewrites */
export function playedMoments(first, rewrites) {
  const count = Math.min(rewrites + 1, MOST_PICTURES);
  return Array.from({ length: count }, (_, place) => first + Math.round((place * rewrites) / (count - 1)));
}

/** @param {Context} ctx @param {View} view */
function paintMoment(ctx, view) {
  const { clock, scene, stage, theme } = view;
  const picture = document.createElement("canvas");
  [picture.width, picture.height] = [stage.width, stage.height];
  stage.paint(picture.getContext("2d"), 1);
  ctx.drawImage(picture, 0, HEAD);
  ctx.fillStyle = theme.background;
  ctx.fillRect(0, 0, stage.width, HEAD);
  ctx.fillStyle = theme.ink;
  ctx.font = FONT;
  ctx.textBaseline = "middle";
  const said = scene.rewrites[clock.rewrite]?.s ?? `${clock.current.title}: before its first rewrite`;
  const words = `${clock.t - clock.first} of ${clock.current.rewrites}: ${said}`;
  ctx.fillText(cutText(words, FONT, stage.width - 16).text, 8, HEAD / 2);
}
