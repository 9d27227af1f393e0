// What the modules give each other, for `tsc`, which checks them. No browser reads this file.
// The scene's format is told in docs/view.md.

import type { remember } from "./memory.js";
import type { readTheme } from "./theme.js";
import type { View } from "./view.js";

export type { Camera } from "./camera.js";
export type { Clock } from "./clock.js";
export type { Comparison } from "./comparison.js";
export type { Pane } from "./pane.js";
export type { Scene } from "./scene.js";
export type { Stage } from "./stage.js";
export type { View };

export type Context = CanvasRenderingContext2D;
export type Theme = ReturnType<typeof readTheme>;
export type Memory = ReturnType<typeof remember>;

/** [from, to, what is so meanwhile, ...] in moments of the clock. */
export type Version = number[];

export interface Point { x: number; y: number }
export interface Extent { left: number; top: number; right: number; bottom: number }
export interface Rectangle { left: number; top: number; width: number; height: number }

export interface Look {
  op: string; name: string; d: string; f: string;
  /** Numbers of its layout, that of its weights, its category and class, and of the step that made it. */
  l: number; w: number; k: number; c: number; p: number;
  us: number | null; mb: number | null;
}

export type Anchor = Point & { id: string };

export interface Box extends Point {
  id: string;
  kind: "node" | "group" | "input" | "output" | "constant";
  w: number; h: number;
  /** The frame round it, or -1. */
  up: number;
  v: Version[];
  chip?: 1;
  open?: boolean; title?: string; same?: string; path?: string[];
  n?: number; mix?: number[]; inner?: number[][]; us?: number | null; d?: string;
  /** Found by Scene. */
  left: number; top: number;
}

export interface Edge {
  a: number; b: number;
  v: Version[];
  p?: number[]; n?: number; tick?: 1;
  /** Found by Scene. */
  extent: Extent;
}

export interface Step { title: string; pass?: string; first: number; rewrites: number; verdict?: string; ok?: boolean | null; facts?: string }
export interface Rewrite { s: string; c: string; b: number[]; g?: string; a?: string }

export interface RawScene {
  id: string; title: string; T: number; pair: number; nodes: number; width: number; height: number; target: string;
  steps: Step[]; rewrites: Rewrite[]; looks: Look[]; boxes: Box[]; edges: Edge[];
  words: string[]; categories: string[]; classes: string[];
  measured: { us: number[]; mb: number[] } | null;
}

/** A piece of a line in a box; `pill`: the colour behind it. */
export interface Piece { text: string; font: string; ink: string; pill?: string }

export interface LegendEntry {
  words: string;
  fill?: string; line?: string; border?: string;
  scale?: string[]; low?: string; high?: string;
}

/** What the inspector shows of a box; `workbench/view/inspection.py` makes it. */
export interface Inspected { id: string; title?: string; about?: string; sections?: Section[] }
export interface Section {
  title: string; open?: boolean; text?: string;
  head?: string[]; rows?: string[][];
  /** The moment of each row. */
  at?: number[];
  histogram?: Histogram;
  /** Pictures that are opened on request; in a report `svg` is a number, of `ViewData.drawings`. */
  drawings?: { words: string; about: string; svg: string | number }[];
  moments?: { t: number; words: string; what?: string }[];
}
export interface Histogram { low: number | string; high: number | string; counts: number[]; words?: string }

/** Hits of a search: ids with words; `n` numbers the answers. */
export interface Found { query: string; hits: [string, string][]; total: number; fault: string; n: number }

/** The user's own numbers; `fault`: why the last file was refused. */
export interface OwnNumbers { file?: string; sentence?: string; columns?: OwnColumn[]; fault: string; n: number }
/** `boxes`: [box, its number]; of a closed group the largest in it. Without boxes there are no ends. */
export interface OwnColumn { title: string; unit: string; low?: number; high?: number; boxes: [number, number][] }

/** What Python, or the report's table, tells the view. */
export interface ViewData {
  scene?: string; scene_id?: string;
  at?: { step: number; rewrite: number | null; panes?: number; n: number } | null; // panes: 0 for as they are
  show?: { id: string; whole?: boolean; n: number } | null; // whole: with the graph around it, not in the middle
  found?: Found | null;
  /** Hits in boxes of the scene: [box, from, to, number of hits]. */
  marks?: number[][];
  own?: OwnNumbers | null;
  drawings?: string[];
  inspector?: Inspected | null;
  height?: string; constants?: boolean; flat?: boolean;
  /** Views of the same name step together. */
  lockstep?: string;
  offers?: { constants: boolean; flat: boolean };
}

export interface Place { step: number | string; rewrite: number | string; node: string; query: string; hits: string }

/** What the view asks of Python, or of the report's table. */
export interface Outside {
  seen(place: { id: string; step: number | string; rewrite: number | string | null }): void;
  setOpen(id: string, open: boolean, all: boolean): void;
  find(query: string): void;
  reveal(id: string): void;
  constants(on: boolean): void;
  flat(on: boolean): void;
  stepInto(rewrite: number): void;
  /** A file of the user's own numbers; a report has none. */
  numbers?(file: string, text: string): void;
  /** What the address says of the query at first. */
  begin(): { query: string; hits: string };
  address(place: Place): void;
}

/** Keys as `combinationOf` writes them, what they do in words, the action. */
export type Key = [keys: string[], words: string, action: (view: View) => void];

/** What Streamlit gives a component (v2). */
export interface StreamlitComponent {
  key: string;
  data: ViewData;
  parentElement: HTMLElement & { host?: Element };
  setStateValue(name: string, value: unknown): void;
  setTriggerValue(name: string, value: unknown): void;
}

/** Texts, flags and listeners; nothing for what is left out. */
export type Attributes = Record<string, any>;

// Scene takes over all that Python sent.
declare module "./scene.js" {
  interface Scene extends RawScene {}
}

declare global {
  interface Window { graphWorkbench?: Record<string, object> }
}
