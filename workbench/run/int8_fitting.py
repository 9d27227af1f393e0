"""Which operators must stay in float32 so that no output of a model in int8 is off by more than is allowed."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from workbench.backends.profiling.progress import ProgressCallback
from workbench.ir import Graph
from workbench.planning.precision.fitting import Fitted, fit
from workbench.planning.precision.int8.quantizer_rounding import INT8_TYPE, QuantizerRounding, quantized_graph
from workbench.run.inputs import seed_inputs
from workbench.run.precision_effects import effects_of, ranges_for_int8
from workbench.run.value_recording import RunRecorder
from workbench.run.worker.client import Worker


def fit_int8(
    graph: Graph,
    max_error: float,
    *,
    per_channel: bool = True,
    inputs: Mapping[str, np.ndarray] | None = None,
    worker: Worker | None = None,
    on_progress: ProgressCallback | None = None,
) -> Fitted:
    """The operators to exclude from ONNX Runtime's static quantizer, as `fit` finds them.

    max_error: the largest max|a - b| / max|a| of an output, more than 0. The rest as in `precision_effects`.
    Raises UserError if the graph does not run, needs more memory than is free, or has no operator that is quantized.
    """
    report = on_progress or (lambda text, share: None)
    tensors = dict(inputs) if inputs is not None else seed_inputs(graph)
    asked = worker or Worker()
    try:
        ranges = ranges_for_int8(graph, tensors, asked, report)

        def excluding(kept: Collection[str]) -> QuantizerRounding:
            return QuantizerRounding(graph, ranges, per_channel, kept)

        def errors_alone() -> dict[str, float]:
            return {e.node: e.alone for e in effects_of(graph, excluding(()), INT8_TYPE, tensors, asked, report)}

        recorder = RunRecorder(asked, lambda _: [tensors], on_progress)
        return fit(
            lambda kept: quantized_graph(graph, excluding(kept)),
            recorder.error_as_written(graph),
            errors_alone,
            excluding(()).operators,
            max_error,
        )
    finally:
        if worker is None:
            asked.close()
