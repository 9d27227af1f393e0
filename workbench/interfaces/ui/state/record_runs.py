"""Measures for pages and stores the measurements among the runs; if storing fails, the page says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from threading import Event
from typing import Any

import streamlit as st

from workbench.interfaces.ui.state.commands import command_of
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.session import Opened, stop_checking, worker
from workbench.interfaces.ui.state.work import Report
from workbench.ir import Graph
from workbench.run.measurement.measure import measure_models
from workbench.run.measurement.measurement_result import Measurement
from workbench.run.measurement.variants import Variant
from workbench.run.records.store import RecordsError, RunOrigin, keep, model_hash


def measure_here(
    opened: Opened, variants: Mapping[str, Graph | Variant], device: str, report: Report, finish: Event, **options: Any
) -> Measurement:
    """Measure variants on the inputs of the open model, compared with its original.

    finish:  once set, measuring ends with the runs so far. options: further arguments of `measure_models`.
    Raises what `measure_models` and the run of the original raise.
    """
    stop_checking(opened)  # comparisons of its steps would disturb it; Optimize goes on with them
    report("computing the reference in ONNX Runtime", 0.0)
    return measure_models(
        variants,
        inputs=opened.verifier.inputs,
        reference=opened.verifier.reference,
        device=device,
        worker=worker(),
        on_progress=lambda event: report(event["stage"], event["done"] / max(event["total"], 1)),
        is_enough=finish.is_set,
        **options,
    )


def keep_measured(opened: Opened, measurement: Measurement, pipelines: Mapping[str, str]) -> str:
    """Store a measurement among the runs; returns why that failed, or "".

    pipelines: by label, the command that produces the variant, "" for the model as loaded.
    """
    try:
        digest = model_hash(opened.graph)
        keep(measurement, {label: RunOrigin(digest, opened.title, pipeline) for label, pipeline in pipelines.items()})
    except RecordsError as error:
        return str(error)
    return ""


def say_not_kept(why: str) -> None:
    if why:
        st.caption(markdown_escaped(f"This measurement is shown here but was not kept among the runs: {why}."))


def pipeline_until(opened: Opened, step: int) -> str:
    """The command that runs the passes up to that step, inclusive; "" for the model as loaded."""
    if step == 0 or opened.spec is None:
        return ""
    return command_of(opened, replace(opened.spec, pipeline=opened.spec.pipeline.first(step)))
