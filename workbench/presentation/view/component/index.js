// @ts-check
// The entry for Streamlit (Components v2), which calls `mount` first and at every rerun.

import { putHook } from "./test_api.js";
import { PLAYER } from "./keys.js";
import { remember } from "./memory.js";
import { View } from "./view.js";

/** @import { Outside, AddressState, StreamlitComponent } from "./types.js" */

const views = new WeakMap(); // by parent element, which Streamlit keeps over reruns
const memories = new Map(); // by key: the state of unmounted views
const mountedLast = new Map(); // by key: the view that was mounted last

/** @param {StreamlitComponent} component */
export default function mount(component) {
  const { data, parentElement } = component;
  const key = keyOf(component);
  let mounted = views.get(parentElement);
  if (!mounted) {
    mounted = { component };
    const before = mountedLast.get(key); // a view drawn elsewhere on the page may still be there
    mounted.view = new View(parentElement, streamlit(mounted), (before && remember(before)) ?? memories.get(key));
    views.set(parentElement, mounted);
    mountedLast.set(key, mounted.view);
    mounted.removeHook = putHook(key, mounted.view);
  }
  mounted.view.root.classList.toggle(PLAYER, Boolean(data?.player));
  mounted.component = component; // its functions belong to this rerun
  mounted.view.update(data);
  return () => {
    memories.set(key, remember(mounted.view) ?? mounted.view.memory); // a view unmounted before its first scene passes on its own memory
    mounted.view.destroy();
    clearTimeout(toWrite.timer); // the address is that of another page now
    toWrite.timer = 0;
    views.delete(parentElement);
    if (mountedLast.get(key) === mounted.view) mountedLast.delete(key);
    mounted.removeHook();
  };
}

/** The key that the page gave the component, read from a class; Streamlit's `key` is new with each mount.
 * @param {StreamlitComponent} component */
function keyOf({ key, parentElement }) {
  const classes = /** @type {Iterable<string>} */ (parentElement.host?.closest('[class*="st-key-"]')?.classList ?? []);
  const named = [...classes].find((name) => name.startsWith("st-key-"));
  return named ? named.slice("st-key-".length) : key;
}

/** The view's requests to Python. @returns {Outside} @param {{ component: StreamlitComponent }} mounted */
function streamlit(mounted) {
  const trigger = (/** @type {string} */ name, /** @type {object} */ value) => mounted.component.setTriggerValue(name, value);
  return {
    seen: (place) => mounted.component.setStateValue("seen", place),
    setOpen: (id, open, all) => trigger("set_open", { id, open, all }),
    find: (query) => trigger("find", { query }),
    numbers: (file, text) => trigger("numbers", { file, text }),
    act: (label, id) => trigger("act", { label, id }),
    switchPass: (key) => trigger("switch", { key }),
    providers: () => trigger("providers", { asked: Date.now() }),
    stepInto: (rewrite) => trigger("step_into", { rewrite }),
    reveal: (id) => trigger("reveal", { id }),
    constants: (on) => trigger("constants", { on }),
    flat: (on) => trigger("flat", { on }),
    initialQuery: () => {
      const here = new URL(window.location.href).searchParams;
      return { query: here.get("query") ?? "", hits: here.get("hits") ?? "" };
    },
    address: (state) => mounted.component.data.player || writeQuery(state), // the address of a lesson is its stop
  };
}

const WRITES = 25; // writes of the address in WINDOW_MS without delay: browsers refuse more than 100 in 30 s
const WINDOW_MS = 10_000;
const DELAY_MS = 400;
const toWrite = { state: /** @type {AddressState | null} */ (null), timer: 0, times: /** @type {number[]} */ ([]) };

/** Writes the view's state into the page's address, without a rerun; other keys of the query stay. After many writes it
 * waits. @param {AddressState} state */
function writeQuery(state) {
  toWrite.state = state;
  toWrite.times = toWrite.times.filter((time) => time > performance.now() - WINDOW_MS);
  if (toWrite.times.length < WRITES) writeNow();
  else if (!toWrite.timer) toWrite.timer = setTimeout(writeNow, DELAY_MS);
}

function writeNow() {
  clearTimeout(toWrite.timer);
  toWrite.timer = 0;
  const url = new URL(window.location.href);
  for (const [name, value] of Object.entries(toWrite.state ?? {})) {
    if (value === "") url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  if (url.href === window.location.href) return;
  toWrite.times.push(performance.now());
  try {
    window.history.replaceState(window.history.state, "", url);
  } catch {
    toWrite.timer = setTimeout(writeNow, WINDOW_MS); // the browser refuses more writes for now
  }
}

window.addEventListener("pagehide", writeNow);
