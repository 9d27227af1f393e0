// @ts-check
// A link at the beginning of the page that moves the focus to the graph (WCAG 2.4.1, bypass blocks). It is shown when it
// has the focus, and on a touch screen, which has no Tab key, while the graph is out of sight.

import { make } from "./dom.js";

/** @import { View } from "./types.js" */

const HIDDEN = { top: "-60px", bottom: "auto" };

const links = /** @type {Map<View, { link: HTMLElement, sight: IntersectionObserver }>} */ (new Map());

/** Adds the link for the page's first graph. @param {View} view */
export function addSkipLink(view) {
  if (links.size) return;
  const link = make("a", {
    href: "#",
    text: "Skip to the graph",
    class: "gw-skip",
    click: (/** @type {Event} */ event) => {
      event.preventDefault();
      view.root.scrollIntoView({ block: "nearest" });
      view.stage.focus();
    },
  });
  link.style.cssText = "position: fixed; z-index: 1000001; left: 8px; padding: 6px 12px; background: #000; color: #fff;";
  const place = (/** @type {{ top: string, bottom: string }} */ at) => Object.assign(link.style, at);
  place(HIDDEN);
  link.addEventListener("focus", () => link.matches(":focus-visible") && place({ top: "8px", bottom: "auto" })); // a touch finds it where it is
  link.addEventListener("blur", () => place(HIDDEN));
  const isTouched = window.matchMedia("(pointer: coarse)").matches;
  const sight = new IntersectionObserver(([{ isIntersecting }]) => place(isTouched && !isIntersecting ? { top: "auto", bottom: "8px" } : HIDDEN));
  sight.observe(view.stage.canvas);
  document.body.prepend(link);
  links.set(view, { link, sight });
}

/** @param {View} view */
export function removeSkipLink(view) {
  links.get(view)?.link.remove();
  links.get(view)?.sight.disconnect();
  links.delete(view);
}
