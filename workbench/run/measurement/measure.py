"""Measuring models, as front ends call it.

Variants run interleaved, after warm-up, until their medians are known (`statistics.py`,
`interleave.py`). Compiling is reported separately. The record has the device and all versions.
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

from workbench.analysis.inference.shapes import infer_types
from workbench.backends.memory import estimate_bytes, refuse_unless_fits
from workbench.backends.profiling.ceilings import Roofs
from workbench.backends.profiling.profile_result import (
    DeviceKernel,
    OperatorRun,
    kernel_from_json,
    memory_from_json,
    streams_from_json,
)
from workbench.backends.profiling.roofline import share_of_roof, with_work
from workbench.backends.randomness import uses_random_numbers, with_seeds
from workbench.backends.tensors import save_tensors
from workbench.errors import quoted
from workbench.formats.opsets.written import IN_MEMORY
from workbench.ir import DataType, Graph, TensorType
from workbench.ir.narrowed_io import INPUT_TYPE, loaded_type
from workbench.ir.permuted_io import permutation_between
from workbench.planning.fusion.groups_at_once import grouped
from workbench.run.inputs import Tensors, dims_of, fed_inputs, output_forms
from workbench.run.measurement.background_load import background_load_from_json
from workbench.run.measurement.interleave import repetitions
from workbench.run.measurement.measurement_result import FailedVariant, MeasuredVariant, Measurement, error_from_json
from workbench.run.measurement.notes import ended_early, launching_ms, notes_of, why_sums_differ
from workbench.run.measurement.statistics import is_busy, is_stable, ratio, spread, spread_shows_load
from workbench.run.measurement.variants import (
    ORT_MODEL_TYPES,
    WARMUP,
    MeasureError,
    Variant,
    is_supported,
    validate_request,
)
from workbench.run.npz import shape_fits
from workbench.run.tolerances import Tolerance, tolerances_of_run
from workbench.run.worker.client import RUN_LIMIT_S, Worker
from workbench.run.worker.machine import Machine
from workbench.run.worker.process import ProgressSink, RunError

_RUN_FAILED = "The run failed: "  # the beginning of sentence_of's result without another reason
_AS_WRITTEN = "onnxruntime"  # the backend that runs the file as exported for users
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
    """Latency and memory of each variant on the same inputs, interleaved, each backend in a separate process.

    variants: graphs, which run with `backend` and `dtype`, or `Variant`s with their own.
    repeat: runs that count; None: 10 to 200, until every median is known to one percent or 20 s have passed.
    cold: whether to time runs after emptying the device's cache too.
    operators: whether to time each operator too, in separate runs.
    reference: outputs to compare with (ONNX Runtime's, see `Verifier.reference`),
               within `tolerance`, by default that of the element type or of the output in the first graph,
               whichever is looser.
    on_progress: is called with {"done", "total", "stage"} after every run.
    timeout_s, memory_limit_bytes: limits of the whole job, see `Worker.request`; of a CUDA device,
               each backend's process may use as much.
    is_enough: called after every run; once true, no further run starts, and a note gives the number of runs.
    Variants that a backend does not support, such as ONNX Runtime in another type than the model's,
    are omitted, and a note says so.
    Raises MeasureError, DoesNotFitError, or RunError for a run that failed.
    """
    requested = {
        label: _as_executed(variant if isinstance(variant, Variant) else Variant(variant, backend, dtype))
        for label, variant in variants.items()
    }
    validate_request([v.backend for v in requested.values()], [v.dtype for v in requested.values()], repeat, warmup)
    inputs_by_graph = _inputs_by_graph(requested, inputs)
    first = next(iter(requested.values())).graph
    supported = {label: variant for label, variant in requested.items() if is_supported(variant.backend, variant.dtype)}
    graphs = {id(v.graph): v.graph for v in supported.values()}
    dims = {key: {**graph.dims, **dims_of(graph, inputs_by_graph[key])} for key, graph in graphs.items()}
    sizes = {key: estimate_bytes(graph, dims[key]) for key, graph in graphs.items()}
    needed_bytes = sum(sizes[id(v.graph)] for v in supported.values())
    if device == "cpu":
        refuse_unless_fits(needed_bytes, "these models side by side" if len(supported) > 1 else f"'{first.name}'")
    owns_worker = worker is None
    worker = worker or Worker()
    folder = Path(tempfile.mkdtemp(dir=worker.folder, prefix="measure-"))
    enough_file = folder / "enough"

    def on_event(event: dict[str, Any]) -> None:
        if is_enough():
            enough_file.touch()
        if on_progress is not None:
            on_progress(event)

    try:
        exports = dict.fromkeys((id(v.graph), v.backend == _AS_WRITTEN) for v in supported.values())
        files = {export: str(_exported(graphs[export[0]], folder, as_written=export[1])) for export in exports}
        random_graphs = {key for key, graph in graphs.items() if reference is not None and uses_random_numbers(graph)}
        seeded = {f: str(with_seeds(Path(files[f]), Path(files[f]).parent)) for f in exports if f[0] in random_graphs}
        input_files = _saved_inputs(graphs, first, inputs_by_graph, folder)
        raw = worker.request(
            "measure",
            variants=[
                {
                    "label": label,
                    "model": files[id(v.graph), v.backend == _AS_WRITTEN],
                    "seeded": seeded.get((id(v.graph), v.backend == _AS_WRITTEN)),
                    "inputs": input_files[id(v.graph)],
                    "backend": v.backend,
                    "dtype": v.dtype,
                    "tolerances": _tolerances(v.dtype, first, tolerance),
                    "forms": output_forms(first, v.graph),
                }
                for label, v in supported.items()
            ],
            reference=None if reference is None else _saved(folder / "reference.npz", reference),
            device=device,
            repetitions=asdict(repetitions(repeat, warmup)),
            cold=cold,
            operators=operators,
            enough=str(enough_file),
            on_progress=on_event,
            timeout_s=timeout_s,
            memory_limit_bytes=memory_limit_bytes,
            need_bytes=needed_bytes,
        )
        was_ended = enough_file.exists()
    finally:
        if owns_worker:
            worker.close()
        else:
            shutil.rmtree(folder, ignore_errors=True)
    types = {key: infer_types(graph, dims[key]) for key, graph in graphs.items()}
    roofs = {
        name: None if measurement is None else Roofs(**measurement) for name, measurement in raw["ceilings"].items()
    }
    measurement = Measurement(
        variants=summarize_variants(raw["variants"], supported, types, roofs, device),
        machine=Machine(**raw["machine"]),
        ceilings=roofs,
        dims={**first.dims, **dims_of(first, inputs)},
        repeat=repeat,
        warmup=warmup,
        notes=[
            *_unsupported_note(requested),
            *_unconverted_note(supported, types),
            *_no_tf32_note(supported, device),
            *([_SAME_SEED] if random_graphs else []),
        ],
    )
    early_note = ended_early(measurement.ran) if was_ended else []
    return replace(measurement, notes=[*measurement.notes, *early_note, *notes_of(measurement.ran, device)])


def _as_executed(variant: Variant) -> Variant:
    """The variant with the graph that its backend executes: for `fused` with groups."""
    return replace(variant, graph=grouped(variant.graph)) if variant.backend == "fused" else variant


def _tolerances(dtype: str, first: Graph, tolerance: Tolerance | None) -> dict[str, Any]:
    """The tolerance of each output: `tolerance`, else the looser of those of the element type and the first graph."""
    return {value: asdict(tolerance or default) for value, default in tolerances_of_run(dtype, first).items()}


@contextmanager
def refused_sizes(model: str, sizes: Mapping[str, int]) -> Iterator[None]:
    """A context that raises MeasureError if a reference does not run at the requested sizes."""
    try:
        yield
    except RunError as error:
        if not sizes or not str(error).startswith(_RUN_FAILED):
            raise
        sizes_text = ", ".join(f"{name}={size}" for name, size in sizes.items())
        raise MeasureError(
            f"'{model}' does not run with {sizes_text}, perhaps because another size is fixed inside it: "
            + str(error).removeprefix(_RUN_FAILED)
        ) from None


def _inputs_by_graph(variants: Mapping[str, Variant], inputs: Mapping[str, np.ndarray]) -> dict[int, Tensors]:
    """For each graph id, the inputs of the first graph in the layouts and element types that the graph takes.

    Raises MeasureError for a graph that takes other inputs.
    """
    (name, variant), *_ = variants.items()
    first = variant.graph
    results: dict[int, Tensors] = {}
    for label, graph in ((label, v.graph) for label, v in variants.items()):
        if id(graph) in results:
            continue
        if set(graph.inputs) != set(first.inputs):
            raise MeasureError(
                f"'{name}' and '{label}' have different inputs ({', '.join(first.inputs)} and "
                f"{', '.join(graph.inputs)}), so they cannot be measured on the same ones."
            )
        results[id(graph)] = fed_inputs(inputs, first, graph)
        for value, tensor in results[id(graph)].items():
            type_, first_type = graph.tensor_type(value), first.tensor_type(value)
            if type_ is None or first_type is None:
                continue
            same_type = loaded_type(graph, value, INPUT_TYPE) == loaded_type(first, value, INPUT_TYPE)
            if not same_type or not shape_fits(type_.shape, tensor.shape):
                raise MeasureError(
                    f"'{label}' takes input '{value}' as {type_}, and '{name}' as "
                    f"{first_type.with_shape(tensor.shape)}; "
                    "variants that are measured together run on the same inputs."
                )
    return results


def _exported(graph: Graph, folder: Path, as_written: bool) -> Path:
    """The exported file. as_written: at the opset of the original file; our executor needs the graph as it is."""
    from workbench.formats.io.exporting import export_onnx

    model_folder = Path(tempfile.mkdtemp(dir=folder, prefix="model-"))
    export_onnx(graph, model_folder / "model.onnx", check=False, opset=None if as_written else IN_MEMORY)
    return model_folder / "model.onnx"


def _saved_inputs(
    graphs: Mapping[int, Graph], first: Graph, inputs_by_graph: Mapping[int, Tensors], folder: Path
) -> dict[int, str]:
    """For each graph id, the file of its inputs; graphs that take them in the same form share a file."""
    files: dict[str, str] = {}
    results = {}
    for key, graph in graphs.items():
        tensors = inputs_by_graph[key].items()
        form = str([(permutation_between(first, graph, value), tensor.dtype) for value, tensor in tensors])
        if form not in files:
            files[form] = _saved(folder / f"inputs{len(files)}.npz", inputs_by_graph[key])
        results[key] = files[form]
    return results


def _saved(path: Path, tensors: Mapping[str, np.ndarray]) -> str:
    save_tensors(path, tensors)
    return str(path)


# ---- numbers ---------------------------------------------------------------------------


def summarize_variants(
    raw: Mapping[str, Any],
    variants: Mapping[str, Variant],
    types: Mapping[int, Mapping[str, TensorType]],
    roofs: Mapping[str, Roofs | None],
    device: str = "cpu",
) -> dict[str, MeasuredVariant | FailedVariant]:
    """The worker's results with derived numbers.

    raw:   by label, `failed` or a result of `measure_variants`.
    types: the types of each graph's values, by the graph's id.
    """
    firsts: dict[tuple[str, str], str] = {}  # by backend and element type
    results: dict[str, MeasuredVariant | FailedVariant] = {}
    busy_labels = {label: _is_busy_variant(raw[label], v.backend, device) for label, v in variants.items()}
    for label, variant in variants.items():
        answer, step = raw[label], variant.step or label
        if "failed" in answer:
            results[label] = FailedVariant(step, variant.backend, variant.dtype, answer["failed"])
            continue
        first = firsts.setdefault((variant.backend, variant.dtype), label)
        times, cold = answer["times_ms"], answer.get("cold_times_ms")
        others = background_load_from_json(answer.get("others"))
        busy = busy_labels[label]
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
            ratio=ratio(times, raw[first]["times_ms"], busy or busy_labels[first]),
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
            streams=streams_from_json(answer["streams"]),
            others=others,
            device_kernels=tuple(DeviceKernel(**kernel) for kernel in answer.get("device_kernels", ())),
        )
    return results


def _is_busy_variant(answer: Mapping[str, Any], backend: str, device: str) -> bool:
    """Whether other processes disturbed a variant's runs, by their use of the CPU or the spread of the times."""
    if "failed" in answer:
        return False
    others = background_load_from_json(answer.get("others"))
    mode = "torch" if backend in answer["fallbacks"] else backend
    spreads = spread_shows_load(device, mode) and is_busy(answer["times_ms"])
    return spreads or (others is not None and others.is_contended)


# ---- notes -----------------------------------------------------------------------------


def _unsupported_note(variants: Mapping[str, Variant]) -> list[str]:
    labels = [label for label, variant in variants.items() if not is_supported(variant.backend, variant.dtype)]
    return [f"{ORT_MODEL_TYPES}: {quoted(labels)} left out."] if labels else []


def _unconverted_note(variants: Mapping[str, Variant], types: Mapping[int, Mapping[str, TensorType]]) -> list[str]:
    labels = [
        label
        for label, variant in variants.items()
        if variant.dtype not in ("float32", "tf32") and not _has_float32(variant.graph, types[id(variant.graph)])
    ]
    if not labels:
        return []
    return [f"Nothing was converted in {quoted(labels)}: no value is of float32, so the model ran in its own types."]


def _no_tf32_note(variants: Mapping[str, Variant], device: str) -> list[str]:
    labels = [label for label, variant in variants.items() if variant.dtype == "tf32"]
    return [f"A CPU has no TF32: {quoted(labels)} ran in float32."] if labels and device == "cpu" else []


def _has_float32(graph: Graph, types: Mapping[str, Any]) -> bool:
    """Whether a value may be float32; also True if a type is unknown, or a body or function may hold one."""
    if graph.functions or any(node.bodies for node in graph.nodes):
        return True
    result = (types.get(value) for value in graph.values())
    return any(not isinstance(type_, TensorType) or type_.dtype == DataType.FLOAT for type_ in result)
