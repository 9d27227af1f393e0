"""Rivals: the open model through every optimizer that is here, ours among them; a click compares a result with it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import streamlit as st

from workbench.errors import UserError, counted
from workbench.run.verdict_words import error_words, verdict_word
from workbench.study.compare_tools.comparing import ORIGINAL, Rival, RivalResult, compare_rivals, rivals_here
from workbench.ui.state.markdown import markdown_escaped
from workbench.ui.state.reducing import Reduced, reduce_fault
from workbench.ui.state.session import Opened, open_other, stop_checking, worker
from workbench.ui.state.work import Job, Report, forget_cancel
from workbench.ui.widgets.downloads import as_download
from workbench.ui.widgets.numbers import say_failures
from workbench.ui.widgets.parts import header, opened_here, opening, show_error
from workbench.ui.widgets.progress import result_if_any
from workbench.ui.widgets.tables import table

_JOB, _REDUCING = "rivals", "reduce"
_MOST_AS_TEXT = 20  # nodes
_FIRST = ["tool", "nodes", "time (s)", "result", "latency (ms)"]
_COLUMNS = {
    "nodes": st.column_config.NumberColumn(format="localized", help="Operators, those of bodies and functions too."),
    "time (s)": st.column_config.NumberColumn(
        format="%.2f", help="From the call to the file written, in a process of its own; the tool's import counts."
    ),
    "peak (MB)": st.column_config.NumberColumn(format="%.0f", help="Largest resident memory of that process."),
    "max error": st.column_config.TextColumn(help="Relative to ONNX Runtime on your file, unoptimized."),
    "result": st.column_config.TextColumn(help="Whether the tool's file computes what your file computes."),
    "latency (ms)": st.column_config.NumberColumn(
        format="%.3f", help="Median in ONNX Runtime with all its optimizations, on the CPU, by turns with the others."
    ),
}


def rivals_page(compare: Any) -> None:
    """compare: the page on which a result is compared with the open model."""
    opened = opened_here()
    if opened is None:
        return
    where, start = st.columns([10, 2], vertical_alignment="center")
    with where:
        header(opened)
    if start.button("Run all tools", type="primary", width="stretch", key="run_rivals"):
        _start(opened)
    try:
        result_if_any(opened.jobs, _JOB, "It was cancelled; the results so far are kept.")
    except UserError as error:
        show_error(error)
    if not opened.rivals:
        st.caption(_about())
        return
    _table(opened)
    _reports(opened)
    asked = st.session_state.pop(_asked(opened), None)
    if asked is not None:
        _compare(opened, opened.rivals[asked], compare)


def _about() -> str:
    here = rivals_here()
    names = ", ".join(rival.name for rival in here if rival.call is not None and not rival.missing)
    missing = "".join(f" {markdown_escaped(rival.name)}: {rival.missing}." for rival in here if rival.missing)
    return (
        f"Runs on your file, each in a process of its own: {markdown_escaped(names)}. Results are compared with your "
        f"file, and their latencies are measured by turns.{missing}"
    )


def _start(opened: Opened) -> None:
    forget_cancel(opened.jobs, _JOB)
    if opened.rivals_folder is None:
        opened.rivals_folder = tempfile.TemporaryDirectory(prefix="workbench-rivals-")
    opened.rivals.clear()
    opened.reduced.clear()
    finish = Event()
    title = f"Other tools on {opened.title}"
    work = partial(_run, opened, Path(opened.rivals_folder.name), finish)
    opened.jobs.start(_JOB, Job(work, worker(), "cpu", title, finish=finish))


def _run(opened: Opened, folder: Path, finish: Event, report: Report) -> None:
    stop_checking(opened)  # comparisons of its steps would disturb the measurement; Optimize goes on with them
    verifier, rivals = opened.verifier, rivals_here()
    compare_rivals(
        opened.graph, rivals, folder, verifier, on_share=report, found=opened.rivals, is_enough=finish.is_set
    )


def _table(opened: Opened) -> None:
    names = list(opened.rivals)

    def choose(row: int) -> None:
        st.session_state[_asked(opened)] = names[row]

    rows = [result.row() for result in opened.rivals.values()]
    key = f"rivals_{opened.number}"
    table([*map(_row, rows)], _COLUMNS, first=_FIRST, most=len(rows), says_more=False, key=key, on_click=choose)
    st.caption(
        "Click a tool to see its result beside your model on the page Compare. The eye above the right end of the "
        "table shows all columns. To see what a tool changed rewrite by rewrite, switch its pass on on Optimize."
    )
    say_failures([(row["tool"], row["failed"]) for row in rows if row["failed"]])


def _reports(opened: Opened) -> None:
    """The smallest part of the model on which a tool is wrong or fails, to be filed with the tool's maintainers."""
    faulty = [one for one in opened.rivals.values() if one.is_faulty]
    try:
        result = result_if_any(opened.jobs, _REDUCING, "It was cancelled.")
    except UserError as error:
        show_error(error)
        result = None
    if result is not None:
        name, reduced = result
        opened.reduced[name] = reduced
    for one in faulty:
        _report(opened, one.rival, opened.reduced.get(one.rival.name))


def _report(opened: Opened, rival: Rival, reduced: Reduced | None) -> None:
    words, act = st.columns([10, 2], vertical_alignment="center")
    name = markdown_escaped(rival.name)
    if reduced is None:
        words.markdown(f"**{name}**: find the smallest part of the model that shows this, for a report of the defect.")
        if act.button("Reduce", key=f"reduce_{rival.name}", width="stretch"):
            forget_cancel(opened.jobs, _REDUCING)
            finish = Event()
            work = partial(_reduce, opened, rival, finish)
            title = f"Cutting the model down for {rival.name}"
            opened.jobs.start(_REDUCING, Job(work, worker(), title=title, finish=finish))
            st.rerun()
        return
    nodes = f"**{reduced.nodes:,} of {reduced.before:,} nodes** show the fault of {name}"
    words.markdown(f"{nodes} ({counted(reduced.asked, 'candidate')} asked). {markdown_escaped(reduced.said)}")
    act.download_button(
        "Report (zip)",
        as_download(reduced.files),
        f"{Path(opened.path).stem}_{rival.file_stem}.zip",
        "application/zip",
        key=f"report_{rival.name}",
        width="stretch",
        on_click="ignore",
        help="The part as a model, its inputs, and the command that shows the fault again.",
    )
    if reduced.nodes <= _MOST_AS_TEXT:
        st.code(reduced.text, language=None)


def _reduce(opened: Opened, rival: Rival, finish: Event, report: Report) -> tuple[str, Reduced] | None:
    reduced = reduce_fault(opened, rival, finish, report)
    return None if reduced is None else (rival.name, reduced)


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "tool": row["tool"],
        "nodes": row["nodes"],
        "time (s)": row["seconds"],
        "result": "failed" if row["nodes"] is None else verdict_word(row["equal"]),
        "latency (ms)": row["median_ms"],
        "max error": "-" if row["max_rel_error"] is None else error_words(row["max_rel_error"]),
        "peak (MB)": None if row["peak_bytes"] is None else row["peak_bytes"] / 1e6,
        "version": row["version"] or "-",
    }


def _compare(opened: Opened, result: RivalResult, compare: Any) -> None:
    if result.file is None or result.rival.name == ORIGINAL:
        return
    title = f"{opened.title} by {result.rival.name}"
    if opening(partial(open_other, opened, str(result.file), opened.rivals_folder, title), "Comparing"):
        st.switch_page(compare)


def _asked(opened: Opened) -> str:
    return f"rival_asked_{opened.number}"
