"""The gain of the open model's pipeline or of another file, measured in the background."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Event

from workbench.interfaces.ui.server.origin_guard import listens_beyond_this_machine
from workbench.interfaces.ui.state.commands import command_of
from workbench.interfaces.ui.state.model_state import ModelState
from workbench.interfaces.ui.state.record_runs import keep_measured, measure_here
from workbench.interfaces.ui.state.session import MeasuredHere, Opened, OtherModel, worker
from workbench.interfaces.ui.state.work import Job, Report, was_cancelled
from workbench.ir import Graph
from workbench.planning.layout.profile import machine_target
from workbench.presentation.explanations.gain import AFTER, BEFORE, Gain, gain_of
from workbench.rewrite import History
from workbench.rewrite.core.history import StepVerdict
from workbench.run.measurement.measurement_result import MeasuredVariant, Measurement
from workbench.run.measurement.variants import Variant

JOB, FILES_JOB = "measure", "measure_files"  # keys of jobs
MEASURE_VARIABLE = "WORKBENCH_MEASURE"  # environment variable; "asked": nothing is measured before the user requests it
_ON_REQUEST = "asked"
_MAX_FLOPS = 20e9  # the most FLOPs of one run, which takes some seconds on one core
_SECONDS = 6.0  # after so many seconds of a measurement no further run begins


@dataclass
class GainCache(ModelState):
    """The last gain and what it follows from."""

    history: History | None = None
    verdict: StepVerdict | None = None
    measured: MeasuredHere | None = None
    gain: Gain | None = None


def gain_here(opened: Opened, history: History) -> Gain:
    """The gain as far as it is known: latency and memory only once they are measured."""
    verdict, measured = history[-1].verdict, opened.measured
    cached = opened.state(GainCache)
    is_same = cached.history is history and cached.verdict is verdict and cached.measured is measured
    if cached.gain is None or not is_same:
        cached.history, cached.verdict, cached.measured = history, verdict, measured
        cached.gain = gain_of(history, measured_gain(opened))
    return cached.gain


def measured_gain(opened: Opened) -> Measurement | None:
    """The original and the result of the pipeline that is shown, as they were measured here; None before that."""
    if opened.measured is None:
        return None
    measurement = opened.measured.measurement
    return compared_pair(measurement) or (measurement if measurement.failures else None)


def compared_pair(measurement: Measurement) -> Measurement | None:
    """The original and the result of a measurement, with the labels BEFORE and AFTER; None without either.

    Of several backends, the one of the card if it ran, else the first. Card, graph and list of changes show this pair.
    """
    pairs: dict[tuple[str, str], dict[str, MeasuredVariant]] = {}
    for variant in measurement.ran.values():
        pairs.setdefault((variant.backend, variant.dtype), {})[variant.step] = variant
    complete = {run: pair for run, pair in pairs.items() if {BEFORE, AFTER} <= pair.keys()}
    if not complete:
        return None
    pair = complete.get((device_and_backend()[1], "float32"), next(iter(complete.values())))
    return replace(measurement, variants={BEFORE: pair[BEFORE], AFTER: pair[AFTER]})


def is_measured_now(opened: Opened, history: History) -> bool:
    """Whether a job measures the gain of the history, or waits to."""
    job = opened.jobs.by_key.get(JOB)
    return job is not None and job.request in (None, id(history)) and not job.is_done(within_s=0)


def is_measured_automatically(opened: Opened, history: History) -> bool:
    """Whether the gain is measured without a click: of a small model, if only this machine can use the app."""
    if (
        os.environ.get(MEASURE_VARIABLE) == _ON_REQUEST
        or listens_beyond_this_machine()
        or was_cancelled(opened.jobs, JOB)
    ):
        return False
    if measured_gain(opened) is not None or len(history) < 2:
        return False
    return opened.summary.flops <= _MAX_FLOPS


def measure_gain(opened: Opened, history: History) -> None:
    """Measure the original and the result in the background, and keep that among the runs."""
    spec, graphs = opened.spec, {BEFORE: history.initial, AFTER: history.graph}
    pipelines = {BEFORE: "", AFTER: "" if spec is None else command_of(opened, spec)}

    def take(measurement: Measurement) -> str:
        opened.take_measurement(MeasuredHere(spec, measurement, graphs))
        return keep_measured(opened, measurement, pipelines)

    opened.jobs.start(JOB, _measuring(opened, history.initial, history.graph, take, id(history)))


def measure_files(opened: Opened, other: OtherModel) -> None:
    """Measure the open model and the other one in the background."""

    def take(measurement: Measurement) -> str:
        other.measured = measurement
        return ""

    opened.jobs.start(FILES_JOB, _measuring(opened, opened.graph, other.graph, take, other.number))


def device_and_backend() -> tuple[str, str]:
    """Where gains are measured: CUDA graphs on a GPU, else ONNX Runtime on the CPU."""
    return ("cuda", "cuda-graphs") if machine_target() == "cuda" else ("cpu", "onnxruntime")


def _measuring(
    opened: Opened, before: Graph, after: Graph, take: Callable[[Measurement], str], request: int
) -> Job[str]:
    """A job that measures two graphs in ONNX Runtime, or as CUDA graphs on a GPU, and hands over the result.

    take: returns why the measurement was not kept, or "", which is the result of the job.
    """
    device, backend = device_and_backend()
    variants = {BEFORE: Variant(before, backend, step=BEFORE), AFTER: Variant(after, backend, step=AFTER)}
    finish = _Deadline()

    def work(report: Report) -> str:
        finish.begin(_SECONDS)
        return take(measure_here(opened, variants, device, report, finish))

    return Job(work, worker(), device, f"Measuring {opened.title}", request=request, finish=finish)


class _Deadline(Event):
    """An event that is also set some seconds after `begin`."""

    def __init__(self) -> None:
        super().__init__()
        self._ends = float("inf")

    def begin(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    def is_set(self) -> bool:
        return super().is_set() or time.monotonic() >= self._ends
