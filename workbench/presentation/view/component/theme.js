// @ts-check
// Colours. The page's colours come from its theme; colours with a meaning are fixed, in a light and a dark set.

import { contextOf } from "./dom.js";

const LIGHT = {
  fills: ["#EEE8AA", "#FFDAB9", "#D3D3D3"], // the model's layout, the target's layout, Tensor
  borders: ["#8C8440", "#B06F3A", "#6E6E6E"],
  lines: ["#9C9246", "#C17E49", "#8A8A8A"], // of edges, by layout
  marks: ["", "", "#C62828", "#2E7D32", "#B26A00"], // by mark: removed, added, changed
  neutral: "#EFF1F4",
  neutralBorder: "#8B93A0",
  fused: "#C3CDF0",
  hit: "#7FD3DE", // boxes with hits of a query
  frame: "#1565C0", // around the boxes of a rewrite; unlike all marks
  heat: ["#F1EEF7", "#52247F"],
  palette: ["#C6DCF4", "#D8CCF0", "#B9E2E4", "#F4CCE2", "#DCD0C2", "#C3CCD6", "#AEC2F2", "#E6CCF4", "#D5E9F7", "#BFB1A3", "#F3DCEA", "#A6C3CE"],
};

const DARK = {
  fills: ["#6A6328", "#80502F", "#4B4D50"],
  borders: ["#B5AB58", "#CF905F", "#9A9DA1"],
  lines: ["#A39A4E", "#C48A5C", "#85898F"],
  marks: ["", "", "#FF7B72", "#6BCB77", "#F0A93B"],
  neutral: "#262B34",
  neutralBorder: "#727B89",
  fused: "#3B4A86",
  hit: "#1E7E8C",
  frame: "#6FB1FF",
  heat: ["#2A2533", "#C9A4F2"],
  palette: ["#2F5078", "#4D4079", "#20595C", "#70395A", "#5C4E3D", "#434D59", "#38509A", "#5E3B75", "#2C6280", "#6F604E", "#664457", "#3B5D6B"],
};

/** The theme at an element: the page's colours from CSS, and the light or dark set, by the lightness of the background.
 * @param {HTMLElement} element */
export function readTheme(element) {
  const style = getComputedStyle(element);
  const read = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  const background = read("--gw-background");
  const dark = lightness(background) < 0.5;
  return {
    dark,
    background,
    ink: read("--gw-ink"),
    muted: read("--gw-muted"),
    primary: read("--gw-primary"),
    panel: read("--gw-panel"),
    font: style.fontFamily || "sans-serif",
    ...(dark ? DARK : LIGHT),
  };
}

/** The colour between two others; share: 0 for `one`, 1 for `other`. @param {string} one @param {string} other @param {number} share */
export function mixColours(one, other, share) {
  const [from, to] = [channels(one), channels(other)];
  const mixed = from.map((value, index) => Math.round(value + (to[index] - value) * share));
  return `rgb(${mixed.join(", ")})`;
}

/** A dark or a light text colour, that with more contrast to the fill. @param {string} fill */
export function inkOn(fill) {
  return luminance(fill) > SAME_CONTRAST ? "#1B1B1B" : "#F6F6F6";
}

const SAME_CONTRAST = 0.193; // the luminance of a fill to which both have the same contrast

const channelsOfColour = /** @type {Map<string, number[]>} */ (new Map());

/** Red, green, blue of any CSS colour. @param {string} colour */
function channels(colour) {
  let result = channelsOfColour.get(colour);
  if (!result) {
    const context = contextOf(document.createElement("canvas"), { willReadFrequently: true });
    context.fillStyle = colour || "#fff";
    context.fillRect(0, 0, 1, 1);
    result = [...context.getImageData(0, 0, 1, 1).data.slice(0, 3)];
    channelsOfColour.set(colour, result);
  }
  return result;
}

/** The lightness from 0, black, to 1, white; channels are weighted as the eye does. @param {string} colour */
function lightness(colour) {
  const [red, green, blue] = channels(colour);
  return (0.299 * red + 0.587 * green + 0.114 * blue) / 255;
}

/** The relative luminance, as WCAG defines it for contrast: from 0, black, to 1, white. @param {string} colour */
function luminance(colour) {
  const [red, green, blue] = channels(colour).map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
