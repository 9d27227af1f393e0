// @ts-check
// A link at the beginning of the page that leads the keyboard past everything else to the graph (WCAG 2.4.1).

import { make } from "./dom.js";

/** @import { View } from "./types.js" */

const links = /** @type {Map<View, HTMLElement>} */ (new Map());

/** Of several graphs on a page the first has the link. @param {View} view */
export function addSkipLink(view) {
  if (links.size) return;
  const link = make("a", {
    href: "#",
    text: "Skip to the graph",
    class: "gw-skip",
    click: (/** @type {Event} */ event) => {
      event.preventDefault();
      view.stage.canvas.scrollIntoView({ block: "nearest" });
      view.stage.focus();
    },
  });
  link.style.cssText = "position: fixed; z-index: 1000001; left: 8px; top: -60px; padding: 6px 12px; background: #000; color: #fff;";
  link.addEventListener("focus", () => (link.style.top = "8px"));
  link.addEventListener("blur", () => (link.style.top = "-60px"));
  document.body.prepend(link);
  links.set(view, link);
}

/** @param {View} view */
export function removeSkipLink(view) {
  links.get(view)?.remove();
  links.delete(view);
}
