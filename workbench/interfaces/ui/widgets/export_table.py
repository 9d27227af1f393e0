"""The table of the files in which a result can be shipped: what opens each, its size and its speed here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any

import streamlit as st

from workbench.errors import UserError
from workbench.interfaces.ui.state.export_variants import BuiltVariants, ExportVariant, build_variants
from workbench.interfaces.ui.state.gains import device_and_backend
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.model_state import ModelState
from workbench.interfaces.ui.state.session import Opened, Spec, worker
from workbench.interfaces.ui.state.work import Job, forget_cancel
from workbench.interfaces.ui.widgets.numbers import ratio_with_interval, say_failures
from workbench.interfaces.ui.widgets.parts import show_error
from workbench.interfaces.ui.widgets.progress import result_if_any
from workbench.interfaces.ui.widgets.tables import table
from workbench.run.measurement.measurement_result import MeasuredVariant
from workbench.run.measurement.notes import busy_notes
from workbench.run.verdict_words import verdict_label

_JOB = "export_variants"
_COLUMNS = {
    "nodes": st.column_config.NumberColumn(format="localized"),
    "size (MB)": st.column_config.NumberColumn(format="%.2f"),
    "latency (ms)": st.column_config.NumberColumn(format="%.3f", help="Median, interleaved with the others."),
    "ratio (95 % interval)": st.column_config.TextColumn(help="To the original; below 1 is faster."),
    "result": st.column_config.TextColumn(help="Whether it computes what the original computes."),
}


@dataclass
class ExportFiles(ModelState):
    """The files of the last pipeline of which all were built."""

    built: BuiltVariants | None = None


def export_table(opened: Opened, spec: Spec, variants: Mapping[str, ExportVariant]) -> None:
    """Draw a row for each variant of the pipeline, and the button that builds and measures all of them."""
    text, button = st.columns([8, 2], vertical_alignment="center")
    if button.button("Build and measure all", key="build_variants", width="stretch"):
        forget_cancel(opened.jobs, _JOB)
        finish, (device, _) = Event(), device_and_backend()
        work = partial(build_variants, opened, spec, finish=finish)
        title = f"Files of {opened.title}"
        opened.jobs.start(_JOB, Job(work, worker(), device, title, request=spec, finish=finish))
    try:
        built = result_if_any(opened.jobs, _JOB, "It was cancelled; nothing is kept.")
    except UserError as error:
        show_error(error)
        built = None
    files = opened.state(ExportFiles)
    files.built = built or files.built
    known = files.built if files.built is not None and files.built.spec == spec else None
    rows = [_row(title, variant, known) for title, variant in variants.items()]
    table(rows, _COLUMNS, first=list(rows[0]) if known is not None else ["file", "opens in"], says_more=False)
    if known is None:
        text.caption("The files in which this result can be shipped, each compared with the original once it is built.")
        return
    say_failures(known.failures.items())
    if known.measurement is not None:
        notes = " ".join(busy_notes(known.measurement.ran))
        text.caption(markdown_escaped(f"Measured on {known.measurement.machine.device_name}. {notes}"))


def _row(title: str, variant: ExportVariant, built: BuiltVariants | None) -> dict[str, Any]:
    history = None if built is None else built.histories.get(title)
    row: dict[str, Any] = {"file": title, "opens in": variant.opens_in}
    if built is None or history is None:
        return row | {"nodes": None, "size (MB)": None, "latency (ms)": None, "ratio (95 % interval)": "", "result": ""}
    size, verdict = built.bytes.get(title), history[-1].verdict
    ran = None if built.measurement is None else built.measurement.variants.get(title)
    return row | {
        "nodes": history[-1].after["nodes"],
        "size (MB)": None if size is None else size / 1e6,
        "latency (ms)": ran.latency.median_ms if isinstance(ran, MeasuredVariant) else None,
        "ratio (95 % interval)": ratio_with_interval(ran) if isinstance(ran, MeasuredVariant) else "not measured",
        "result": verdict_label(None if verdict is None else verdict.ok),
    }
