// @ts-check
// The component as Streamlit mounts it (Components v2): the same function for the first call and for every rerun.

import { putHook, removeHook } from "./test_api.js";
import { remember } from "./memory.js";
import { View } from "./view.js";

/** @import { Outside, Place, StreamlitComponent } from "./types.js" */

const views = new WeakMap(); // by the element that Streamlit keeps over reruns
const memories = new Map(); // by key: of views that were taken down

/** @param {StreamlitComponent} component */
export default function mount(component) {
  const { data, parentElement } = component;
  const key = keyOf(component);
  let mounted = views.get(parentElement);
  if (!mounted) {
    mounted = { component };
    mounted.view = new View(parentElement, streamlit(mounted), memories.get(key));
    views.set(parentElement, mounted);
    putHook(key, mounted.view);
  }
  mounted.component = component; // its functions belong to this rerun
  mounted.view.update(data);
  return () => {
    memories.set(key, remember(mounted.view) ?? mounted.view.memory); // taken down at once, it hands on what it began with
    mounted.view.destroy();
    views.delete(parentElement);
    removeHook(key);
  };
}

/** The key that the page gave it; Streamlit hands in one of its own, new with each mount, but names a class after it.
 * @param {StreamlitComponent} component */
function keyOf({ key, parentElement }) {
  const classes = /** @type {Iterable<string>} */ (parentElement.host?.closest('[class*="st-key-"]')?.classList ?? []);
  const named = [...classes].find((name) => name.startsWith("st-key-"));
  return named ? named.slice("st-key-".length) : key;
}

/** What the view asks of Python. @returns {Outside} @param {{ component: StreamlitComponent }} mounted */
function streamlit(mounted) {
  const trigger = (/** @type {string} */ name, /** @type {object} */ value) => mounted.component.setTriggerValue(name, value);
  return {
    seen: (place) => mounted.component.setStateValue("seen", place),
    setOpen: (id, open, all) => trigger("set_open", { id, open, all }),
    find: (query) => trigger("find", { query }),
    numbers: (file, text) => trigger("numbers", { file, text }),
    stepInto: (rewrite) => trigger("step_into", { rewrite }),
    reveal: (id) => trigger("reveal", { id }),
    constants: (on) => trigger("constants", { on }),
    flat: (on) => trigger("flat", { on }),
    begin: () => {
      const here = new URL(window.location.href).searchParams;
      return { query: here.get("query") ?? "", hits: here.get("hits") ?? "" };
    },
    address: writeQuery,
  };
}

/** The state of the view in the page's address, without a rerun; other keys of the query stay. @param {Place} state */
function writeQuery(state) {
  const url = new URL(window.location.href);
  for (const [name, value] of Object.entries(state)) {
    if (value === "") url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  if (url.href !== window.location.href) window.history.replaceState(window.history.state, "", url);
}
