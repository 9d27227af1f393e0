"""How much accuracy each operator of a model loses in a narrower type, by itself and with all before it: one run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from workbench.backends.memory import estimate_bytes, refuse_unless_fits, weight_bytes
from workbench.backends.profiling.progress import ProgressCallback
from workbench.errors import UserError
from workbench.ir import Graph
from workbench.planning.precision.element_types import NARROW_TYPES
from workbench.planning.precision.emulation import ComparedResult, emulate
from workbench.planning.precision.int8.quantizer_rounding import INT8_TYPE, QuantizerRounding, Ranges, values_to_record
from workbench.planning.precision.rounding import CastRounding, Rounding
from workbench.run.inputs import Tensors, dims_of, seed_inputs
from workbench.run.recorded_ranges import recorded_ranges
from workbench.run.running_in_parts import run_in_parts
from workbench.run.verdict_words import relative_error_text
from workbench.run.worker.client import Worker

EFFECT_TYPES = (*NARROW_TYPES, INT8_TYPE)
_RECORDING = 0.25  # the share of the run before: a quarter of all copies
_ACTIVATIONS = 3  # each value in float32, from the operator alone in the type, and from all in the type


@dataclass(frozen=True)
class Effect:
    """The errors of an operator's float results in a narrower type, relative to those of the run in float32.

    Each is max|a - b| / max|a| over the elements of a result, of several results the largest. a is the result of the
    run in float32, whose infinities do not count in max|a|.
    alone:      only this operator runs in the type: its recorded operands and its constants are rounded, it computes
                in float32, as most kernels of ONNX Runtime for float16 on a CPU do, and its results are rounded.
    cumulative: all operators before it run so too. One that runs in float32 only does so in float32.
    max_abs:    the largest finite magnitude of its results in the run in float32.
    In int8 the operands and results are rounded that ONNX Runtime's static quantizer quantizes (`QuantizerRounding`).
    Of a result that only a Relu or Clip reads, the part that it lets through counts in all three numbers. An operator
    that stays in float32 is among them if it gives an output; alone is then 0.
    An error is infinite if the result overflows, or is not 0 where all of it is 0 in float32; NaN if a NaN arises.
    """

    node: str
    op: str
    alone: float
    cumulative: float
    max_abs: float

    def to_json(self) -> dict[str, Any]:
        """The fields; an error that is infinite or NaN is None."""
        return {name: None if _is_not_finite(value) else value for name, value in asdict(self).items()}


def precision_effects(
    graph: Graph,
    narrow: str = "float16",
    *,
    per_channel: bool = True,
    inputs: Mapping[str, np.ndarray] | None = None,
    worker: Worker | None = None,
    on_progress: ProgressCallback | None = None,
) -> tuple[Effect, ...]:
    """The effects of the operators that run in float32 and may run in `narrow`, in the order of the graph.

    All come from one run in ONNX Runtime, without optimizations, of a graph that has every operator three times; in
    int8 a run before it records the ranges of values. Random operators get one seed, so that they draw the same numbers
    each time. The graph runs in parts, for progress.
    narrow: one of EFFECT_TYPES. per_channel: whether a weight in int8 has a scale for each channel.
    inputs: seeded ones by default. worker: the process that runs it; its own if None.
    on_progress: called with what is done and the share of the run that is done; may raise to stop.
    Raises UserError if the graph does not run, needs more memory than is free, or has no such operator.
    """
    report = on_progress or (lambda text, share: None)
    tensors = dict(inputs) if inputs is not None else seed_inputs(graph)
    asked = worker or Worker()
    try:
        if narrow == INT8_TYPE:
            ranges = ranges_for_int8(graph, tensors, asked, lambda text, share: report(text, share * _RECORDING))
            rounding = QuantizerRounding(graph, ranges, per_channel)
            rest = lambda text, share: report(text, _RECORDING + share * (1 - _RECORDING))  # noqa: E731
            return effects_of(graph, rounding, narrow, tensors, asked, rest)
        return effects_of(graph, CastRounding(NARROW_TYPES[narrow]), narrow, tensors, asked, report)
    finally:
        if worker is None:
            asked.close()


def ranges_for_int8(graph: Graph, inputs: Tensors, worker: Worker, report: ProgressCallback) -> Ranges:
    """The ranges of the values that ONNX Runtime's quantizer may quantize, of a run on these inputs."""
    need = estimate_bytes(graph, {**graph.dims, **dims_of(graph, inputs)})
    refuse_unless_fits(need, f"'{graph.name}'")
    return recorded_ranges(graph, values_to_record(graph), inputs, worker, need, report)


