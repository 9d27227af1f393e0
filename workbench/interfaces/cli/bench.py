"""The command `bench`: latency and memory of models, interleaved, on the chosen backends and element types."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.backends.memory import in_bytes
from workbench.backends.torch.executor.compilers import compiler_note
from workbench.formats.io.dims import parse_dims
from workbench.interfaces.cli.arguments import (
    check_writes,
    dims_argument,
    input_arguments,
    measure_arguments,
    verifier_of,
)
from workbench.interfaces.cli.exit_codes import DONE, FAILED
from workbench.interfaces.cli.printing import cells_of, print_table, say, write_json
from workbench.interfaces.cli.runs import keep_bench
from workbench.ir import Graph
from workbench.run.measurement.measurement_result import FailedVariant, MeasuredVariant, Measurement

HELP = "measure latency and memory"
EXAMPLES = (
    "model.onnx model.opt.onnx --backend torch,onnxruntime --dtype float32",
    "model.onnx --trace trace.json",
)
DETAILS = """
Models, backends and element types are measured interleaved, each backend in a process of its own, until each median is
known to 1 %, in at least 10 and at most 200 iterations or 20 seconds. The error stands beside the speed. Where other
programs used the cores meanwhile, no ratio is given. Runs are kept; `runs` prints them.

Backends:

- torch: operator by operator
- fused: each group of operators by the fastest of its kernels, which is a call of oneDNN, of BLAS or of a convolution
kernel of ours, a kernel that torch's compiler makes, or the operators one by one. Kernels are compiled when a model is
opened and kept in the cache folder (WORKBENCH_CACHE). Without a C++ compiler (g++, or the one that CXX names) the calls
of oneDNN and BLAS remain, and the other groups run operator by operator, which is said before.
- arena: a plan of memory that is run, one block of bytes with every value at its offset. Results of operators that have
no kernel for that are copied. What operators allocate in passing is named beside the arena. Outputs lie in the arena
until the next run.
- streams: concurrent CUDA streams in such an arena, recorded as one CUDA graph. Both ways are timed when a model is
opened. Operators run one after the other on a CPU, and on a GPU where that is faster or last bits would differ.
- torch-compile, torch-compile-autotuned: torch's compiler; the second tries several kernels for every product and
convolution, which takes minutes
- cuda-graphs: the operators one by one, launched together
- onnxruntime: as users run it, with its optimizations

On a GPU all but torch and onnxruntime are recorded as a CUDA graph. Where that fails, the operators that exchange data
with the host are named.

Element types: tf32 rounds the operands of float32 products to ten bits, and a CPU has none; mixed is torch's autocast.

A trace, which the page Measure writes too, is in the format that https://ui.perfetto.dev and chrome://tracing open. A
variant is a process: operators with their times and arrows to their nodes, the kernels of fused, and live memory as
counters; of a recorded run on a GPU also its kernels by stream. The slice of a node in a group has no length.
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("models", nargs="+", metavar="MODEL", help="one or several, measured interleaved")
    dims_argument(command)
    input_arguments(command)
    measure_arguments(command)
    command.add_argument("--json", metavar="R.json", help="write every number")
    command.add_argument("--trace", metavar="T.json", help="write operators, nodes and memory over time, for Perfetto")


def run(chosen: argparse.Namespace) -> int:
    from workbench.formats.io import load_model

    dims = parse_dims(chosen.dims)
    check_writes([chosen.json, chosen.trace], chosen.models, [chosen.inputs])
    loaded: dict[str, Any] = {}
    for path in chosen.models:
        if path not in loaded:
            loaded[path] = load_model(path, {} if loaded else dims)
    models = {label: loaded[path] for label, path in zip(numbered(chosen.models), chosen.models, strict=True)}
    request = BenchRequest(
        device=chosen.device,
        backends=chosen.backend,
        dtypes=chosen.dtype or ("float32",),
        repeat=chosen.repeat,
        cold=chosen.cold,
        time_limit=chosen.time_limit,
        memory_limit=chosen.memory_limit,
        inputs=chosen.inputs,
        seed=chosen.seed,
        given=dims,
        json=chosen.json,
        trace=chosen.trace,
    )
    return bench_command(models, request)


@dataclass(frozen=True)
class BenchRequest:
    """The arguments of `bench`. given: dims that the user bound. time_limit: seconds. memory_limit: gigabytes."""

    device: str
    backends: Sequence[str]
    dtypes: Sequence[str]
    repeat: int | None
    cold: bool
    time_limit: float
    memory_limit: float | None
    inputs: str | None
    seed: int
    given: Collection[str]
    json: str | None
    trace: str | None


def numbered(paths: Sequence[str]) -> list[str]:
    """The paths as labels; a repeated one gets a number, so that a model can be measured against itself."""
    labels, counts = [], Counter[str]()
    for path in paths:
        counts[path] += 1
        labels.append(path if counts[path] == 1 else f"{path} ({counts[path]})")
    return labels


