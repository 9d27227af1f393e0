"""The page Compare tools: all optimizers, ours among them, on the open model; a click compares a result with it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import streamlit as st

from workbench.errors import UserError, counted
from workbench.interfaces.study.compare_tools.comparing import (
    ORIGINAL,
    ComparedTool,
    ToolOutcome,
    comparable_tools,
    compare_tools,
    notes_on,
)
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.model_state import ModelState
from workbench.interfaces.ui.state.reducing import Reduced, reduce_fault
from workbench.interfaces.ui.state.session import Opened, open_other, stop_checking, worker
from workbench.interfaces.ui.state.work import Job, Report, forget_cancel
from workbench.interfaces.ui.widgets.downloads import as_download
from workbench.interfaces.ui.widgets.linked_pipeline import optimized_here
from workbench.interfaces.ui.widgets.numbers import ratio_interval, say_failures
from workbench.interfaces.ui.widgets.parts import header, opening, show_error
from workbench.interfaces.ui.widgets.progress import result_if_any
from workbench.interfaces.ui.widgets.tables import table
from workbench.run.verdict_words import relative_error_text, verdict_label
from workbench.support.extras import adding

_JOB, _REDUCING = "compare_tools", "reduce"
_MAX_NODES_AS_TEXT = 20  # nodes
_FIRST = ["tool", "nodes", "time (s)", "result", "median (ms)", "min (ms)", "ratio", "ratio, 95 % interval"]
_COLUMNS = {
    "nodes": st.column_config.NumberColumn(
        format="localized", help="Operators, with those in subgraphs and functions."
    ),
    "time (s)": st.column_config.NumberColumn(
        format="%.2f", help="From the call to the written file, in its own process; includes the tool's import."
    ),
    "peak (MB)": st.column_config.NumberColumn(format="%.0f", help="Largest resident memory of that process."),
    "max error": st.column_config.TextColumn(help="Relative to ONNX Runtime on your file, unoptimized."),
    "result": st.column_config.TextColumn(help="Whether the tool's file computes what your file computes."),
    "median (ms)": st.column_config.NumberColumn(
        format="%.3f", help="In ONNX Runtime with all its optimizations on the CPU, interleaved with the others."
    ),
    "min (ms)": st.column_config.NumberColumn(format="%.3f", help="Least of the same runs."),
    "ratio": st.column_config.NumberColumn(format="%.3f", help="Of the median to that of the original."),
}


@dataclass
class ComparedTools(ModelState):
    """The results of other tools and the reductions of their faults, by the tool's name. folder: of their files."""

    outlives_inputs = True

    results: dict[str, ToolOutcome] = field(default_factory=dict)
    reduced: dict[str, Reduced] = field(default_factory=dict)
    folder: tempfile.TemporaryDirectory[str] = field(
        default_factory=lambda: tempfile.TemporaryDirectory(prefix="workbench-tools-")
    )


def compare_tools_page(compare: Any) -> None:
    """compare: the page on which a result is compared with the open model."""
    opened = optimized_here()
    if opened is None:
        return
    top, start = st.columns([10, 2], vertical_alignment="center")
    with top:
        header(opened)
    if start.button("Run all tools", type="primary", width="stretch", key="run_tools"):
        _start(opened)
    try:
        result_if_any(opened.jobs, _JOB, "It was cancelled; the results so far are kept.")
    except UserError as error:
        show_error(error)
    tools = opened.state(ComparedTools)
    if not tools.results:
        st.caption(_about())
        return
    _table(opened)
    _reports(opened)
    chosen = st.session_state.pop(_choice_key(opened), None)
    if chosen is not None:
        _compare(opened, tools.results[chosen], compare)


def _about() -> str:
    known = comparable_tools()
    names = ", ".join(tool.name for tool in known if tool.call is not None and not tool.missing)
    absent = ", ".join(tool.name for tool in known if tool.missing)
    missing = f" {markdown_escaped(absent)}: not installed; {adding('rivals')} adds them." if absent else ""
    return (
        f"These run on your file, each in its own process: {markdown_escaped(names)}. Their results are compared with "
        f"your file, and their latencies are measured, interleaved.{missing}"
    )


def _start(opened: Opened) -> None:
    forget_cancel(opened.jobs, _JOB)
    tools = opened.state(ComparedTools)
    tools.results.clear()
    tools.reduced.clear()
    finish = Event()
    title = f"Other tools on {opened.title}"
    work = partial(_run, opened, tools, finish)
    opened.jobs.start(_JOB, Job(work, worker(), "cpu", title, finish=finish))