def effects_of(
    graph: Graph, rounding: Rounding, narrow: str, inputs: Tensors, worker: Worker, report: ProgressCallback
) -> tuple[Effect, ...]:
    """The effects of operators that the rounding rounds; the rest as in `precision_effects`."""
    report(f"copying each operator, for float32 and {narrow}", 0.0)
    emulation = emulate(graph, rounding)
    if not emulation.results:
        raise UserError(f"no operator of '{graph.name}' runs in float32 and may run in {narrow}")
    weights, dims = weight_bytes(graph), {**graph.dims, **dims_of(graph, inputs)}
    need = weights + _ACTIVATIONS * (estimate_bytes(graph, dims) - weights)
    refuse_unless_fits(need, f"'{graph.name}' in two types")
    scalars = run_in_parts(emulation.graph, inputs, worker, need, "running each operator in both types", report)
    return tuple(_effects(graph, emulation.results, scalars))


def _effects(
    graph: Graph, results: Mapping[str, tuple[ComparedResult, ...]], scalars: Mapping[str, np.ndarray]
) -> Iterator[Effect]:
    for name, compared in results.items():
        magnitudes = [max(0.0, float(scalars[result.magnitude])) for result in compared]
        pairs = list(zip(compared, magnitudes, strict=True))
        rounded = [(result.alone, magnitude) for result, magnitude in pairs if result.alone is not None]
        alone = _worst([_relative(scalars[name], magnitude) for name, magnitude in rounded])
        cumulative = _worst([_relative(scalars[result.cumulative], magnitude) for result, magnitude in pairs])
        yield Effect(name, graph.node(name).op, alone, cumulative, max(magnitudes))


def _relative(difference: np.ndarray, magnitude: float) -> float:
    largest = float(difference)
    if largest <= 0:  # of no elements it is minus infinity
        return 0.0
    return largest / magnitude if magnitude else largest * math.inf


def _worst(errors: list[float]) -> float:
    return math.nan if any(map(math.isnan, errors)) else max(errors, default=0.0)


def _is_not_finite(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


# ---- in words ------------------------------------------------------------------------------


def by_loss(effects: Iterable[Effect]) -> list[Effect]:
    """The effects, those first that lose most by themselves; an error that is not finite is the largest."""
    return sorted(effects, key=lambda effect: _size(effect.alone), reverse=True)


def loss_sentence(graph: Graph, effects: Sequence[Effect], narrow: str) -> str:
    """Which operator loses most by itself, and the largest error of the outputs."""
    first = by_loss(effects)[0]
    error = loss_text(first.alone, first.max_abs)
    loses = f"loses most by itself: {error}" if math.isfinite(first.alone) else f"by itself: {error}"
    return f"{first.op} '{first.node}' {loses}; {_outputs_text(graph, effects, narrow)}"


def loss_text(error: float, max_abs: float) -> str:
    """A relative error for a table; what is not finite, in a word."""
    if math.isnan(error):
        return "NaN"
    if math.isinf(error):
        return "overflows" if max_abs else "not 0"
    return relative_error_text(error)


def without_effect(narrow: str) -> str:
    """Why other operators have no effect, as a clause."""
    if narrow == INT8_TYPE:
        return "ONNX Runtime's static quantizer leaves them in float32, or they give no floats"
    return "they run in one type only, hold bodies, or give no floats"


def _outputs_text(graph: Graph, effects: Sequence[Effect], narrow: str) -> str:
    """The largest error of the outputs, as a clause."""
    producers = {node.name for output in graph.outputs if (node := graph.producer(output)) is not None}
    last = [effect for effect in effects if effect.node in producers]
    if not last:
        return "no output comes of an operator in float32"
    worst = max(last, key=lambda effect: _size(effect.cumulative))
    error = loss_text(worst.cumulative, worst.max_abs)
    is_off = f"'s error is {error}" if math.isfinite(worst.cumulative) else f" {error}"
    return f"the output{is_off} in {narrow}"


def _size(error: float) -> float:
    return error if math.isfinite(error) else math.inf
