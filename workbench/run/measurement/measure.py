"""Measuring models, as front ends call it.

Warm-up, then turns until the medians are known; variants interleaved; compiling
reported separately; the device and all versions in the record (`statistics.py`, `interleave.py`).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from workbench.errors import quoted
from workbench.fusion.grouped import grouped
from workbench.inference.shapes import infer_types
from workbench.ir import DataType, Graph, TensorType
from workbench.ir.permuted_io import order_between
from workbench.opsets.written import NEWEST
from workbench.run.inputs import Tensors, dims_of, output_orders, permute_inputs
from workbench.run.measurement.interleave import repetitions
from workbench.run.measurement.measured import FailedVariant, MeasuredVariant, Measurement, error_from_json
from workbench.run.measurement.notes import ended_early, launching_ms, notes_of, why_sums_differ
from workbench.run.measurement.other_processes import other_processes_from_json
from workbench.run.measurement.statistics import is_busy, is_stable, ratio, spread, tells_of_others
from workbench.run.measurement.variants import OWN_TYPES, WARMUP, MeasureError, Variant, can_be_asked, validate_request
from workbench.run.npz import shape_fits
from workbench.run.profiling.ceilings import Roofs
from workbench.run.profiling.profiled import OperatorRun, kernel_from_json, lanes_from_json, memory_from_json
from workbench.run.profiling.roofline import share_of_roof, with_work
from workbench.run.randomness import draws_numbers, with_seeds
from workbench.run.tolerances import Tolerance, tolerances_of_run
from workbench.run.worker.client import RUN_LIMIT_S, Worker
from workbench.run.worker.machine import Machine
from workbench.run.worker.memory import estimate_bytes, refuse_unless_fits
from workbench.run.worker.process import ProgressSink, RunError
from workbench.run.worker.tensors import save_tensors

_RUN_FAILED = "The run failed: "  # the beginning of sentence_of's result if it knows no other reason
_AS_WRITTEN = "onnxruntime"  # the backend that runs a file as users get it
_SAME_SEED = "Random operators were compared with the same seed on both sides; they are timed with the model's own."


def measure_models(
    variants: Mapping[str, Graph | Variant],
    *,
    inputs: Mapping[str, np.ndarray],
    device: str = "cpu",
    backend: str = "torch",
    dtype: str = "float32",
    repeat: int | None = None,
    warmup: int = WARMUP,
    cold: bool = False,
    operators: bool = True,
    reference: Mapping[str, np.ndarray] | None = None,
    tolerance: Tolerance | None = None,
    worker: Worker | None = None,
    on_progress: ProgressSink | None = None,
    timeout_s: float = RUN_LIMIT_S,
    memory_limit_bytes: int | None = None,
    is_enough: Callable[[], bool] = lambda: False,
) -> Measurement:
    """Latency and memory of each variant on the same inputs, by turns, each backend in a separate process.

    variants: graphs, which run with `backend` and `dtype`, or `Variant`s with their own.
    repeat: runs that count; None: 10 to 200, until every median is known to one percent or 20 s have passed.
    cold: whether to time runs after emptying the device's cache too.
    operators: whether to time each operator too, in runs of their own.
    reference: outputs to compare with (ONNX Runtime's, see `Verifier.reference`),
               within `tolerance`, by default that of the element type or of the output in the first graph,
               whichever is looser.
    on_progress: is called with {"done", "total", "stage"} after every run.
    timeout_s, memory_limit_bytes: limits of the whole job, see `Worker.request`; of a CUDA device,
               each backend's process may use as much.
    is_enough: asked after every run; once true, the runs so far are all, and a note says how many there are.
    What a backend does not support, such as ONNX Runtime in another type than the model's own, is
    omitted, and a note says so.
    Raises MeasureError, DoesNotFitError, or RunError for a run that failed.
    """
    asked = {
        label: wish if isinstance(wish, Variant) else Variant(wish, backend, dtype) for label, wish in variants.items()
    }
    asked = {label: _as_run(variant) for label, variant in asked.items()}
    validate_request([v.backend for v in asked.values()], [v.dtype for v in asked.values()], repeat, warmup)
    given = _given_inputs(asked, inputs)
    first = next(iter(asked.values())).graph
    wanted = {label: variant for label, variant in asked.items() if can_be_asked(variant.backend, variant.dtype)}
    graphs = {id(v.graph): v.graph for v in wanted.values()}
    dims = {key: {**graph.dims, **dims_of(graph, given[key])} for key, graph in graphs.items()}
    sizes = {key: estimate_bytes(graph, dims[key]) for key, graph in graphs.items()}
    need = sum(sizes[id(v.graph)] for v in wanted.values())
    if device == "cpu":
        refuse_unless_fits(need, "these models side by side" if len(wanted) > 1 else f"'{first.name}'")
    own = worker is None
    worker = worker or Worker()
    folder = Path(tempfile.mkdtemp(dir=worker.folder, prefix="measure-"))
    enough = folder / "enough"

    def hear(event: dict[str, Any]) -> None:
        if is_enough():
            enough.touch()
        if on_progress is not None:
            on_progress(event)

    try:
        forms = dict.fromkeys((id(v.graph), v.backend == _AS_WRITTEN) for v in wanted.values())
        files = {form: str(_exported(graphs[form[0]], folder, as_written=form[1])) for form in forms}
        drawn = {key for key, graph in graphs.items() if reference is not None and draws_numbers(graph)}
        seeded = {f: str(with_seeds(Path(files[f]), Path(files[f]).parent)) for f in forms if f[0] in drawn}
        fed_inputs = _saved_inputs(graphs, first, given, folder)
        raw = worker.request(
            "measure",
            variants=[
                {
                    "label": label,
                    "model": files[id(v.graph), v.backend == _AS_WRITTEN],
                    "seeded": seeded.get((id(v.graph), v.backend == _AS_WRITTEN)),
                    "inputs": fed_inputs[id(v.graph)],
                    "backend": v.backend,
                    "dtype": v.dtype,
                    "tolerances": _tolerances(v.dtype, first, tolerance),
                    "orders": output_orders(first, v.graph),
                }
                for label, v in wanted.items()
            ],
            reference=None if reference is None else _saved(folder / "reference.npz", reference),
            device=device,
            repetitions=asdict(repetitions(repeat, warmup)),
            cold=cold,
            operators=operators,
            enough=str(enough),
            on_progress=hear,
            timeout_s=timeout_s,
            memory_limit_bytes=memory_limit_bytes,
            need_bytes=need,
        )
        ended = enough.exists()
    finally:
        if own:
            worker.close()
        else:
            shutil.rmtree(folder, ignore_errors=True)
    types = {key: infer_types(graph, dims[key]) for key, graph in graphs.items()}
    roofs = {
        name: None if measurement is None else Roofs(**measurement) for name, measurement in raw["ceilings"].items()
    }
    measurement = Measurement(
        variants=summarize_variants(raw["variants"], wanted, types, roofs, device),
        machine=Machine(**raw["machine"]),
        ceilings=roofs,
        dims={**first.dims, **dims_of(first, inputs)},
        repeat=repeat,
        warmup=warmup,
        notes=[
            *_left_out(asked),
            *_nothing_converted(wanted, types),
            *_no_tf32(wanted, device),
            *([_SAME_SEED] if drawn else []),
        ],
    )
    early = ended_early(measurement.ran) if ended else []
    return replace(measurement, notes=[*measurement.notes, *early, *notes_of(measurement.ran, device)])


def _as_run(variant: Variant) -> Variant:
    """The variant with the graph that its backend runs."""
    return replace(variant, graph=grouped(variant.graph)) if variant.backend == "fused" else variant


def _tolerances(dtype: str, first: Graph, given: Tolerance | None) -> dict[str, Any]:
    """The tolerance of each output: `given`, else the looser of those of the element type and of the first graph."""
    return {value: asdict(given or tolerance) for value, tolerance in tolerances_of_run(dtype, first).items()}


@contextmanager
def refused_sizes(model: str, sizes: Mapping[str, int]) -> Iterator[None]:
    """Raise MeasureError within the context if a reference does not run at the requested sizes."""
    try:
        yield
    except RunError as error:
        if not sizes or not str(error).startswith(_RUN_FAILED):
            raise
        asked = ", ".join(f"{name}={size}" for name, size in sizes.items())
        raise MeasureError(
            f"'{model}' does not run with {asked}, perhaps because another size is fixed inside it: "
            + str(error).removeprefix(_RUN_FAILED)
        ) from None


def _given_inputs(wanted: Mapping[str, Variant], inputs: Mapping[str, np.ndarray]) -> dict[int, Tensors]:
    """By graph, the first one's inputs in the form that the graph takes. Raises MeasureError if it takes others."""
    (name, variant), *_ = wanted.items()
    first = variant.graph
    results: dict[int, Tensors] = {}
    for label, graph in ((label, v.graph) for label, v in wanted.items()):
        if id(graph) in results:
            continue
        if set(graph.inputs) != set(first.inputs):
            raise MeasureError(
                f"'{name}' and '{label}' have different inputs ({', '.join(first.inputs)} and "
                f"{', '.join(graph.inputs)}), so they cannot be measured on the same ones."
            )
        results[id(graph)] = permute_inputs(inputs, first, graph)
        for value, tensor in results[id(graph)].items():
            ours, theirs = graph.tensor_type(value), first.tensor_type(value)
            if ours is None or theirs is None:
                continue
            if ours.dtype != theirs.dtype or not shape_fits(ours.shape, tensor.shape):
                raise MeasureError(
                    f"'{label}' takes input '{value}' as {ours}, and '{name}' as {theirs.with_shape(tensor.shape)}; "
                    "what is measured together runs on the same inputs."
                )
    return results


def _exported(graph: Graph, folder: Path, as_written: bool) -> Path:
    """as_written: at the opset of its file; our executor knows the forms of the graph's own."""
    from workbench.io.exporting import export_onnx

    own = Path(tempfile.mkdtemp(dir=folder, prefix="model-"))
    export_onnx(graph, own / "model.onnx", check=False, opset=None if as_written else NEWEST)
    return own / "model.onnx"


def _saved_inputs(
    graphs: Mapping[int, Graph], first: Graph, given: Mapping[int, Tensors], folder: Path
) -> dict[int, str]:
    """By graph, the file of its inputs; shared by graphs that take them in the same form."""
    files: dict[str, str] = {}
    results = {}
    for key, graph in graphs.items():
        orders = str([order_between(first, graph, value) for value in given[key]])
        if orders not in files:
            files[orders] = _saved(folder / f"inputs{len(files)}.npz", given[key])
        results[key] = files[orders]
    return results


def _saved(path: Path, tensors: Mapping[str, np.ndarray]) -> str:
    save_tensors(path, tensors)
    return str(path)


# ---- numbers ---------------------------------------------------------------------------


def summarize_variants(
    raw: Mapping[str, Any],
    wanted: Mapping[str, Variant],
    types: Mapping[int, Mapping[str, TensorType]],
    roofs: Mapping[str, Roofs | None],
    device: str = "cpu",
) -> dict[str, MeasuredVariant | FailedVariant]:
    """The worker's answers with derived numbers.

    raw: by label, `failed` or what `measure_variants` found. types: of each graph's values, by the graph's id.
    """
    firsts: dict[tuple[str, str], str] = {}  # by backend and element type
    results: dict[str, MeasuredVariant | FailedVariant] = {}
    of_others = {label: _was_busy(raw[label], v.backend, device) for label, v in wanted.items()}
    for label, variant in wanted.items():
        answer, step = raw[label], variant.step or label
        if "failed" in answer:
            results[label] = FailedVariant(step, variant.backend, variant.dtype, answer["failed"])
            continue
        first = firsts.setdefault((variant.backend, variant.dtype), label)
        times, cold = answer["times_ms"], answer.get("cold_times_ms")
        others = other_processes_from_json(answer.get("others"))
        busy = of_others[label]
        profiled = [OperatorRun(**operator) for operator in answer["operators"]]
        operators = with_work(profiled, variant.graph, types[id(variant.graph)])
        sum_ms, latency = sum(operator.time_ms for operator in operators), spread(times)
        results[label] = MeasuredVariant(
            step=step,
            backend=variant.backend,
            dtype=variant.dtype,
            times_ms=times,
            latency=latency,
            busy=busy,
            stable=is_stable(times),
            ratio_to=first,
            ratio=ratio(times, raw[first]["times_ms"], busy or of_others[first]),
            first_result_s=answer["first_result_s"],
            cold_times_ms=cold,
            cold_median_ms=None if cold is None else spread(cold).median_ms,
            memory=memory_from_json(answer["memory"]),
            operators=[replace(operator, of_roof=share_of_roof(operator, roofs)) for operator in operators],
            sum_ms=sum_ms,
            difference=why_sums_differ(sum_ms, latency.median_ms, variant.backend, answer["fallbacks"], busy, device),
            launching_ms=launching_ms(sum_ms, latency.median_ms, variant.backend, answer["fallbacks"], device),
            fallbacks=answer["fallbacks"],
            error=error_from_json(answer["error"]),
            kernels=tuple(kernel_from_json(kernel) for kernel in answer["kernels"]),
            lanes=lanes_from_json(answer["lanes"]),
            others=others,
        )
    return results


def _was_busy(answer: Mapping[str, Any], backend: str, device: str) -> bool:
    """Whether other work disturbed a variant's runs, by the CPU that it took or by the spread of the times."""
    if "failed" in answer:
        return False
    others = other_processes_from_json(answer.get("others"))
    launched = "torch" if backend in answer["fallbacks"] else backend
    spreads = tells_of_others(device, launched) and is_busy(answer["times_ms"])
    return spreads or (others is not None and others.is_contended)


# ---- what else is to be said -----------------------------------------------------------


def _left_out(asked: Mapping[str, Variant]) -> list[str]:
    labels = [label for label, variant in asked.items() if not can_be_asked(variant.backend, variant.dtype)]
    return [f"{OWN_TYPES}: {quoted(labels)} left out."] if labels else []


def _nothing_converted(wanted: Mapping[str, Variant], types: Mapping[int, Mapping[str, TensorType]]) -> list[str]:
    labels = [
        label
        for label, variant in wanted.items()
        if variant.dtype not in ("float32", "tf32") and not _has_float32(variant.graph, types[id(variant.graph)])
    ]
    if not labels:
        return []
    return [f"Nothing was converted in {quoted(labels)}: no value is of float32, so the model ran in its own types."]


def _no_tf32(wanted: Mapping[str, Variant], device: str) -> list[str]:
    labels = [label for label, variant in wanted.items() if variant.dtype == "tf32"]
    return [f"A CPU has no TF32: {quoted(labels)} ran in float32."] if labels and device == "cpu" else []


def _has_float32(graph: Graph, types: Mapping[str, Any]) -> bool:
    """Whether a value may be float32; also True if a type is unknown, or a body or function may hold one."""
    if graph.functions or any(node.bodies for node in graph.nodes):
        return True
    result = (types.get(value) for value in graph.values())
    return any(not isinstance(type_, TensorType) or type_.dtype == DataType.FLOAT for type_ in result)