def bench_command(models: Mapping[str, Graph], request: BenchRequest) -> int:
    """Measure, print and keep the measurement. FAILED if a supported variant could not run, else DONE."""
    from workbench.run.measurement.measure import measure_models, refused_sizes
    from workbench.run.measurement.trace import trace_document
    from workbench.run.measurement.variants import combined, validate_request

    validate_request(request.backends, request.dtypes, request.repeat)
    if note := compiler_note(request.backends, request.device):
        say(f"note: {note}", file=sys.stderr)
    path, first = next(iter(models.items()))
    variants = combined(models, request.backends, request.dtypes)
    with verifier_of(first, request.inputs, request.seed, request.given, patient=True) as verifier:
        with refused_sizes(path, {name: first.dims[name] for name in request.given}):
            inputs, reference = verifier.inputs, verifier.reference
        measurement = measure_models(
            variants,
            inputs=inputs,
            reference=reference,
            device=request.device,
            repeat=request.repeat,
            cold=request.cold,
            worker=verifier.worker,
            timeout_s=request.time_limit,
            memory_limit_bytes=in_bytes(request.memory_limit),
            on_progress=_print_waiting(),
        )
    _print_bench(measurement)
    if len(models) == 2:
        print_difference(measurement, *models.values())
    if request.json:
        write_json(request.json, measurement.to_json())
    if request.trace:
        write_json(
            request.trace, trace_document(measurement, {label: variant.graph for label, variant in variants.items()})
        )
    keep_bench(measurement, variants, models)
    return FAILED if measurement.failures else DONE


def _print_waiting() -> Callable[[Mapping[str, Any]], None]:
    """A callback that prints on stderr how many jobs are ahead, each number once."""
    printed: set[str] = set()

    def on_progress(event: Mapping[str, Any]) -> None:
        if event["stage"].startswith("waiting") and event["stage"] not in printed:
            printed.add(event["stage"])
            say(event["stage"], sys.stderr)

    return on_progress


# ---- printing ---------------------------------------------------------------------------


_FIGURES = (
    *("median ms", "min", "p90", "p99", "ratio", "ratio, 95 % interval", "first result s", "peak MB", "peak covers"),
    "max error",
)


def _print_bench(measurement: Measurement) -> None:
    from workbench.run.measurement.formatting import (
        compared_backends,
        compared_pipelines,
        fastest_variant,
        figures,
        kernels_text,
        machine_text,
    )

    settings = {f"; {variant.backend}, {variant.dtype}" for variant in measurement.variants.values()}
    say(machine_text(measurement.machine) + ("".join(settings) if len(settings) == 1 else ""))
    if measurement.dims:
        say("dims: " + ", ".join(f"{name}={size}" for name, size in measurement.dims.items()))
    rows = [(label, *cells_of(figures(v), _FIGURES)) for label, v in measurement.variants.items()]
    print_table([("variant", *_FIGURES), *rows], left=(0,))
    if fastest := fastest_variant(measurement.ran):
        label, comparison, second = fastest
        say(f"fastest here: '{label}' is {comparison} '{second}'")
    for label, comparison, first in compared_pipelines(measurement.ran):
        say(f"'{label}' is {comparison} '{first}'")
    for label, comparison, first in compared_backends(measurement.ran):
        say(f"across backends and precisions: '{label}' is {comparison} '{first}'")
    for label, variant in measurement.variants.items():
        if isinstance(variant, FailedVariant):
            say(f"{label}: {variant.failed}")
            continue
        if variant.error is not None and not variant.error.ok:
            say(f"{label}: {variant.error.sentence}")
        if variant.kernels:
            say(f"{label}: {kernels_text(variant.kernels, variant.first_result_s)}")
        if variant.streams is not None:
            say(f"{label}: {variant.streams.sentence}")
        if variant.cold_median_ms is not None:
            say(f"{label}: {variant.cold_median_ms:,.2f} ms on an emptied cache")
    for line, labels in _shared_lines(measurement.ran).items():
        say(f"{line} ({', '.join(map(repr, labels))})")
    for note in measurement.notes:
        say(f"note: {note}", file=sys.stderr)


def print_difference(measurement: Measurement, first: Graph, second: Graph) -> None:
    """Print the kinds of difference of two models with their times, by the first backend that ran both.

    Nothing where the machine was too busy for a factor, or where their inputs or outputs differ.
    """
    from workbench.errors import UserError
    from workbench.presentation.explanations.digest import digest_of_difference
    from workbench.presentation.explanations.digest_text import digest_rows, left_columns
    from workbench.presentation.explanations.time_changes import NAMES_OF_BACKENDS, difference_with_times

    pairs = itertools.combinations(measurement.ran.values(), 2)
    same = ((one, two) for one, two in pairs if (one.backend, one.dtype) == (two.backend, two.dtype))
    before, after = next(same, (None, None))
    if before is None or after is None or after.ratio.ratio_busy or not (before.operators and after.operators):
        return
    try:
        digest = digest_of_difference(first, second)
    except UserError:
        return
    if digest.kinds:
        rows = digest_rows(difference_with_times(before, after, (first, second), digest))
        say(f"where the difference went, by {NAMES_OF_BACKENDS.get(after.backend, after.backend)}'s profile:")
        print_table(rows, left=left_columns(rows))


def _shared_lines(variants: Mapping[str, MeasuredVariant]) -> dict[str, list[str]]:
    """Lines about what the peak measures and what fell back, each with the labels of the variants that it is about."""
    results: dict[str, list[str]] = {}
    for label, variant in variants.items():
        lines = [f"peak of {variant.memory.counted}: {variant.memory.kind}"]
        lines += [f"{operators} fell back: {reason}" for operators, reason in sorted(variant.fallbacks.items())]
        for line in lines:
            results.setdefault(line, []).append(label)
    return results
