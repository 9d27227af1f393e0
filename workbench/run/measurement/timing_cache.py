"""The times of operators on a device, each measured once and cached on disk.

The key of a time is the operator, its operands' types, the device and all
relevant versions; with another driver or torch version it is measured again.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from workbench.backends.profiling.progress import ProgressCallback
from workbench.errors import UserError
from workbench.formats.io.exporting import export_onnx
from workbench.ir import Function, Graph
from workbench.planning.fusion.group_calls import group_function, group_name
from workbench.planning.layout.problem.operator_benchmark import OperatorBenchmark, Time, Times
from workbench.run.worker.client import Worker
from workbench.run.worker.process import RunError
from workbench.support.files import cache_folder

BATCH_BYTES = 256 * 2**20  # the bytes of the operands of the operators that are timed together
BATCH_BENCHMARKS = 200
_AUTO = "auto"
_TABLE = """CREATE TABLE IF NOT EXISTS operator_times (
    operator TEXT, signature TEXT, device TEXT, versions TEXT, best_ns INTEGER, spread_ns INTEGER,
    PRIMARY KEY (operator, signature, device, versions))"""


class CacheError(UserError):
    """The times cannot be cached."""


def cache_file() -> Path:
    """The file of cached times."""
    return cache_folder() / "operator_times.sqlite"


def times_of(
    worker: Worker, benchmarks: Sequence[OperatorBenchmark], device: str, dtype: str, on_progress: ProgressCallback
) -> Times:
    """The times of the benchmarks; those that are not cached are measured now, in `worker`.

    on_progress: is called with the progress, a text and the fraction done, from 0 to 1; may raise to stop.
    Raises RunError if the device cannot be used, CacheError if the file of times cannot be used.
    """
    resolved, device_key, versions = _device_and_versions(worker, device, dtype)
    with _cache(cache_file()) as cache:
        known = dict(_cached_times(cache, benchmarks, device_key, versions))
        missing = [benchmark for benchmark in benchmarks if benchmark not in known]
        for batch, done in _batches(missing):
            on_progress(f"timing operators on {resolved}, {done:,} of {len(missing):,} done", done / len(missing))
            measured = _measured(worker, batch, resolved, dtype)
            _store(cache, measured, device_key, versions)
            known.update(measured)
    return Times(device_key, known)


def _device_and_versions(worker: Worker, device: str, dtype: str) -> tuple[str, str, str]:
    """(device, its name with threads and element type, the versions) for `device`, which may be AUTO."""
    result = worker.request("devices")
    known: Mapping[str, Mapping[str, Any]] = {entry["device"]: entry for entry in result["devices"]}
    gpu = next((name for name in known if name.startswith("cuda")), None)
    resolved = (gpu or "cpu") if device == _AUTO or (device == "cuda" and gpu is not None) else device
    if resolved not in known:
        available = f"this machine has {', '.join(known)}; choose one of them, or auto."
        raise RunError(f"Operators cannot be timed on '{device}': {available}", "load")
    entry = known[resolved]
    threads = f", {entry['threads']} threads" if "threads" in entry else ""
    kind = "" if dtype == "float32" else f", in {dtype}"
    return resolved, f"{entry['name']}{threads}{kind}", json.dumps(result["versions"], sort_keys=True)


# ---- measuring ------------------------------------------------------------------------


def _batches(benchmarks: Sequence[OperatorBenchmark]) -> Iterator[tuple[list[OperatorBenchmark], int]]:
    """Batches of benchmarks that fit into memory together, each with the number of benchmarks before it."""
    batch: list[OperatorBenchmark] = []
    size = done = 0
    for benchmark in benchmarks:
        need = _operand_bytes(benchmark)
        if batch and (size + need > BATCH_BYTES or len(batch) == BATCH_BENCHMARKS):
            yield batch, done
            done, batch, size = done + len(batch), [], 0
        batch.append(benchmark)
        size += need
    if batch:
        yield batch, done


def _operand_bytes(benchmark: OperatorBenchmark) -> int:
    types = (benchmark.graph.tensor_type(value) for value in benchmark.graph.inputs)
    return sum(type_.bytes or 0 for type_ in types if type_ is not None)


def _measured(
    worker: Worker, benchmarks: Sequence[OperatorBenchmark], device: str, dtype: str
) -> dict[OperatorBenchmark, Time]:
    """The times of a batch, without those of benchmarks that do not run."""
    try:
        result = _run(worker, benchmarks, device, dtype)
    except RunError as error:
        if error.stage == "process" or len(benchmarks) == 1:
            if error.stage == "process":
                raise
            return {}
        half = len(benchmarks) // 2
        return {
            **_measured(worker, benchmarks[:half], device, dtype),
            **_measured(worker, benchmarks[half:], device, dtype),
        }
    return {benchmark: Time(*result[f"p{index}"]) for index, benchmark in enumerate(benchmarks)}


def _run(worker: Worker, benchmarks: Sequence[OperatorBenchmark], device: str, dtype: str) -> Mapping[str, list[int]]:
    folder = Path(tempfile.mkdtemp(dir=worker.folder, prefix="times-"))
    try:
        export_onnx(_disjoint_union(benchmarks), folder / "operators.onnx", check=False)
        model = str(folder / "operators.onnx")
        backend = benchmarks[0].backend
        answer = worker.request("operator_times", model=model, device=device, dtype=dtype, backend=backend)
        times: Mapping[str, list[int]] = answer["times"]
        return times
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _disjoint_union(benchmarks: Sequence[OperatorBenchmark]) -> Graph:
    """A graph of all operators, unconnected; node `p3` is that of the fourth benchmark."""
    inputs, outputs, nodes, constants, types, functions = [], [], [], {}, {}, {}
    for index, benchmark in enumerate(benchmarks):
        subgraph = benchmark.graph
        names = {value: f"p{index}_{value}" for value in subgraph.values()}
        (node,) = subgraph.nodes
        function = group_function(subgraph, node)
        if function is not None:
            node = node.replace(op_type=f"{group_name(index)}_{node.op_type}")
            functions[node.domain, node.op_type, ""] = Function(node.op_type, node.domain, function.graph)
        node = node.with_values_renamed(names)
        nodes.append(node.replace(name=f"p{index}", outputs=tuple(names.get(v, "") for v in node.outputs)))
        inputs += [names[value] for value in subgraph.inputs]
        outputs += [names[value] for value in subgraph.outputs]
        constants.update({names[value]: tensor for value, tensor in subgraph.constants.items()})
        types.update({names[value]: type_ for value, type_ in subgraph.types.items()})
    opsets = benchmarks[0].graph.opset_imports
    return Graph(
        name="operators", inputs=inputs, outputs=outputs, nodes=nodes, constants=constants, types=types,
        opset_imports=opsets, functions=functions,
    )  # fmt: skip


# ---- the cache -------------------------------------------------------------------------


@contextmanager
def _cache(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to the file of times. Raises CacheError for any failure of the file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CacheError(
            f"the folder {path.parent} for operator times cannot be created ({error.strerror or error}); "
            "set WORKBENCH_CACHE to a writable folder"
        ) from None
    try:
        with closing(sqlite3.connect(path, timeout=30)) as cache:
            cache.execute(_TABLE)
            yield cache
    except sqlite3.Error as error:
        raise CacheError(
            f"the file of operator times {path} cannot be used ({error}); delete it, or set WORKBENCH_CACHE to a "
            "writable folder"
        ) from None


def _cached_times(
    cache: sqlite3.Connection, benchmarks: Sequence[OperatorBenchmark], device: str, versions: str
) -> Iterator[tuple[OperatorBenchmark, Time]]:
    rows = cache.execute(
        "SELECT operator, signature, best_ns, spread_ns FROM operator_times WHERE device = ? AND versions = ?",
        (device, versions),
    )
    known = {(operator, signature): Time(*times) for operator, signature, *times in rows if all(map(_is_time, times))}
    for benchmark in benchmarks:
        result = known.get((benchmark.operator, benchmark.signature))
        if result is not None:
            yield benchmark, result


def _is_time(number: object) -> bool:
    """Whether an entry has the form of a time; others are measured again."""
    return isinstance(number, int) and number >= 0


def _store(cache: sqlite3.Connection, measured: Mapping[OperatorBenchmark, Time], device: str, versions: str) -> None:
    rows = [(p.operator, p.signature, device, versions, time.best, time.spread) for p, time in measured.items()]
    with cache:
        cache.executemany("INSERT OR REPLACE INTO operator_times VALUES (?, ?, ?, ?, ?, ?)", rows)
