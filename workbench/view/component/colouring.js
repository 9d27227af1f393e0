// @ts-check
// What the fill of a box says: one entry for each way to colour.

import { duration, megabytes } from "./text_metrics.js";
import { mixColours } from "./theme.js";

/** @import { Look, Scene, Theme } from "./types.js" */

const FULL_HEAT = 24; // shades of the scale: few, so that boxes of one shade are painted together

/** The ways to colour that this scene allows, as [key, words]. @param {Scene} scene */
export function colouringsOf(scene) {
  const offered = /** @type {[string, string][]} */ ([
    ["layout", "Layout"],
    ["category", "Operator category"],
    ["class", "Contract class"],
    ["pass", "Changed by pass"],
    ["fused", "Fused groups"],
  ]);
  if (scene.measured?.us) offered.push(["us", "Latency"]);
  if (scene.measured?.mb) offered.push(["mb", "Memory"]);
  return offered;
}

/** A function from a look to its fill. @returns {(look: any) => string} @param {string} colouring @param {Scene} scene @param {Theme} theme */
export function fillBy(colouring, scene, theme) {
  const many = (/** @type {number} */ index) => (index >= 0 ? theme.many[index % theme.many.length] : theme.neutral);
  switch (colouring) {
    case "category":
      return (look) => many(look.k ?? -1);
    case "class":
      return (look) => many(look.c ?? -1);
    case "pass":
      return (look) => many((look.p ?? 0) - 1);
    case "fused":
      return (look) => (look.f ? theme.fused : theme.neutral);
    case "us":
    case "mb": {
      const shade = heatShades(scene.measured?.[colouring], theme);
      return (look) => shade(look[colouring]);
    }
    default:
      return (look) => theme.fills[look.l ?? 2];
  }
}

/** A function from a measured value to its shade; a logarithmic scale, as few operators take most of the time. @returns {(value: number) => string}
 * @param {number[]} range @param {Theme} theme */
function heatShades(range, theme) {
  if (!range) return () => theme.neutral;
  const [low, high] = range.map((value) => Math.log(Math.max(value, 1e-6)));
  const shades = Array.from({ length: FULL_HEAT + 1 }, (_, step) => mixColours(theme.heat[0], theme.heat[1], step / FULL_HEAT));
  return (value) => {
    if (value === null || value === undefined) return theme.background;
    const share = (Math.log(Math.max(value, 1e-6)) - low) / Math.max(high - low, 1e-9);
    return shades[Math.round(Math.min(1, Math.max(0, share)) * FULL_HEAT)];
  };
}

/** What the fills on screen mean: entries {fill, border, words} or one {scale, low, high}.
 * @param {string} colouring @param {Scene} scene @param {Theme} theme */
export function legendOf(colouring, scene, theme) {
  const many = (/** @type {string} */ words, /** @type {number} */ index) => ({ fill: theme.many[index % theme.many.length], words });
  switch (colouring) {
    case "category":
      return (scene.categories ?? []).map(many);
    case "class":
      return (scene.classes ?? []).map(many);
    case "pass":
      return [{ fill: theme.neutral, words: "as loaded" }, ...passesOf(scene).map((step) => many(scene.steps[step].title, step - 1))];
    case "fused":
      return [{ fill: theme.fused, words: "fused from several" }, { fill: theme.neutral, words: "one operator" }];
    case "us":
      return [{ scale: theme.heat, low: duration(scene.measured.us[0]), high: duration(scene.measured.us[1]), words: "latency of a node, log scale" }];
    case "mb":
      return [{ scale: theme.heat, low: megabytes(scene.measured.mb[0]), high: megabytes(scene.measured.mb[1]), words: "memory of a node, log scale" }];
    default:
      return [
        { fill: theme.fills[0], line: theme.borders[0], border: "thin", words: "CNN, the model's layout" },
        { fill: theme.fills[1], line: theme.borders[1], border: "thick", words: `CNN, the target's layout${scene.target ? ` (${scene.target})` : ""}` },
        { fill: theme.fills[2], line: theme.borders[2], border: "dotted", words: "Tensor" },
      ];
  }
}

/** Steps that made some node. @param {Scene} scene */
function passesOf(scene) {
  const steps = new Set(scene.looks.map((look) => look.p).filter((step) => step > 0 && step < scene.steps.length));
  return [...steps].sort((one, other) => one - other);
}

/** Says in words what the colouring says of a look, for those who do not see the colour.
 * @param {string} colouring @param {Look} look @param {Scene} scene */
export function wordsOf(colouring, look, scene) {
  switch (colouring) {
    case "category":
      return scene.categories?.[look.k] ?? "";
    case "class":
      return scene.classes?.[look.c] ?? "";
    case "pass":
      return look.p > 0 ? `made by step ${look.p}: ${scene.steps[look.p]?.title ?? ""}` : "as loaded";
    case "us":
      return look.us == null ? "not measured" : duration(look.us);
    case "mb":
      return look.mb == null ? "not measured" : megabytes(look.mb);
    default:
      return "";
  }
}
