// @ts-check
// Saves the picture as a file, without the server.

import { contextOf } from "./dom.js";
import { dotOf } from "./dot.js";
import { labelOverhang } from "./edges.js";
import { paintPane } from "./painter.js";
import { AFTER, Pane } from "./pane.js";
import { Regions } from "./regions.js";
import { SvgContext } from "./svg.js";
import { cutText } from "./text_metrics.js";

/** @import { Context, View } from "./types.js" */

const MARGIN_PX = 16;
const PNG_SCALE = 2;
const HEAD_PX = 52; // above a picture, for its sentence and the names of its panes
const FONT = '15px "Source Sans", system-ui, sans-serif';
const SMALL_FONT = '12px "Source Sans", system-ui, sans-serif';

/** Paints what the picture shows above it: the sentence, and the name of each pane.
 * @param {Context} ctx @param {View} view @param {string} sentence @param {number} width px @param {[number, string][]} panes px and name of each */
function paintHead(ctx, view, sentence, width, panes) {
  ctx.fillStyle = view.theme.background;
  ctx.fillRect(0, 0, width, HEAD_PX);
  ctx.fillStyle = view.theme.ink;
  ctx.textBaseline = "middle";
  ctx.font = FONT;
  ctx.fillText(cutText(sentence, FONT, width - 16).text, 8, 17);
  ctx.font = SMALL_FONT;
  for (const [left, name] of panes) ctx.fillText(name, left + 8, 40);
}

/** Paints the visible part below its sentence, on a context of a `captionedCanvas`.
 * @param {Context} ctx @param {View} view @param {string} sentence @param {string[]} names of the panes @param {number} ratio pixels for a CSS pixel */
export function paintCaptioned(ctx, view, sentence, names, ratio) {
  const { stage } = view;
  const picture = document.createElement("canvas");
  [picture.width, picture.height] = [stage.width * ratio, stage.height * ratio];
  stage.paint(contextOf(picture), ratio);
  ctx.setTransform(1, 0, 0, 1, 0, 0);
  ctx.drawImage(picture, 0, HEAD_PX * ratio);
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  paintHead(ctx, view, sentence, stage.width, names.map((name, index) => [stage.leftOf(index), name]));
}

/** A canvas for the visible part and what is above it. @param {View} view @param {number} ratio */
export function captionedCanvas(view, ratio) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [view.stage.width * ratio, (view.stage.height + HEAD_PX) * ratio];
  return canvas;
}

/** The sentence above the graph; of a graph without steps, its title. @param {View} view */
function sentenceOf(view) {
  const { sentence } = view.playbar;
  return sentence.hidden || !sentence.title ? view.scene.title : sentence.title;
}

/** The names of the panes. @param {View} view */
function namesOf({ stage }) {
  return stage.sides.map((_, index) => stage.labels[index].textContent ?? "");
}

/** The whole graph, both panes side by side, as SVG text. @param {View} view */
function svgOf(view) {
  const { scene, stage, theme } = view;
  const sides = stage.sides;
  const overhang = Math.max(...sides.map((side) => labelOverhang(wholePane(view, side))));
  const [width, height] = [scene.width + overhang + 2 * MARGIN_PX, HEAD_PX + scene.height + 2 * MARGIN_PX];
  const ctx = new SvgContext(width * sides.length, height);
  ctx.fillStyle = theme.background;
  ctx.fillRect(0, 0, width * sides.length, height);
  paintHead(/** @type {any} */ (ctx), view, sentenceOf(view), width * sides.length, namesOf(view).map((name, index) => [index * width, name]));
  sides.forEach((side, index) => {
    ctx.group(index * width + MARGIN_PX, HEAD_PX + MARGIN_PX);
    paintPane(/** @type {any} */ (ctx), wholePane(view, side, overhang));
  });
  return new XMLSerializer().serializeToString(ctx.svg);
}

/** A pane that shows the whole scene, and so much on its right. @param {View} view @param {string} side @param {number} overhang */
function wholePane(view, side, overhang = 0) {
  const whole = { left: 0, top: 0, right: view.scene.width + overhang, bottom: view.scene.height };
  return new Pane({ ...view, regions: new Regions() }, side, whole, 1);
}

/** @param {View} view */
export function saveSvg(view) {
  download(new Blob([svgOf(view)], { type: "image/svg+xml" }), `${fileName(view)}.svg`);
}

/** Saves the graph at the later of the two moments, for Graphviz. @param {View} view */
export function saveDot(view) {
  download(new Blob([dotOf(wholePane(view, AFTER))], { type: "text/vnd.graphviz" }), `${fileName(view)}.dot`);
}

/** Saves the visible part, at twice the resolution. @param {View} view */
export function savePng(view) {
  const { stage } = view;
  const canvas = captionedCanvas(view, PNG_SCALE);
  paintCaptioned(contextOf(canvas), view, sentenceOf(view), stage.stacked ? [] : namesOf(view), PNG_SCALE);
  canvas.toBlob((blob) => {
    if (blob) download(blob, `${fileName(view)}.png`);
    else view.say("The browser makes no PNG of a picture of this size: make the window smaller");
  });
}

/** Where a link opens a model that has no path. @param {string} model */
function whereItOpens(model) {
  if (!model.startsWith("upload:")) return "";
  return model.includes("/") ? "; it opens on this machine, which keeps the upload" : "; it opens in this tab only";
}

/** Copies an address that opens the view in its present state. @param {View} view */
export async function copyLink(view) {
  view.outside.address(view.selectionSync.addressState);
  try {
    await navigator.clipboard.writeText(window.location.href);
    const model = new URL(window.location.href).searchParams.get("model") ?? "";
    view.say(`The link is copied${whereItOpens(model)}`);
  } catch { // without a secure connection a browser has no clipboard
    view.say("This browser does not allow copying here; copy the address from the address bar");
  }
}

/** @param {View} view */
export function fileName(view) {
  const title = view.scene.title.replace(/[^\w.-]+/g, "_").slice(0, 60) || "graph";
  return `${title}-step${view.clock.step}`;
}

/** @param {Blob} blob @param {string} name */
export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
