"""The files in which a result can be shipped: for any runtime, for ONNX Runtime alone, channels last, in float16."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

from workbench.errors import UserError
from workbench.evidence.verification.steps import verify_end
from workbench.interfaces.api import export
from workbench.interfaces.ui.state.gains import device_and_backend
from workbench.interfaces.ui.state.goals import FLOAT16_GOAL, GOALS
from workbench.interfaces.ui.state.histories import history_beside
from workbench.interfaces.ui.state.record_runs import measure_here
from workbench.interfaces.ui.state.session import Opened, Spec
from workbench.interfaces.ui.state.work import Report
from workbench.pipeline.pipeline import Pipeline
from workbench.pipeline.registry.pass_choice import choose
from workbench.planning.layout.profile import load_profile
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.planning.precision.strategies.precision_strategy import PrecisionStrategy
from workbench.presentation.explanations.gain import BEFORE
from workbench.rewrite import History, Pass
from workbench.run.measurement.measurement_result import Measurement
from workbench.run.measurement.variants import Variant

THIS_RESULT = "ONNX, this result"
_CHANNELS_LAST_TARGET = "cuda"


@dataclass(frozen=True)
class ExportVariant:
    """A file that can be written. suffix: in its name. opens_in: the programs that run it."""

    suffix: str
    opens_in: str
    spec: Spec


@dataclass
class BuiltVariants:
    """What is known of the variants of a pipeline. bytes: of the file. failures: why one could not be built."""

    spec: Spec
    histories: dict[str, History]
    bytes: dict[str, int]
    failures: dict[str, str]
    measurement: Measurement | None = None


def export_variants(spec: Spec) -> dict[str, ExportVariant]:
    """The variants of a pipeline, by title, the pipeline as it is first; what it has already is no variant of it."""
    variants = {THIS_RESULT: _variant("opt", spec)}
    if not _has_runtimes_operators(spec.pipeline):
        pipeline = choose(spec.pipeline, export_for="onnxruntime")
        variants["ONNX for ONNX Runtime"] = _variant("opt.ort", replace(spec, pipeline=pipeline))
    if not _has(LayoutStrategy, spec.pipeline):
        pipeline = choose(spec.pipeline, layout="optimal")
        profile = spec.profile if spec.profile.layout == "NHWC" else load_profile(_CHANNELS_LAST_TARGET)
        laid_out = replace(spec, pipeline=pipeline, profile=profile, excluded=())
        variants["ONNX, channels last"] = _variant("opt.nhwc", laid_out)
    if not _has(PrecisionStrategy, spec.pipeline):
        pipeline = choose(spec.pipeline, precision="optimal", options=GOALS[FLOAT16_GOAL].options)
        variants["ONNX in float16"] = _variant("opt.fp16", replace(spec, pipeline=pipeline))
    return variants


def _variant(suffix: str, spec: Spec) -> ExportVariant:
    if _has_runtimes_operators(spec.pipeline):
        opens_in = "ONNX Runtime only"
    elif _writes_functions(spec.pipeline):
        opens_in = "ONNX Runtime, onnx.reference; others once functions are inlined"
    else:
        opens_in = "any runtime that has the opset"
    if _has(PrecisionStrategy, spec.pipeline):
        opens_in += ", with kernels of the narrower type"
    return ExportVariant(suffix, opens_in, spec)


def _has(kind: type[Pass], pipeline: Pipeline) -> bool:
    return any(isinstance(pass_, kind) for pass_ in pipeline.passes)


def _writes_functions(pipeline: Pipeline) -> bool:
    """Whether it may write calls of ONNX functions: channels-last operators, or groups of operators."""
    return _has(LayoutStrategy, pipeline) or any(name.startswith("fuse_") for name in pipeline.names)


def _has_runtimes_operators(pipeline: Pipeline) -> bool:
    """Whether it has the passes that write operators of ONNX Runtime's own."""
    write_them = {name for name in choose([], export_for="onnxruntime").names if name.startswith("ort_")}
    return not write_them.isdisjoint(pipeline.names)


def history_of_variant(opened: Opened, variant: ExportVariant, title: str, report: Report) -> History:
    """The history of a variant's pipeline, with the verdict on its end. Raises UserError."""
    history = history_beside(opened, variant.spec, title, report)
    if history[-1].verdict is None:
        report(f"{title}: comparing with the original", None)
        verify_end(opened.verifier, history, lambda text: report(f"{title}: {text}", None))
    return history


def build_variants(opened: Opened, spec: Spec, report: Report, finish: Event) -> BuiltVariants:
    """Build all variants of a pipeline, write their files for their sizes, and measure what is right, interleaved.

    finish: once set, no further one is built, and measuring ends with the runs so far.
    """
    built = BuiltVariants(spec, {}, {}, {})
    for title, variant in export_variants(spec).items():
        if finish.is_set():
            return built
        try:
            history = built.histories[title] = history_of_variant(opened, variant, title, report)
            report(f"{title}: writing", None)
            with tempfile.TemporaryDirectory(prefix="workbench-export-") as folder:
                built.bytes[title] = export(history.graph, Path(folder) / "model.onnx").bytes
        except UserError as error:
            built.failures[title] = str(error)
    device, backend = device_and_backend()
    right = {title: history for title, history in built.histories.items() if history.failed is None}
    graphs = {BEFORE: opened.graph, **{title: history.graph for title, history in right.items()}}
    variants = {title: Variant(graph, backend, step=title) for title, graph in graphs.items()}
    built.measurement = measure_here(opened, variants, device, report, finish)
    return built
