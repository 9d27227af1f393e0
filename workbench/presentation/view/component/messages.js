// @ts-check
// What the view says: a message over the picture for some seconds, and the same for a screen reader.

import { make, setText } from "./dom.js";

const MESSAGE_MS = 4000; // ms for which a message is shown
const MAX_MESSAGE = 160; // characters

export class Messages {
  constructor() {
    this.element = make("div", { class: "gw-message", hidden: true });
    this.live = make("div", { class: "gw-hidden", "aria-live": "polite", role: "status" });
    this.timer = 0;
  }

  /** @param {string} text */
  say(text) {
    this.element.textContent = text.slice(0, MAX_MESSAGE);
    this.element.hidden = !text;
    this.tell(text);
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => (this.element.hidden = true), MESSAGE_MS);
  }

  /** To a screen reader alone. @param {string} text */
  tell(text) {
    setText(this.live, text);
  }
}
