"""Layouts: every strategy on the open model, side by side; any of them to Optimize, any two against each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from workbench.api import DEFAULT_TARGET, LaidOut
from workbench.cli import verdict_word
from workbench.errors import UserError
from workbench.layout.infer import infer_layouts
from workbench.layout.profile import load_profile, profile_names
from workbench.ui.parts import header, legend, opened_here, picture, plain, show_error
from workbench.ui.session import Opened, layouts_of, worker
from workbench.ui.work import forget_cancel, run_with_progress
from workbench.view.diff import diff
from workbench.view.picture import draw

_AS_IT_IS = "leave as it is"
_COLUMNS = {
    "transposes": st.column_config.NumberColumn(format="localized"),
    "elements": st.column_config.NumberColumn("elements moved", format="localized"),
    "bytes": st.column_config.NumberColumn("bytes moved", format="localized"),
    "bound": st.column_config.TextColumn("bound (bytes)", help="No choice between the two layouts moves less."),
    "seconds": st.column_config.TextColumn("time (s)", alignment="right", help="What the strategy took."),
    "error": st.column_config.TextColumn("max relative error", help="Against ONNX Runtime on the original file."),
    "verdict": st.column_config.TextColumn(help="Does the result still compute what the original computes?"),
}


def layouts_page() -> None:
    opened = opened_here()
    if opened is None:
        return
    header(opened)
    choose, start = st.columns([5, 2], vertical_alignment="bottom")
    names = profile_names()
    target = choose.selectbox(
        "Profile",
        names,
        index=names.index(DEFAULT_TARGET),
        key="target",
        format_func=lambda name: f"{name}: {load_profile(name).title}",
        persist_state="session",
    )
    wanted = start.button("Compare all strategies", type="primary", width="stretch")
    found = opened.laid_out.get(target)
    if found is None and not wanted:
        st.caption("Every strategy runs on the default list of passes; each result is compared with the original.")
        return
    if found is None:
        found = _compared(opened, target)
    if found is not None:
        _table(opened, found)
        _two(opened, target, found)


def _compared(opened: Opened, target: str) -> Mapping[str, LaidOut] | None:
    forget_cancel("layouts")
    try:
        return run_with_progress("Layouts", lambda report: layouts_of(opened, target, report), worker(), "layouts")
    except UserError as error:
        show_error(error)
        return None


def _table(opened: Opened, found: Mapping[str, LaidOut]) -> None:
    """A row a strategy; a click chooses it for Optimize."""
    names = list(found)
    key = f"layouts_{opened.number}"

    def clicked() -> None:
        cells = st.session_state[key]["selection"]["cells"]
        if cells:
            st.session_state["strategy"] = names[cells[0][0]]

    st.dataframe(
        [_row(name, laid_out) for name, laid_out in found.items()],
        hide_index=True,
        row_height=24,
        column_config=_COLUMNS,
        key=key,
        on_select=clicked,
        selection_mode="single-cell",
    )
    chosen = st.session_state.get("strategy", "none")
    st.caption(plain(f"Click a strategy to see its steps on the page Optimize; chosen there now: {_word(chosen)}."))


def _row(name: str, laid_out: LaidOut) -> dict[str, Any]:
    row = laid_out.row()
    bound = "-" if row["lower_bound"] is None else f"{row['lower_bound']:,}{', reached' if row['certified'] else ''}"
    return {
        "strategy": _word(name),
        "transposes": row["transposes"],
        "elements": row["elements_moved"],
        "bytes": row["bytes_moved"],
        "bound": bound,
        "seconds": "-" if row["seconds"] is None else f"{row['seconds']:.2f}",
        "error": "-" if row["max_rel_error"] is None else f"{row['max_rel_error']:.1e}",
        "verdict": verdict_word(row["verified"]),
    }


def _two(opened: Opened, target: str, found: Mapping[str, LaidOut]) -> None:
    """Two results side by side, what differs marked."""
    names = list(found)
    sides = st.columns(2, gap="small")
    keys = (f"layouts_left_{opened.number}", f"layouts_right_{opened.number}")
    left, right = (
        side.selectbox(words, names, index=start, key=key, format_func=_word)
        for side, words, start, key in zip(sides, ("This", "against"), (0, names.index("optimal")), keys, strict=True)
    )
    first, second = found[left].history.graph, found[right].history.graph
    marks = diff(first, second)
    profile = load_profile(target)
    legend(profile)
    shown = zip(st.columns(2, gap="small"), ("before", "after"), (left, right), (first, second), strict=True)
    for place, key, name, graph in shown:
        with place:
            picture(key, _word(name), draw(graph, infer_layouts(graph), profile, marks=marks), 250)


def _word(name: str) -> str:
    return _AS_IT_IS if name == "none" else name
