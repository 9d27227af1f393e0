"""Puts what the page wrote into the browser's address bar, in place of the present entry of its history."""

from __future__ import annotations

from typing import Any

import streamlit as st

from workbench.ui.state.address import written_address

_SCRIPT = """
const shown = new WeakMap(); // what was put there last, by element: the graph view writes too, while one steps
export default ({ data, parentElement }) => {
  const wanted = JSON.stringify(data);
  if (shown.get(parentElement) === wanted) return;
  shown.set(parentElement, wanted);
  const url = new URL(window.location.href);
  for (const [key, values] of Object.entries(data)) {
    url.searchParams.delete(key);
    for (const value of values) url.searchParams.append(key, value);
  }
  if (url.href !== window.location.href) window.history.replaceState(window.history.state, "", url);
};
"""


def address_bar(part: str) -> None:
    """Draw nothing, and put into the address what was written since the last call. part: its name in this run."""
    written: Any = written_address()
    st.components.v2.component("graph_workbench_address", js=_SCRIPT)(data=written, key=f"address_{part}", height=0)
