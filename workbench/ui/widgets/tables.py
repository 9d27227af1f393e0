"""Tables: five columns at first, the others by the eye in the table's own toolbar; a click can choose a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from workbench.ui.state.markdown import markdown_escaped

_MOST_COLUMNS = 5
_ROW, _HEAD = 26, 34  # pixels of a row, and of the header


def table(
    rows: Sequence[Mapping[str, Any]],
    columns: Mapping[str, Any] | None = None,
    *,
    first: Sequence[str] = (),
    most: int = 10,
    height: int | None = None,
    row_height: int = _ROW,
    key: str = "",
    on_click: Callable[[int], None] | None = None,
    says_more: bool = True,
    **how: Any,
) -> Any:
    """Draw a table, with "-" for a missing number; what it is called with as `how` goes to `st.dataframe`.

    columns: how columns are drawn, by name.
    first: the columns to see at first, by default the first _MOST_COLUMNS; the toolbar's eye shows the others.
    most: rows to see without scrolling, unless the height in pixels is given.
    says_more: whether a line below the table names the columns that are not seen.
    on_click: is called with the number of the row that was clicked; the table needs a key then.
    """

    def clicked() -> None:
        cells = st.session_state[key]["selection"]["cells"]
        if cells and on_click is not None:
            on_click(cells[0][0])

    if on_click is not None:
        how |= {"on_select": clicked, "selection_mode": "single-cell"}
    order = _order(rows, first)
    state = st.dataframe(
        rows,
        hide_index=True,
        row_height=row_height,
        height=height or table_height(len(rows), most, row_height),
        placeholder="-",
        column_config=dict(columns or {}),
        column_order=order,
        key=key or None,
        **how,
    )
    every = _names(rows)
    if says_more and order is not None and len(order) < len(every):
        more = ", ".join(name for name in every if name not in order)
        st.caption(markdown_escaped(f"Further columns, by the eye above the right end of the table: {more}."))
    return state


def table_height(rows: int, most: int, row_height: int = _ROW) -> int:
    """Height in pixels of a table of `rows` rows; one of more than `most` scrolls."""
    return _HEAD + row_height * min(rows, most)


def _order(rows: Sequence[Mapping[str, Any]], first: Sequence[str]) -> list[str] | None:
    """The columns to see at first; None for all."""
    every = _names(rows)
    return [name for name in first if name in every] or every[:_MOST_COLUMNS] or None


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))
