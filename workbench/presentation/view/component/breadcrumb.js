// @ts-check
// The path to the selected box: the model, the open groups around the box, the box.

import { make } from "./dom.js";
import { printable, thousands } from "./text_metrics.js";

/** @import { View } from "./types.js" */

export class Breadcrumb {
  /** @param {View} view */
  constructor(view) {
    this.view = view;
    this.element = make("nav", { class: "gw-breadcrumb", "aria-label": "Scopes of the selected box", hidden: true });
    this.shown = "";
  }

  update() {
    const { view } = this;
    const { scene } = view;
    if (!this.view.hasScene) return;
    const scopes = view.selectedBox >= 0 ? scene.scopes(view.selectedBox) : [];
    const key = [scene.id, view.selected, scopes.join()].join("\n");
    if (key === this.shown) return;
    this.shown = key;
    this.element.hidden = !view.selected;
    const model = make("button", {
      type: "button",
      class: "gw-crumb",
      text: scene.pair ? printable(scene.title) : `${printable(scene.title)}, ${thousands(scene.nodes)} ${scene.nodes === 1 ? "node" : "nodes"}`,
      title: "Show the whole graph",
      click: () => view.fit(),
    });
    const groups = scopes.map((index) => this.#crumb(scene.boxes[index].id, scene.nameOf(index)));
    this.element.replaceChildren(model, ...groups, ...this.#self());
  }

  /** @param {string} id @param {string} title */
  #crumb(id, title) {
    return make("button", { type: "button", class: "gw-crumb", dir: "auto", text: printable(title), click: () => this.view.select(id, { centre: true }) });
  }

  #self() {
    const { view } = this;
    if (!view.selected) return [];
    if (view.selectedBox >= 0) return [make("span", { class: "gw-crumb gw-here", dir: "auto", text: printable(view.scene.nameOf(view.selectedBox)) })];
    return [
      make("span", { class: "gw-crumb gw-here", dir: "auto", text: printable(view.selected) }),
      make("button", { type: "button", class: "gw-crumb", text: "not in this picture; click to show it", click: () => view.outside.reveal(view.selected) }),
    ];
  }
}
