// @ts-check
// What the command palette of a view lists: passes, changes, goals, nodes, actions and pages.

import { linksOf, withWords } from "./palette.js";

/** @import { Entry } from "./palette.js" */
/** @import { Key, View } from "./types.js" */

const MAX_NODES = 30; // nodes of the picture that are listed
const MIN_NODE_LETTERS = 2; // of the text from which on nodes are listed
// Of the page Optimize beside the view, by what the palette calls them: kinds of change, goals.
const CONTROLS = {
  change: "[class*=st-key-show_kind_] button",
  goal: ".st-key-goal [role=radiogroup] label",
};

/** What a view's palette lists for a text. @param {View} view @param {Key[]} keys @param {string} text @returns {Entry[]} */
export function entriesOf(view, keys, text) {
  return [...withWords(commandsOf(view, keys), text), ...nodesOf(view, text.toLowerCase()), ...searchOf(view, text)];
}

/** The pages of the app, which its page palette lists; none in a saved file. @returns {Entry[]} */
function pageEntries() {
  return /** @type {any} */ (window).graphWorkbenchPages?.() ?? [];
}

/** Steps of the history, the controls beside the view, switches of passes, actions with their keys, and the pages of the app. @param {View} view @param {Key[]} keys @returns {Entry[]} */
function commandsOf(view, keys) {
  const { scene, clock } = view;
  const hasSteps = scene.T > 0 && !scene.pair;
  const passes = hasSteps
    ? clock.steps.map(({ title }, step) => ({ kind: "pass", text: title, act: () => view.tick((moved) => moved.goToStep(step)) }))
    : [];
  const controls = Object.entries(CONTROLS).flatMap(([kind, selector]) => linksOf(selector, kind));
  const switches = (view.data.switches ?? []).map(([key, text, isOn]) => ({
    kind: `switch ${isOn ? "off" : "on"}`,
    text,
    act: () => view.outside.switchPass?.(key),
  }));
  const actions = keys.map(([names, text, act]) => ({ kind: "action", text, keys: names[0], act: () => act(view) }));
  return [...passes, ...controls, ...switches, ...pageEntries(), ...actions];
}

/** Nodes and groups of the picture with the text in their names. @param {View} view @param {string} text @returns {Entry[]} */
function nodesOf(view, text) {
  const { scene } = view;
  if (text.length < MIN_NODE_LETTERS) return [];
  const nodes = /** @type {Entry[]} */ ([]);
  for (const [index, { id, kind }] of scene.boxes.entries()) {
    const name = scene.nameOf(index);
    if (!`${name} ${id}`.toLowerCase().includes(text)) continue;
    nodes.push({ kind: kind === "group" ? "group" : "node", text: name, act: () => view.select(id, { centre: true }) });
    if (nodes.length === MAX_NODES) break;
  }
  return nodes;
}

/** The search of the whole model, which also finds what closed groups hide. @param {View} view @param {string} query @returns {Entry[]} */
function searchOf(view, query) {
  return query ? [{ kind: "find", text: `${query} in the whole model`, act: () => view.search.goTo(query) }] : [];
}
