// @ts-check
// The tooltip of a box.

import { colourText } from "./colouring.js";
import { make } from "./dom.js";
import { printable, thousands } from "./text_metrics.js";
import { AFTER, Pane } from "./pane.js";

/** @import { Point, View } from "./types.js" */

const MARK_NAMES = ["", "", "removed", "added", "changed"];
const NOWHERE = { left: 0, right: 0, top: 0, bottom: 0 };

/** Shows the tooltip of a box beside a point of the stage; index -1 hides it. @param {View} view @param {number} index @param {Point} [at] */
export function showTip(view, index, at) {
  const { tip, canvas, width, height } = view.stage;
  tip.hidden = index < 0;
  canvas.classList.toggle("gw-over", index >= 0);
  if (index < 0 || !at) return;
  tip.replaceChildren(...tipLines(view, index).map((text) => make("div", { text, dir: "auto" })));
  const nearRight = at.x > width - 300;
  tip.style.left = nearRight ? "" : `${at.x + 14}px`;
  tip.style.right = nearRight ? `${width - at.x + 10}px` : "";
  tip.style.top = `${Math.max(0, Math.min(at.y + 16, height - tip.offsetHeight - 4))}px`;
}

/** The lines of a box's tooltip. @param {View} view @param {number} index */
export function tipLines(view, index) {
  const { scene, comparison } = view;
  const box = scene.boxes[index];
  const mark = MARK_NAMES[comparison.marks[index]];
  if (box.kind === "group") {
    const { nodes, counts } = new Pane(view, AFTER, NOWHERE, 1).inside(index);
    const changes = counts.slice(2).some(Boolean) ? `${counts[2]} removed, ${counts[3]} added, ${counts[4]} changed` : "";
    const title = [...scene.scopes(index), index].map((scope) => scene.boxes[scope].title).join(" / ");
    const look = scene.lookOf(comparison.after[index] ?? comparison.before[index]); // of a closed group: its operators, and its result's shape
    const size = box.open ? "" : `${thousands(nodes)} ${nodes === 1 ? "node" : "nodes"}`;
    const number = view.marks.numberText(view.colouring, index);
    return lines([title, size, number && `at most ${number}`, look?.name, look?.d, box.same, changes, box.open ? "double-click closes" : "double-click opens"]);
  }
  const look = scene.lookOf(comparison.after[index] ?? comparison.before[index]);
  const name = box.id.replace(/^(in|out|const):/, "");
  const what = look?.op === name ? name : `${look?.op ?? ""}  ${name}`;
  const fused = look?.d.endsWith(look.f) ? "" : look?.f;
  return lines([what, look?.d, fused, look ? colourText(view.colouring, look, scene) : "", view.marks.numberText(view.colouring, index), mark]);
}

/** @param {(string | undefined)[]} parts */
function lines(parts) {
  return parts.filter(Boolean).map(printable);
}
