// @ts-check
// A menu of controls that are needed seldom.

import { make } from "./dom.js";

/** A button that opens a panel with the controls below it. Escape, and leaving the panel, close it.
 * @param {string} label @param {string} title @param {...Node} controls */
export function makeMenu(label, title, ...controls) {
  const opener = make("summary", { class: "gw-button", text: label, title });
  const panel = make("div", { class: "gw-panel", role: "group", "aria-label": title, tabindex: "-1" }, ...controls);
  const menu = make("details", {
    class: "gw-menu",
    focusout: (/** @type {FocusEvent} */ event) => {
      if (!menu.contains(/** @type {Node} */ (event.relatedTarget))) menu.open = false;
    },
    keydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Escape" || !menu.open) return;
      event.preventDefault();
      event.stopPropagation();
      menu.open = false;
      opener.focus();
    },
  }, opener, panel);
  return menu;
}

/** A line of a menu: its name, and the controls. @param {string} name @param {...Node} controls */
export function makeMenuLine(name, ...controls) {
  return make("div", { class: "gw-menu-line", role: "group", "aria-label": name }, make("span", { text: name }), ...controls);
}
