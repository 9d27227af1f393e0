// @ts-check
// Helpers that build DOM. Strings from a model become text, never markup.

/** @import { Attributes } from "./types.js" */

/** An element with attributes; `text` becomes its text, functions become listeners ("click", "input", ...).
 * 
 * @template {keyof HTMLElementTagNameMap} T @param {T} tag @param {Attributes} [attributes] @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[T]} */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else if (name === "text") element.textContent = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

/** A button: `label` is its text, and its accessible name unless it has no letter; `title` says what it does.
 * @param {string} label @param {string} title @param {() => void} click @param {Attributes} [attributes] */
export function makeButton(label, title, click, attributes = {}) {
  const name = /\p{L}/u.test(label) ? null : title;
  return make("button", { type: "button", class: "gw-button", text: label, title, "aria-label": name, click, ...attributes });
}

/** A button that is on or off. @param {string} label @param {string} title @param {() => void} click */
export function makeToggle(label, title, click) {
  return makeButton(label, title, click, { "aria-pressed": "false" });
}

/** A select; `change` gets the chosen value, and `setOptions` sets the options.
 * @param {string} title @param {(value: string) => void} change */
export function makeSelect(title, change, classes = "") {
  return make("select", { class: `gw-select ${classes}`, title, "aria-label": title, change: (/** @type {any} */ event) => change(event.target.value) });
}

/** @param {HTMLElement} button @param {unknown} on */
export function setPressed(button, on) {
  button.setAttribute("aria-pressed", String(Boolean(on)));
}

/** @param {HTMLElement} element @param {unknown} shown */
export function setShown(element, shown) {
  element.hidden = !shown;
}

/** Sets the text only where it differs, so that an unchanged live region stays silent. @param {HTMLElement} element @param {string} text */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** The focused element in the document or shadow root of an element. @param {HTMLElement} element */
export function focusedIn(element) {
  return /** @type {Document | ShadowRoot} */ (element.getRootNode()).activeElement;
}

/** Sets a select's options from [value, text] pairs, if they differ, and the chosen one.
 * @param {HTMLSelectElement} select @param {[string | number, string][]} pairs @param {string | number} chosen */
export function setOptions(select, pairs, chosen) {
  const json = JSON.stringify(pairs);
  if (select.dataset.pairs !== json) {
    select.dataset.pairs = json;
    select.replaceChildren(...pairs.map(([value, text]) => make("option", { value, text })));
  }
  select.value = String(chosen);
}

/** The 2-D context of a canvas. @param {HTMLCanvasElement} canvas @param {CanvasRenderingContext2DSettings} [settings] */
export function contextOf(canvas, settings) {
  const context = canvas.getContext("2d", settings);
  if (!context) throw new Error("the browser gives no 2-D context for a canvas: close some of its other pages, then load this one again");
  return context;
}

/** The element with that id, which the page has. @param {string} id */
export function elementOf(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`this file is damaged: it has no element "${id}"`);
  return element;
}
