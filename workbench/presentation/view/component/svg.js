// @ts-check
// A drawing context that writes SVG. It has the calls of canvas 2-D that the painters use.

const NAMESPACE = "http://www.w3.org/2000/svg";

export class SvgContext {
  /** @param {number} width @param {number} height */
  constructor(width, height) {
    this.svg = this.#element("svg", { xmlns: NAMESPACE, viewBox: `0 0 ${round(width)} ${round(height)}`, width: round(width), height: round(height) });
    this.parent = this.svg;
    this.path = "";
    this.dash = /** @type {number[]} */ ([]);
    this.globalAlpha = 1;
    this.lineWidth = 1;
    this.fillStyle = this.strokeStyle = "#000";
    this.font = "12px sans-serif";
    this.textAlign = "left";
    this.textBaseline = "middle";
  }

  /** Draws into a new group, translated by dx and dy. @param {number} dx @param {number} dy */
  group(dx, dy) {
    this.parent = this.#element("g", { transform: `translate(${round(dx)} ${round(dy)})` });
    this.svg.append(this.parent);
  }

  /** @param {number[]} dash */
  setLineDash(dash) {
    this.dash = dash;
  }

  beginPath() {
    this.path = "";
  }

  closePath() {
    this.path += "Z";
  }

  /** @param {number} x @param {number} y */
  moveTo(x, y) {
    this.path += `M${round(x)} ${round(y)}`;
  }

  /** @param {number} x @param {number} y */
  lineTo(x, y) {
    this.path += `L${round(x)} ${round(y)}`;
  }

  /** Only whole circles are drawn. @param {number} x @param {number} y @param {number} radius */
  arc(x, y, radius) {
    const r = round(radius);
    this.path += `M${round(x - radius)} ${round(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`;
  }

  /** @param {number} x @param {number} y @param {number} width @param {number} height @param {number} radius */
  roundRect(x, y, width, height, radius) {
    const r = Math.min(radius, width / 2, height / 2);
    const corner = (/** @type {number} */ dx, /** @type {number} */ dy) => `a${round(r)} ${round(r)} 0 0 1 ${round(dx)} ${round(dy)}`;
    this.path += `M${round(x + r)} ${round(y)}h${round(width - 2 * r)}${corner(r, r)}v${round(height - 2 * r)}${corner(-r, r)}`
      + `h${round(2 * r - width)}${corner(-r, -r)}v${round(2 * r - height)}${corner(r, -r)}Z`;
  }

  fill() {
    if (this.path) this.#draw("path", { d: this.path, ...this.#filled() });
  }

  stroke() {
    if (this.path) this.#draw("path", { d: this.path, ...this.#stroked() });
  }

  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  fillRect(x, y, width, height) {
    this.#draw("rect", { x: round(x), y: round(y), width: round(width), height: round(height), ...this.#filled() });
  }

  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  strokeRect(x, y, width, height) {
    this.#draw("rect", { x: round(x), y: round(y), width: round(width), height: round(height), ...this.#stroked() });
  }

  /** @param {string} text @param {number} x @param {number} y */
  fillText(text, x, y) {
    const parts = /^(?:(\d+|bold) )?([\d.]+)px (.*)$/.exec(this.font) ?? ["", "", "12", "sans-serif"];
    const element = this.#draw("text", {
      x: round(x),
      y: round(y),
      "font-size": parts[2],
      "font-weight": parts[1] || "400",
      "font-family": parts[3],
      "dominant-baseline": "central",
      ...this.#filled(),
    });
    element.textContent = text; // a text node: serialization escapes it
  }

  #filled() {
    return { fill: this.fillStyle, ...this.#opacity() };
  }

  #stroked() {
    const dash = this.dash.length ? { "stroke-dasharray": this.dash.join(" ") } : {};
    return { fill: "none", stroke: this.strokeStyle, "stroke-width": round(this.lineWidth), ...dash, ...this.#opacity() };
  }

  #opacity() {
    return this.globalAlpha < 1 ? { opacity: round(this.globalAlpha) } : {};
  }

  /** @param {string} name @param {Record<string, string | number | undefined>} attributes */
  #draw(name, attributes) {
    const element = this.#element(name, attributes);
    this.parent.append(element);
    return element;
  }

  /** @param {string} name @param {Record<string, string | number | undefined>} attributes */
  #element(name, attributes) {
    const element = document.createElementNS(NAMESPACE, name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value !== undefined) element.setAttribute(key, String(value));
    }
    return element;
  }
}

/** @param {number} value */
function round(value) {
  return Math.round(value * 100) / 100;
}
