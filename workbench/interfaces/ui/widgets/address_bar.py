"""Shows the page's state in the browser's address bar, replacing the present entry of its history."""

from __future__ import annotations

from typing import Any

import streamlit as st

from workbench.interfaces.ui.state.address import written_address

_SCRIPT = """
const shown = new WeakMap(); // by element, the data that was written last; during stepping the graph view writes too
export default ({ data, parentElement }) => {
  const text = JSON.stringify(data);
  if (shown.get(parentElement) === text) return;
  shown.set(parentElement, text);
  const url = new URL(window.location.href);
  for (const [key, values] of Object.entries(data)) {
    url.searchParams.delete(key);
    for (const value of values) url.searchParams.append(key, value);
  }
  if (url.href !== window.location.href) window.history.replaceState(window.history.state, "", url);
};
"""


def address_bar(part: str) -> None:
    """Put into the address bar what was written since the last call. part: names this call in a run of the page."""
    written: Any = written_address()
    st.components.v2.component("graph_workbench_address", js=_SCRIPT)(data=written, key=f"address_{part}", height=0)
