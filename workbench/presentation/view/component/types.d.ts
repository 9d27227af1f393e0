// Types for `tsc`, which checks the modules. No browser reads this file.
// docs/view.md describes the scene's format.

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
/** What the user chose in a view. */
export type Choices = Pick<View, "colouring" | "panes" | "selected" | "hops" | "wheelZooms" | "pageKeys" | "inspectorOpen" | "onlyHits">;
export type Memory = ReturnType<typeof remember>;

/** [from, to, ...]: what holds from moment `from` until before moment `to`. */
export type Version = number[];

export interface Point { x: number; y: number }
export interface Extent { left: number; top: number; right: number; bottom: number }
export interface Rectangle { left: number; top: number; width: number; height: number }

export interface Look {
  op: string; name: string; d: string; f: string; x: string; t: number;
  /** Numbers of its layout, its weights' layout, its category, its class, its module, its provider, and the step that inserted it. */
  l: number; w: number; k: number; c: number; m: number; e: number; p: number;
  us: number | null; us0: number | null; mb: number | null;
}

export type Anchor = Point & { id: string };

export interface Box extends Point {
  id: string;
  kind: "node" | "group" | "input" | "output" | "constant";
  w: number; h: number;
  /** The frame around it, or -1. */
  up: number;
  v: Version[];
  chip?: 1;
  open?: boolean; title?: string; same?: string; path?: string[];
  /** Of a group: [look, number] of the nodes that never change, and [from, to, node, look] of the others. */
  still?: [number, number][]; inner?: number[][];
  /** Of a group, in the first and in the last graph: its time, the largest memory of a node, its percentage of the FLOPs. */
  us?: (number | null)[] | null; mb?: (number | null)[] | null; flops?: number[] | null;
  /** Found by Scene. */
  left: number; top: number;
}

export interface Edge {
  a: number; b: number;
  v: Version[];
  /** Found by Scene where Python sends none. */
  p: number[];
  n?: number; tick?: 1;
  /** Found by Scene. */
  extent: Extent;
}

export interface Step { title: string; pass?: string; first: number; rewrites: number; verdict?: string; ok?: boolean | null; facts?: string }
export interface Rewrite { s: string; c: string; b: number[]; g?: string; a?: string }

export interface RawScene {
  id: string; title: string; T: number; pair: number; nodes: number; width: number; height: number; target: string; own: boolean;
  steps: Step[]; rewrites: Rewrite[]; looks: Look[]; boxes: Box[]; edges: Edge[];
  words: string[]; widths: string[]; categories: string[]; types: string[]; classes: string[]; modules: string[]; providers: string[];
  measured: { us: number[]; mb: number[]; totals: (number | null)[]; backend: string } | null;
}

/** A piece of a line in a box. */
export interface Piece { text: string; font: string; ink: string }

export interface LegendEntry {
  text: string;
  fill?: string; line?: string; border?: string;
  scale?: string[]; low?: string; high?: string;
}

/** The inspector's content for a box, from `workbench/presentation/view/inspection.py`. */
export interface Inspected { id: string; title?: string; about?: string; sections?: Section[] }
export interface Section {
  title: string; open?: boolean; text?: string;
  head?: string[]; rows?: string[][];
  /** The moment of each row. */
  at?: number[];
  histogram?: Histogram;
  /** Pictures that are opened on request; in a report, `svg` is an index into `ViewData.drawings`. */
  drawings?: DrawingEntry[];
  moments?: MomentEntry[];
}
export interface DrawingEntry { words: string; about: string; svg: string | number }
export interface MomentEntry { t: number; words: string; what?: string }
export interface Histogram { low: number | string; high: number | string; counts: number[]; words?: string }

/** The answer to a query. hits: [id, text]; n: the answer's number. */
export interface Found { query: string; hits: [string, string][]; total: number; fault: string; n: number }

/** The user's own numbers; fault: why the last file was refused. */
/** computed: the newest are the page's, and a view that is drawn anew is coloured by them too. */
export interface OwnNumbers { sentence: string; columns: OwnColumn[]; fault: string; computed: boolean; n: number }
/** boxes: [box, its shade from 0 to 1, its number as text], for a closed group of the largest number in it. */
export interface OwnColumn { title: string; unit: string; origin: string; note: string; low: string; high: string; boxes: [number, number, string][] }

/** The view's data from Python or from the report's tables. */
export interface ViewData {
  /** The key of a control that draws something else in place of the view. */
  replaced_by?: string;
  /** What the scene shows, known before it is unpacked: two graphs, one graph, or a history (""). */
  form?: "pair" | "still" | "";
  /** Passes that the page can switch: key, title, whether it is on. */
  switches?: [string, string, boolean][];
  /** What the page can do with the selected box, by label. */
  actions?: string[];
  scene?: string; scene_id?: string;
  at?: { step: number; rewrite: number | null; panes?: number; n: number } | null; // panes: 0 keeps their number
  show?: { id: string; frame?: string[]; n: number } | null; // frame: ids of boxes that are kept in sight, [] for all
  places?: number[]; // rewrites of one kind, which the minimap marks
  query?: { query: string; n: number } | null; // the hits are coloured
  found?: Found | null;
  /** Hits in boxes of the scene: [box, from, to, number of hits]. */
  marks?: number[][];
  own?: OwnNumbers | null;
  /** The last question for ONNX Runtime's providers, and whether it can be asked. */
  placed?: { n: number; fault: string } | null; placeable?: boolean;
  drawings?: string[];
  inspector?: Inspected | null;
  /** Why the inspector has no texts; "" if it has. */
  absent?: string;
  height?: string; constants?: boolean; flat?: boolean;
  /** Views of the same name step together. */
  lockstep?: string;
  /** The picture of a lesson: without controls, and without the inspector. */
  player?: boolean;
  offers?: { constants: boolean; flat: boolean };
}

/** By kind, the number of Python's last request; none before the first. */
export type Seen = Partial<Record<"at" | "show" | "query" | "own" | "placed", number>>;

export interface AddressState { step: number | string; rewrite: number | string; node: string; query: string; hits: string }

/** The view's requests to Python or to the report's tables. */
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
  /** Asks where ONNX Runtime runs the nodes; a report cannot. */
  act?(label: string, id: string): void;
  switchPass?(key: string): void;
  providers?(): void;
  /** The query in the page's address, and how its hits are shown. */
  initialQuery(): { query: string; hits: string };
  address(state: AddressState): void;
}

/** Keys in the form of `combinationOf`, their text in the help, the action. */
export type Key = [keys: string[], text: string, action: (view: View) => void];

/** Streamlit's argument for the palette of a page. */
export interface PageComponent {
  data: { pages: [path: string, text: string][] };
  parentElement: HTMLElement;
  setTriggerValue(name: string, value: unknown): void;
}

/** Streamlit's argument for a component (v2). */
export interface StreamlitComponent {
  key: string;
  data: ViewData;
  parentElement: HTMLElement & { host?: Element };
  setStateValue(name: string, value: unknown): void;
  setTriggerValue(name: string, value: unknown): void;
}

/** Texts, flags and listeners; null, undefined and false are left out. */
export type Attributes = Record<string, any>;

// Scene has all fields of the raw scene.
declare module "./scene.js" {
  interface Scene extends RawScene {}
}

declare global {
  interface Window { graphWorkbench?: Record<string, object> }
}