def _run(opened: Opened, tools: ComparedTools, finish: Event, report: Report) -> None:
    stop_checking(opened)  # it would disturb the measurement; Optimize continues it
    compare_tools(
        opened.graph,
        comparable_tools(),
        Path(tools.folder.name),
        opened.verifier,
        on_progress=report,
        results=tools.results,
        is_enough=finish.is_set,
    )


def _table(opened: Opened) -> None:
    results = opened.state(ComparedTools).results
    names = list(results)

    def choose(row: int) -> None:
        st.session_state[_choice_key(opened)] = names[row]

    rows = [result.row() for result in results.values()]
    key = f"compared_tools_{opened.number}"
    notes = notes_on(results)
    for note in notes:
        st.caption(markdown_escaped(note))
    hidden = () if notes else ("min (ms)",)  # shown where the notes advise it
    first = [column for column in _FIRST if column not in hidden]
    table([*map(_row, rows)], _COLUMNS, first=first, max_rows=len(rows), says_more=False, key=key, on_click=choose)
    st.caption(
        "Click a tool to see its result beside your model on the page Compare. The eye above the right end of the "
        "table shows all columns. To see a tool's changes rewrite by rewrite, switch on its pass on Optimize."
    )
    say_failures([(row["tool"], row["failed"]) for row in rows if row["failed"]])


def _reports(opened: Opened) -> None:
    """Draw, for each faulty tool, the reduction of the model to a report for the tool's maintainers."""
    tools = opened.state(ComparedTools)
    faulty = [one for one in tools.results.values() if one.is_faulty]
    try:
        result = result_if_any(opened.jobs, _REDUCING, "It was cancelled.")
    except UserError as error:
        show_error(error)
        result = None
    if result is not None:
        name, reduced = result
        tools.reduced[name] = reduced
    for one in faulty:
        _report(opened, one.tool, tools.reduced.get(one.tool.name))


def _report(opened: Opened, tool: ComparedTool, reduced: Reduced | None) -> None:
    text, button = st.columns([10, 2], vertical_alignment="center")
    name = markdown_escaped(tool.name)
    if reduced is None:
        text.markdown(f"**{name}**: find the smallest part of the model that shows the fault, to report it.")
        if button.button("Reduce", key=f"reduce_{tool.name}", width="stretch"):
            forget_cancel(opened.jobs, _REDUCING)
            finish = Event()
            work = partial(_reduce, opened, tool, finish)
            title = f"Cutting the model down for {tool.name}"
            opened.jobs.start(_REDUCING, Job(work, worker(), title=title, finish=finish))
            st.rerun()
        return
    nodes = f"**{reduced.nodes:,} of {reduced.before:,} nodes** show the fault of {name}"
    text.markdown(
        f"{nodes} ({counted(reduced.candidates, 'candidate')} checked). {markdown_escaped(reduced.fault_text)}"
    )
    button.download_button(
        "Report (zip)",
        as_download(reduced.files),
        f"{Path(opened.path).stem}_{tool.file_stem}.zip",
        "application/zip",
        key=f"report_{tool.name}",
        width="stretch",
        on_click="ignore",
        help="The part as a model, its inputs, and the command that shows the fault again.",
    )
    if reduced.nodes <= _MAX_NODES_AS_TEXT:
        st.code(reduced.text, language=None)


def _reduce(opened: Opened, tool: ComparedTool, finish: Event, report: Report) -> tuple[str, Reduced] | None:
    reduced = reduce_fault(opened, tool, finish, report)
    return None if reduced is None else (tool.name, reduced)


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "tool": row["tool"],
        "nodes": row["nodes"],
        "time (s)": row["seconds"],
        "result": "failed" if row["nodes"] is None else verdict_label(row["equal"]),
        "median (ms)": row["median_ms"],
        "min (ms)": row["min_ms"],
        "ratio": None if row["ratio_busy"] else row["ratio"],
        "ratio, 95 % interval": "-" if row["ratio"] is None else ratio_interval(row),
        "max error": "-" if row["max_rel_error"] is None else relative_error_text(row["max_rel_error"]),
        "peak (MB)": None if row["peak_bytes"] is None else row["peak_bytes"] / 1e6,
        "version": row["version"] or "-",
    }


def _compare(opened: Opened, result: ToolOutcome, compare: Any) -> None:
    if result.file is None or result.tool.name == ORIGINAL:
        return
    title = f"{opened.title} by {result.tool.name}"
    folder = opened.state(ComparedTools).folder
    if opening(partial(open_other, opened, str(result.file), folder, title=title), "Comparing"):
        st.switch_page(compare)


def _choice_key(opened: Opened) -> str:
    return f"tool_asked_{opened.number}"
