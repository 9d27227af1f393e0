// @ts-check
// The colourings: what the fill of a box shows.

import { duration, megabytes } from "./text_metrics.js";
import { mixColours } from "./theme.js";

/** @import { Look, Scene, Theme } from "./types.js" */

export const PROVIDER_TITLE = "ONNX Runtime's provider";
const OWN_LAYOUT = 0; // of a look: the model's layout
const MAX_LAYOUTS = 2; // of the model, named in the legend
const MAX_ENTRIES = 12; // of modules in the legend, as many as the palette has colours
const MAX_SHADE = 24; // shades of the scale: few, since boxes of one shade are painted together

/** The colourings that this scene allows, as [key, title]. @param {Scene} scene */
export function colouringsOf(scene) {
  const colourings = /** @type {[string, string][]} */ ([
    ["layout", "Layout"],
    ["category", "Operator category"],
    ["class", "Contract class"],
    ["type", "Element type"],
    ["pass", "Changed by pass"],
    ["fused", "Fused groups"],
  ]);
  if (scene.modules?.length) colourings.push(["module", "Module"]);
  if (scene.providers?.length) colourings.push(["provider", PROVIDER_TITLE]);
  if (scene.measured?.us) colourings.push(["us", "Latency"]);
  if (scene.measured?.mb) colourings.push(["mb", "Memory"]);
  return colourings;
}

/** A function from a look to its fill. @returns {(look: any) => string} @param {string} colouring @param {Scene} scene @param {Theme} theme */
export function fillBy(colouring, scene, theme) {
  const paletteColour = (/** @type {number} */ index) => (index >= 0 ? theme.palette[index % theme.palette.length] : theme.neutral);
  switch (colouring) {
    case "category":
      return (look) => paletteColour(look.k ?? -1);
    case "class":
      return (look) => paletteColour(look.c ?? -1);
    case "type":
      return (look) => paletteColour(look.t ?? -1);
    case "pass":
      return (look) => paletteColour((look.p ?? 0) - 1);
    case "fused":
      return (look) => (look.f ? theme.fused : theme.neutral);
    case "module":
      return (look) => paletteColour(look.m ?? -1);
    case "provider":
      return (look) => paletteColour(look.e ?? -1);
    case "us":
    case "mb": {
      const shade = heatShades(scene.measured?.[colouring] ?? [0, 0], theme);
      return (look) => shade(look[colouring]);
    }
    default:
      return (look) => theme.fills[look.l ?? 2];
  }
}

/** A function from a measured value to its shade. The scale is logarithmic, since few operators take most of the time. @returns {(value: number) => string}
 * @param {number[]} range @param {Theme} theme */
function heatShades(range, theme) {
  if (!range) return () => theme.neutral;
  const [low, high] = range.map((value) => Math.log(Math.max(value, 1e-6)));
  const shades = Array.from({ length: MAX_SHADE + 1 }, (_, step) => mixColours(theme.heat[0], theme.heat[1], step / MAX_SHADE));
  return (value) => {
    if (value === null || value === undefined) return theme.background;
    const share = (Math.log(Math.max(value, 1e-6)) - low) / Math.max(high - low, 1e-9);
    return shades[Math.round(Math.min(1, Math.max(0, share)) * MAX_SHADE)];
  };
}

/** What the fills mean, as entries of the legend.
 * @param {string} colouring @param {Scene} scene @param {Theme} theme */
export function legendOf(colouring, scene, theme) {
  const paletteEntry = (/** @type {string} */ text, /** @type {number} */ index) => ({ fill: theme.palette[index % theme.palette.length], text });
  switch (colouring) {
    case "category":
      return (scene.categories ?? []).map(paletteEntry);
    case "class":
      return (scene.classes ?? []).map(paletteEntry);
    case "type":
      return [...(scene.types ?? []).map(paletteEntry), { fill: theme.neutral, text: "type unknown" }];
    case "pass":
      return [{ fill: theme.neutral, text: "as loaded" }, ...stepsWithNodes(scene).map((step) => paletteEntry(scene.steps[step].title, step - 1))];
    case "fused":
      return [{ fill: theme.fused, text: "fused from several" }, { fill: theme.neutral, text: "one operator" }];
    case "module":
      return [...scene.modules.slice(0, MAX_ENTRIES).map(paletteEntry), { fill: theme.neutral, text: moreModules(scene) }];
    case "provider":
      return [...scene.providers.map(paletteEntry), { fill: theme.neutral, text: "not asked" }];
    case "us":
      return heatEntries(scene.measured?.us, duration, "latency of a node, log scale", theme);
    case "mb":
      return heatEntries(scene.measured?.mb, megabytes, "memory of a node, log scale", theme);
    default:
      return [...layoutEntries(scene, theme), { fill: theme.fills[2], line: theme.borders[2], border: "dotted", text: "Tensor" }];
  }
}

