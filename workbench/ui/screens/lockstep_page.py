"""Lockstep: two pipelines of the open model side by side, stepped together rewrite by rewrite."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st

from workbench.errors import UserError
from workbench.pipeline import running as pipeline
from workbench.registry.contexts import pass_context
from workbench.rewrite import History
from workbench.ui.state.address import sides_in_address, write_sides
from workbench.ui.state.graph_views import shown_side
from workbench.ui.state.markdown import markdown_escaped
from workbench.ui.state.pipelines import keep_pipeline, offered_pipelines, spec_of, title_of
from workbench.ui.state.session import Opened, Spec, worker
from workbench.ui.state.shown_view import Shown
from workbench.ui.state.work import Report, forget_cancel, was_cancelled
from workbench.ui.widgets.graph_view import graph_view
from workbench.ui.widgets.numbers import above_table, download_button, shown_csv
from workbench.ui.widgets.parts import header, opened_here, show_error
from workbench.ui.widgets.profiles import choose_profile
from workbench.ui.widgets.progress import run_with_progress
from workbench.ui.widgets.tables import table
from workbench.view.diff import diff
from workbench.view.lockstep import in_lockstep
from workbench.view.matching import match_graphs, renamed

_SIDES = ("layout:record-then-insert", "layout:greedy")  # what is shown at first
_GRAPH = 430  # pixels of height
_JOB = "lockstep"


@dataclass(frozen=True)
class Sides:
    """Two histories of one model, as they ran, their views with one clock, and how the two results differ."""

    histories: tuple[History, History]
    shown: tuple[Shown, Shown]
    sentence: str


def lockstep_page() -> None:
    opened = opened_here()
    if opened is None:
        return
    header(opened)
    left, right, profile_place, edit, keep = st.columns([4, 4, 3, 2, 3], vertical_alignment="bottom")
    profile = choose_profile(profile_place, edit, lambda profile: profile.name)
    words = tuple(
        _choice(opened, place, label, key, start)
        for place, label, key, start in zip(
            (left, right), ("Left", "Right"), ("lockstep_left", "lockstep_right"), _starts(), strict=True
        )
    )
    write_sides(words[0], words[1], profile.name)
    if opened.spec is not None and keep.button(
        "Keep Optimize's pipeline",
        key="keep_pipeline",
        width="stretch",
        help="It stays in both lists when you change the passes on the page Optimize.",
    ):
        keep_pipeline(opened.spec)
        st.rerun()
    try:
        specs = (spec_of(opened, words[0], profile), spec_of(opened, words[1], profile))
    except UserError as error:
        show_error(error)
        return
    sides = _sides(opened, specs, (title_of(words[0]), title_of(words[1])))
    if sides is None:
        return
    st.caption(
        "Step either side: both show the same step and the same number of its rewrites. Left and right arrow keys go "
        "through rewrites, up and down through steps."
    )
    for place, number in zip(st.columns(2, gap="small"), (0, 1), strict=True):
        with place:
            st.markdown(f"**{markdown_escaped(title_of(words[number]))}**")
            graph_view(f"lockstep_{number}_{opened.number}", sides.shown[number], _GRAPH)
    _differences(sides, (title_of(words[0]), title_of(words[1])))


def _starts() -> tuple[str, str]:
    left, right = sides_in_address()
    return left or _SIDES[0], right or _SIDES[1]


def _choice(opened: Opened, place: Any, label: str, key: str, start: str) -> str:
    offered = offered_pipelines(opened, (st.session_state.get(key, ""), start))
    if st.session_state.get(key) not in offered:
        st.session_state[key] = start if start in offered else offered[0]
    return str(place.selectbox(label, offered, key=key, format_func=title_of, persist_state="session"))


def _sides(opened: Opened, specs: tuple[Spec, Spec], titles: tuple[str, str]) -> Sides | None:
    """Both pipelines run, in one job with progress; cached. None if cancelled or refused, which is said."""
    if was_cancelled(opened.jobs, _JOB):
        st.info("The two pipelines were cancelled; one that was done is kept.", icon=":material/block:")
        st.button("Run both pipelines", type="primary", on_click=forget_cancel, args=(opened.jobs, _JOB))
        return None
    try:
        result: Sides | None = opened.sides.get(
            specs,
            lambda: run_with_progress(
                opened.jobs, _JOB, "Lockstep", lambda r: _run(opened, specs, titles, r), worker(), wanted=specs
            ),
        )
        return result
    except UserError as error:
        show_error(error)
        return None


def _run(opened: Opened, specs: tuple[Spec, Spec], titles: tuple[str, str], report: Report) -> Sides:
    first, second = (
        opened.side_histories.get(spec, partial(_history, opened, spec, title, report))
        for spec, title in zip(specs, titles, strict=True)
    )
    report("placing both graphs", 1.0)
    aligned = in_lockstep(first, second)
    shown = tuple(
        shown_side(opened, history, f"{opened.title}, {title}", spec, f"lockstep_{opened.number}")
        for history, title, spec in zip(aligned, titles, specs, strict=True)
    )
    return Sides((first, second), (shown[0], shown[1]), _difference(first, second))


def _history(opened: Opened, spec: Spec, title: str, report: Report) -> History:
    if spec == opened.spec and opened.history is not None:
        return opened.history
    context = pass_context(spec.target, opened.verifier.worker, lambda words, _: report(words, None), mode=spec.mode)
    return pipeline.run_pipeline(
        opened.graph,
        spec.pipeline,
        context,
        on_progress=lambda at: report(f"{title}: {at.words}. {at.about}", at.share),
    )


def _difference(first: History, second: History) -> str:
    """How the two results differ, whatever names the pipelines gave to what they made."""
    correspondence = match_graphs(first.graph, second.graph)
    differ = diff(first.graph, renamed(second.graph, correspondence.pairs, first.graph))
    if differ.is_empty:
        return "Both pipelines end in the same graph."
    changed = f"; {len(differ.changed):,} of the corresponding nodes differ" if differ.changed else ""
    return f"The results differ: {correspondence.sentence}{changed}."


def _differences(sides: Sides, titles: tuple[str, str]) -> None:
    """What both results count, beside each other."""
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
    words, as_csv = above_table([8, 2])
    words.markdown(markdown_escaped(sides.sentence))
    download_button(as_csv, "CSV", shown_csv(rows), "lockstep.csv", "lockstep_csv")
    numbers = {title: st.column_config.NumberColumn(format="localized") for title in (*titles, "difference")}
    table(rows, numbers)


def _rewrites(history: History) -> int:
    return sum(len(step.rewrites) for step in history.steps)
