"""Tables that show five columns at first, and others on demand; a click can choose a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from workbench.interfaces.ui.state.markdown import markdown_escaped

_MAX_COLUMNS = 5
_ROW, _HEAD = 26, 34  # pixels of a row, and of the header


def table(
    rows: Sequence[Mapping[str, Any]],
    columns: Mapping[str, Any] | None = None,
    *,
    first: Sequence[str] = (),
    max_rows: int = 10,
    height: int | None = None,
    row_height: int = _ROW,
    key: str = "",
    on_click: Callable[[int], None] | None = None,
    says_more: bool = True,
    **options: Any,
) -> Any:
    """Draw a table, with "-" for a missing number; returns the state of `st.dataframe`.

    columns:   configurations of columns, by name.
    first:     the columns shown at first; by default the first _MAX_COLUMNS. The toolbar's eye shows the others.
    max_rows:  rows shown without scrolling, unless `height` is given, in pixels.
    says_more: whether a line below the table names the hidden columns.
    on_click:  is called with the number of the clicked row; requires a key.
    options:   further arguments of `st.dataframe`.
    """

    def clicked() -> None:
        cells = st.session_state[key]["selection"]["cells"]
        if cells and on_click is not None:
            on_click(cells[0][0])

    if on_click is not None:
        options |= {"on_select": clicked, "selection_mode": "single-cell"}
    order = _order(rows, first)
    state = st.dataframe(
        rows,
        hide_index=True,
        row_height=row_height,
        height=height or table_height(len(rows), max_rows, row_height),
        placeholder="-",
        column_config=dict(columns or {}),
        column_order=order,
        key=key or None,
        **options,
    )
    names = _names(rows)
    if says_more and order is not None and len(order) < len(names):
        hidden = ", ".join(name for name in names if name not in order)
        st.caption(markdown_escaped(f"Further columns, by the eye above the right end of the table: {hidden}."))
    return state


def table_height(rows: int, max_rows: int, row_height: int = _ROW) -> int:
    """The height in pixels of a table that shows at most `max_rows` of its rows."""
    return _HEAD + row_height * min(rows, max_rows)


def _order(rows: Sequence[Mapping[str, Any]], first: Sequence[str]) -> list[str] | None:
    """The columns that are shown at first; None: all."""
    names = _names(rows)
    return [name for name in first if name in names] or names[:_MAX_COLUMNS] or None


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))
