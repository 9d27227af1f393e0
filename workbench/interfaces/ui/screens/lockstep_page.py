"""The page Lockstep: two pipelines of the open model side by side, stepped together rewrite by rewrite."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import streamlit as st

from workbench.errors import UserError
from workbench.interfaces.ui.state.address import other_in_address, sides_in_address, write_other, write_sides
from workbench.interfaces.ui.state.graph_views import shown_side
from workbench.interfaces.ui.state.histories import history_beside
from workbench.interfaces.ui.state.lru import Recent
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.model_state import ModelState
from workbench.interfaces.ui.state.pipelines import keep_pipeline, offered_pipelines, spec_of, title_of
from workbench.interfaces.ui.state.session import Opened, OtherModel, Spec, open_other_in_address, worker
from workbench.interfaces.ui.state.shown_view import Shown
from workbench.interfaces.ui.state.work import Report, forget_cancel, was_cancelled
from workbench.interfaces.ui.widgets.graph_view import graph_view
from workbench.interfaces.ui.widgets.linked_pipeline import optimized_here
from workbench.interfaces.ui.widgets.numbers import above_table, download_button, shown_csv
from workbench.interfaces.ui.widgets.parts import header, opening, show_error
from workbench.interfaces.ui.widgets.profiles import choose_profile
from workbench.interfaces.ui.widgets.progress import run_with_progress
from workbench.interfaces.ui.widgets.tables import table
from workbench.presentation.view.diff import diff
from workbench.presentation.view.lockstep import in_lockstep
from workbench.presentation.view.matching import match_graphs, with_names_of
from workbench.rewrite import History

_SIDES = ("layout:record-then-insert", "layout:greedy")  # keys of the pipelines that are shown at first
_GRAPH = 470  # pixels of height, which style.css keeps free while a view is loaded
_JOB = "lockstep"
_MAX_SIDES = 2


@dataclass(frozen=True)
class Sides:
    """Two histories of one model, their views, which step together, and a sentence on how the results differ."""

    histories: tuple[History, History]
    shown: tuple[Shown, Shown]
    sentence: str


@dataclass
class ShownSides(ModelState):
    """The most recent pairs of pipelines."""

    recent: Recent[Sides] = field(default_factory=lambda: Recent(_MAX_SIDES))


def lockstep_page() -> None:
    opened = optimized_here()
    if opened is None:
        return
    header(opened)
    if opened.other is None and other_in_address():
        opening(partial(open_other_in_address, opened, other_in_address()), "Opening the other file")
    left, right, profile_column, edit, keep = st.columns([4, 4, 3, 2, 3], vertical_alignment="bottom")
    profile = choose_profile(profile_column, edit, lambda profile: profile.name)
    keys = tuple(
        _choice(opened, column, label, key, start)
        for column, label, key, start in zip(
            (left, right), ("Left", "Right"), ("lockstep_left", "lockstep_right"), _initial_keys(), strict=True
        )
    )
    write_sides(keys[0], keys[1], profile.name)
    if opened.spec is not None and keep.button(
        "Keep Optimize's pipeline",
        key="keep_pipeline",
        width="stretch",
        help="It stays in both lists when you change the passes on the page Optimize.",
    ):
        keep_pipeline(opened.spec)
        st.rerun()
    try:
        specs = (spec_of(opened, keys[0], profile), spec_of(opened, keys[1], profile))
    except UserError as error:
        show_error(error)
        return
    other = _file_at_the_right(opened)
    titles = (title_of(keys[0]), title_of(keys[1]))
    if other is not None:
        titles = (f"{opened.title}, {titles[0]}", f"{other.title}, {titles[1]}")
    sides = _sides(opened, specs, titles, other)
    if sides is None:
        return
    st.caption(
        "Step either side: both show the same step and the same number of its rewrites. Left and right arrow keys go "
        "through rewrites, up and down through steps."
    )
    for column, number in zip(st.columns(2, gap="small"), (0, 1), strict=True):
        with column:
            st.markdown(f"**{markdown_escaped(titles[number])}**")
            graph_view(f"lockstep_{number}_{opened.number}", sides.shown[number], _GRAPH)
    _differences(sides, titles)


def _file_at_the_right(opened: Opened) -> OtherModel | None:
    """The other file of Compare, if there is one and it is chosen for the right side; None for the open model."""
    other = opened.other
    if other is None:
        return None
    write_other(other.address)
    is_other = st.toggle(
        markdown_escaped(f"Right side: {other.title}, the other file of Compare"),
        value=True,
        key=f"lockstep_other_{other.number}",
        help="Switched off, both sides are pipelines of the open model.",
    )
    return other if is_other else None


def _initial_keys() -> tuple[str, str]:
    left, right = sides_in_address()
    return left or _SIDES[0], right or _SIDES[1]


def _choice(opened: Opened, column: Any, label: str, key: str, start: str) -> str:
    offered = offered_pipelines(opened, (st.session_state.get(key, ""), start))
    if st.session_state.get(key) not in offered:
        st.session_state[key] = start if start in offered else offered[0]
    return str(column.selectbox(label, offered, key=key, format_func=title_of, persist_state="session"))


def _sides(opened: Opened, specs: tuple[Spec, Spec], titles: tuple[str, str], other: OtherModel | None) -> Sides | None:
    """Run both pipelines in one job; cached. None if that was cancelled or refused, which is shown.

    other: the file of the second pipeline; None for the open model.
    """
    request = (*specs, None if other is None else other.number)
    work = partial(_run, opened, specs, titles, other)
    if was_cancelled(opened.jobs, _JOB):
        st.info("The two pipelines were cancelled; one that was done is kept.", icon=":material/block:")
        st.button("Run both pipelines", type="primary", on_click=forget_cancel, args=(opened.jobs, _JOB))
        return None
    try:
        return opened.state(ShownSides).recent.get(
            request,
            lambda: run_with_progress(opened.jobs, _JOB, "Lockstep", work, worker(), request=request),
        )
    except UserError as error:
        show_error(error)
        return None


def _run(
    opened: Opened, specs: tuple[Spec, Spec], titles: tuple[str, str], other: OtherModel | None, report: Report
) -> Sides:
    first, second = (
        history_beside(opened, spec, title, report, model)
        for spec, title, model in zip(specs, titles, (None, other), strict=True)
    )
    report("placing both graphs", 1.0)
    aligned = in_lockstep(first, second)
    shown = tuple(
        shown_side(opened, history, f"{opened.title}, {title}", spec, f"lockstep_{opened.number}")
        for history, title, spec in zip(aligned, titles, specs, strict=True)
    )
    return Sides((first, second), (shown[0], shown[1]), _difference(first, second))


def _difference(first: History, second: History) -> str:
    """How the two results differ; nodes correspond by structure, since pipelines name new nodes differently."""
    correspondence = match_graphs(first.graph, second.graph)
    changes = diff(first.graph, with_names_of(first.graph, second.graph, correspondence.pairs))
    if changes.is_empty:
        return "Both pipelines end in the same graph."
    changed = f"; {len(changes.changed):,} of the corresponding nodes differ" if changes.changed else ""
    return f"The results differ: {correspondence.sentence}{changed}."


def _differences(sides: Sides, titles: tuple[str, str]) -> None:
    """Draw a table with the counts of both results."""
    first, second = sides.histories
    counts: dict[str, tuple[int | None, int | None]] = {"rewrites": (_rewrites(first), _rewrites(second))}
    for name, number in first.steps[-1].after.items():
        counts[name] = (number, second.steps[-1].after[name])
    rows = [
        {
            "": name.replace("_", " "),
            titles[0]: a,
            titles[1]: b,
            "difference": None if a is None or b is None else b - a,
        }
        for name, (a, b) in counts.items()
    ]
    keys, as_csv = above_table([8, 2])
    keys.markdown(markdown_escaped(sides.sentence))
    download_button(as_csv, "CSV", shown_csv(rows), "lockstep.csv", "lockstep_csv")
    numbers = {title: st.column_config.NumberColumn(format="localized") for title in (*titles, "difference")}
    table(rows, numbers)


def _rewrites(history: History) -> int:
    return sum(len(step.rewrites) for step in history.steps)
