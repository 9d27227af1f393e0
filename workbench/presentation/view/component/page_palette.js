// @ts-check
// The entry for Streamlit of the palette of a page (Ctrl+K where no graph view takes it): pages, and the buttons of this one.

import { Palette, linksOf, withWords } from "./palette.js";

/** @import { Entry } from "./palette.js" */
/** @import { PageComponent } from "./types.js" */

const BUTTONS = "[data-testid=stMain] :is([data-testid^=stBaseButton], [role=tab]):not(.st-key-dropped *, .st-key-way_next *)";
const mounted = { component: /** @type {PageComponent | null} */ (null), palette: /** @type {Palette | null} */ (null) };

/** @param {PageComponent} component */
export default function mountPagePalette(component) {
  mounted.component = component;
  if (mounted.palette?.element.isConnected) return;
  const palette = new Palette("Pages and actions", (text) => withWords([...pagesOfApp(), ...linksOf(BUTTONS, "action")], text), () => {});
  const root = document.createElement("div");
  root.className = "gw-page-palette";
  root.append(palette.element);
  component.parentElement.append(root);
  if (!mounted.palette) window.addEventListener("keydown", openPagePalette);
  mounted.palette = palette;
  /** @type {any} */ (window).graphWorkbenchPages = pagesOfApp;
}

/** @param {KeyboardEvent} event */
function openPagePalette(event) {
  if (event.key !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey || event.defaultPrevented) return;
  event.preventDefault();
  mounted.palette?.open();
}

/** @returns {Entry[]} */
function pagesOfApp() {
  const pages = /** @type {[string, string][]} */ (mounted.component?.data.pages ?? []);
  return pages.map(([path, text]) => ({ kind: "page", text, act: () => mounted.component?.setTriggerValue("page", path) }));
}