/** The layouts that are drawn as the model's, each once. @param {Look[]} looks */
function layoutsOf(looks) {
  return [...new Set(looks.filter((look) => look.l === OWN_LAYOUT && look.x).map((look) => look.x))];
}

/** The entries of the legend for the layouts of CNN values. @param {Scene} scene @param {Theme} theme */
function layoutEntries(scene, theme) {
  const target = scene.target ? ` (${scene.target})` : "";
  const own = { fill: theme.fills[0], line: theme.borders[0], border: "thin" };
  if (scene.own) return [{ ...own, text: `CNN, the model's layout, which is the target's${target}` }];
  const layouts = layoutsOf(scene.looks);
  const modelLooks = scene.boxes.flatMap((box) => {
    const ownLooks = box.v.filter(([born, , look]) => born === 0 && look >= 0).map(([, , look]) => look);
    const inner = (box.inner ?? []).filter(([from]) => from === 0).map(([, , , look]) => look);
    return [...ownLooks, ...(box.still ?? []).map(([look]) => look), ...inner].map((look) => scene.looks[look]);
  });
  const modelLayouts = new Set(layoutsOf(modelLooks));
  const areOfModel = layouts.every((layout) => modelLayouts.has(layout));
  const names = layouts.length && layouts.length <= MAX_LAYOUTS ? ` (${layouts.join(", ")})` : "";
  return [
    { ...own, text: `CNN, ${areOfModel ? "the model's layout" : "not the target's layout"}${names}` },
    { fill: theme.fills[1], line: theme.borders[1], border: "thick", text: `CNN, the target's layout${target}` },
  ];
}

/** The last entry of the legend of modules. @param {Scene} scene */
function moreModules(scene) {
  const more = scene.modules.length - MAX_ENTRIES;
  return more > 0 ? `no module; ${more} more modules share these colours` : "no module";
}

/** The steps that made at least one node, in order. @param {Scene} scene */
function stepsWithNodes(scene) {
  const steps = new Set(scene.looks.map((look) => look.p).filter((step) => step > 0 && step < scene.steps.length));
  return [...steps].sort((one, other) => one - other);
}

/** What the colouring shows of a look, as text: colour is not the only carrier of a meaning.
 * @param {string} colouring @param {Look} look @param {Scene} scene */
export function colourText(colouring, look, scene) {
  switch (colouring) {
    case "category":
      return scene.categories?.[look.k] ?? "";
    case "class":
      return scene.classes?.[look.c] ?? "";
    case "type":
      return scene.types?.[look.t] ?? "type unknown";
    case "module":
      return scene.modules?.[look.m] ?? "";
    case "provider":
      return scene.providers?.[look.e] ?? "not asked";
    case "pass":
      return look.p > 0 ? `made by step ${look.p}: ${scene.steps[look.p]?.title ?? ""}` : "as loaded";
    case "us":
      if (look.us == null) return "not measured";
      return look.us0 == null ? duration(look.us) : `${duration(look.us)}, in the first graph ${duration(look.us0)}`;
    case "mb":
      return look.mb == null ? "not measured" : megabytes(look.mb);
    default:
      return "";
  }
}

/** The entry of a scale, without one if nothing was measured.
 * @param {number[] | undefined} range @param {(value: number) => string} words @param {string} text @param {Theme} theme */
function heatEntries(range, words, text, theme) {
  return range ? [{ scale: theme.heat, low: words(range[0]), high: words(range[1]), text }] : [];
}
