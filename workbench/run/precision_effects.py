"""How much accuracy each operator of a model loses in a narrower type, by itself and with all before it: one run."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from workbench.errors import UserError
from workbench.io.exporting import export_onnx
from workbench.ir import Graph
from workbench.opsets.written import NEWEST
from workbench.precision.element_types import NARROW_TYPES
from workbench.precision.emulation import ComparedResult, emulate
from workbench.run.inputs import Tensors, dims_of, seed_inputs
from workbench.run.parts_in_order import GraphPart, parts_in_order
from workbench.run.profiling.progress import ProgressCallback
from workbench.run.randomness import is_random, with_seeds
from workbench.run.verdict_words import relative_error_text
from workbench.run.worker.client import Worker
from workbench.run.worker.memory import estimate_bytes, refuse_unless_fits, weight_bytes
from workbench.run.worker.tensors import load_tensors, save_tensors

WITHOUT_EFFECT = "they run in one type only, hold bodies, or give no floats"  # of other operators, why
_PART = 1000  # nodes of the graph with the copies that run at once
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
    inputs: Mapping[str, np.ndarray] | None = None,
    worker: Worker | None = None,
    on_progress: ProgressCallback | None = None,
) -> tuple[Effect, ...]:
    """The effects of the operators that run in float32 and may run in `narrow`, in the order of the graph.

    All come from one run in ONNX Runtime, without optimizations, of a graph that has every operator three times.
    Random operators get one seed, so that they draw the same numbers each time. The graph runs in parts, for progress.
    narrow: "float16" or "bfloat16". inputs: seeded ones by default. worker: the process that runs it; its own if None.
    on_progress: called with what is done and the share of the run that is done; may raise to stop.
    Raises UserError if the graph does not run, needs more memory than is free, or has no such operator.
    """
    report = on_progress or (lambda text, share: None)
    report(f"copying each operator, for float32 and {narrow}", 0.0)
    emulation = emulate(graph, NARROW_TYPES[narrow])
    if not emulation.results:
        raise UserError(f"no operator of '{graph.name}' runs in float32 and may run in {narrow}")
    tensors = dict(inputs) if inputs is not None else seed_inputs(graph)
    weights, dims = weight_bytes(graph), {**graph.dims, **dims_of(graph, tensors)}
    need = weights + _ACTIVATIONS * (estimate_bytes(graph, dims) - weights)
    refuse_unless_fits(need, f"'{graph.name}' in two types")
    asked = worker or Worker()
    try:
        scalars = _run(emulation.graph, tensors, asked, need, report)
    finally:
        if worker is None:
            asked.close()
    return tuple(_effects(graph, emulation.results, scalars))


def _run(
    graph: Graph, inputs: Tensors, worker: Worker, need: int, report: ProgressCallback
) -> Mapping[str, np.ndarray]:
    defaults = {value: constant.numpy() for value, constant in graph.kept.defaults.items()}
    with tempfile.TemporaryDirectory(dir=worker.folder, prefix="effects-") as folder:
        parts = []
        for number, part in enumerate(parts_in_order(graph, _PART)):
            report(f"writing part {number + 1:,}", 0.0)
            parts.append(_written(part, Path(folder) / str(number)))
        source, target = Path(folder) / "inputs.npz", Path(folder) / "outputs.npz"
        save_tensors(source, {**defaults, **inputs})

        def on_event(event: Mapping[str, Any]) -> None:
            report(event["stage"], event["done"] / event["total"])

        worker.request(
            "parts",
            parts=parts,
            results=graph.outputs,
            inputs=str(source),
            outputs=str(target),
            stage="running each operator in both types",
            need_bytes=need,
            on_progress=on_event,
        )
        return load_tensors(target)


def _written(part: GraphPart, folder: Path) -> dict[str, Any]:
    """The part as a file in a new folder, for the worker."""
    folder.mkdir()
    file = export_onnx(part.graph, folder / "model.onnx", check=False, opset=NEWEST).path
    model = with_seeds(file, folder) if is_random(part.graph) else file
    return {"model": str(model), "read": part.graph.inputs, "spent": part.spent}


def _effects(
    graph: Graph, results: Mapping[str, tuple[ComparedResult, ...]], scalars: Mapping[str, np.ndarray]
) -> Iterator[Effect]:
    for name, compared in results.items():
        magnitudes = [max(0.0, float(scalars[result.magnitude])) for result in compared]
        pairs = list(zip(compared, magnitudes, strict=True))
        alone = _worst([_relative(scalars[result.alone], magnitude) for result, magnitude in pairs])
        cumulative = _worst([_relative(scalars[result.cumulative], magnitude) for result, magnitude in pairs])
        yield Effect(name, graph.node(name).op, alone, cumulative, max(magnitudes))


def _relative(difference: np.ndarray, magnitude: float) -> float:
    largest = float(difference)
    if largest <= 0:  # of no elements it is minus infinity
        return 0.0
    return largest / magnitude if magnitude else largest * math.inf


def _worst(errors: list[float]) -> float:
    return math.nan if any(map(math.isnan, errors)) else max(errors)


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
