// @ts-check
// A pane's graph as Graphviz's DOT: boxes in their colours, open groups as clusters.

import { NARROW_AT } from "./edge_lines.js";
import { isFrame } from "./scene.js";

/** @import { Pane } from "./types.js" */

const DOT_BORDERS = ["style=filled penwidth=1", "style=filled penwidth=2.6", 'style="filled,dotted" penwidth=1.4']; // by layout
const DOUBLE = ' color="black:invis:black"'; // two lines: of a narrower element type

/** The DOT text. Boxes are called b0, b1, ..., since DOT reads names with colons as ports; the tooltip has the id. @param {Pane} pane */
export function dotOf(pane) {
  const { scene } = pane;
  const within = new Map(); // boxes by frame; -1: outside all frames
  scene.boxes.forEach((box, index) => (within.get(box.up) ?? within.set(box.up, []).get(box.up)).push(index));
  const lines = [`digraph ${quoted(scene.title)} {`, "  node [shape=box fontname=Helvetica]", "  edge [fontname=Helvetica]"];
  lines.push(...boxLines(pane, within, -1, "  "));
  scene.edges.forEach((edge, index) => {
    const version = pane.edgeVersion(index);
    if (!version) return;
    const sign = version[NARROW_AT] ? DOUBLE : "";
    lines.push(`  b${edge.a} -> b${edge.b} [label=${quoted(scene.words[version[2]] ?? "")}${sign}]`);
  });
  return `${lines.join("\n")}\n}\n`;
}

/** The lines of the boxes inside a frame, including those of inner frames; frame -1: all boxes. @returns {string[]}
 * @param {Pane} pane @param {Map<number, number[]>} within @param {number} frame @param {string} indent */
function boxLines(pane, within, frame, indent) {
  return (within.get(frame) ?? []).flatMap((index) => {
    const box = pane.scene.boxes[index];
    if (!isFrame(box)) return pane.shows(index) ? [`${indent}b${index} [${attributesOf(pane, index)}]`] : [];
    if (!pane.shows(index)) return boxLines(pane, within, index, indent);
    const inner = boxLines(pane, within, index, `${indent}  `);
    if (!inner.length) return [];
    const title = quoted(box.title || box.id, box.same ?? "");
    return [`${indent}subgraph cluster_${index} {`, `${indent}  label=${title}`, ...inner, `${indent}}`];
  });
}

/** @param {Pane} pane @param {number} index */
function attributesOf(pane, index) {
  const { scene, theme } = pane;
  const box = scene.boxes[index];
  const look = scene.lookOf(pane.boxVersion(index));
  const tooltip = `tooltip=${quoted(box.id)}`;
  if (box.kind === "group") {
    const { nodes, mix } = pane.inside(index);
    const fill = pane.colouring === "layout" && nodes ? theme.fills[mix.indexOf(Math.max(...mix))] : pane.fillOf(index);
    return `label=${quoted(box.title || box.id, `${nodes} ${nodes === 1 ? "node" : "nodes"}`, box.same ?? "")} ${tooltip} style=filled fillcolor=${hex(fill)}`;
  }
  if (!look) return `label=${quoted(box.id)} ${tooltip}`;
  const label = `label=${quoted(look.op, look.name, look.d)} ${tooltip}`;
  if (box.kind === "input" || box.kind === "output") return `${label} style=rounded`;
  return `${label} fillcolor=${hex(pane.fillOf(index, look))} ${DOT_BORDERS[look.l] ?? DOT_BORDERS[2]}`;
}

/** The lines as one quoted string of DOT; backslashes and quotes are escaped. @param {...string} lines */
function quoted(...lines) {
  const escaped = lines.filter(Boolean).map((line) => line.replaceAll("\\", "\\\\").replaceAll('"', '\\"'));
  return `"${escaped.join("\\n")}"`;
}

/** A CSS colour, which may be #abc or rgb(1, 2, 3), with six digits as DOT needs it. @param {string} colour */
function hex(colour) {
  const channels = /^rgba?\((\d+), *(\d+), *(\d+)/.exec(colour)?.slice(1);
  if (channels) return quoted(`#${channels.map((channel) => Number(channel).toString(16).padStart(2, "0")).join("")}`);
  return quoted(colour.replace(/^#(.)(.)(.)$/, "#$1$1$2$2$3$3"));
}
