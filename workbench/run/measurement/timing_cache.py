"""The times of operators on a device, each measured once and cached on disk.

The key of a time is the operator, its operands' types, the device and all
relevant versions; with another driver or torch it is measured again.
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

from workbench.errors import UserError
from workbench.fusion.group_calls import group_function, group_name
from workbench.io.exporting import export_onnx
from workbench.ir import Function, Graph
from workbench.layout.problem.probe import Probe, Time, Times
from workbench.run.profiling.progress import OnShare
from workbench.run.worker.client import Worker
from workbench.run.worker.process import RunError
from workbench.support.files import cache_folder

BATCH_BYTES = 256 * 2**20  # bytes of the operands of the operators that are timed by turns
BATCH_PROBES = 200
_AUTO = "auto"
_TABLE = """CREATE TABLE IF NOT EXISTS operator_times (
    operator TEXT, signature TEXT, device TEXT, versions TEXT, best_ns INTEGER, spread_ns INTEGER,
    PRIMARY KEY (operator, signature, device, versions))"""


class CacheError(UserError):
    """The times cannot be cached."""


def cache_file() -> Path:
    """The file of cached times."""
    return cache_folder() / "operator_times.sqlite"


def times_of(worker: Worker, probes: Sequence[Probe], device: str, dtype: str, on_share: OnShare) -> Times:
    """The times of the probes; those that are not cached are measured now, in `worker`.

    on_share: is called with the progress, in words and from 0 to 1; may raise to stop.
    Raises RunError if the device cannot be used, CacheError if the file of times cannot be.
    """
    place, name, versions = _place(worker, device, dtype)
    with _cache(cache_file()) as cache:
        known = dict(_remembered(cache, probes, name, versions))
        missing = [probe for probe in probes if probe not in known]
        for batch, done in _batches(missing):
            on_share(f"timing operators on {place}, {done:,} of {len(missing):,} done", done / len(missing))
            taken = _taken(worker, batch, place, dtype)
            _remember(cache, taken, name, versions)
            known.update(taken)
    return Times(name, known)


def _place(worker: Worker, device: str, dtype: str) -> tuple[str, str, str]:
    """(device, its name with the element type, the versions) for `device`, which may be AUTO."""
    result = worker.request("devices")
    known: Mapping[str, Mapping[str, Any]] = {entry["device"]: entry for entry in result["devices"]}
    gpu = next((name for name in known if name.startswith("cuda")), None)
    place = (gpu or "cpu") if device == _AUTO or (device == "cuda" and gpu is not None) else device
    if place not in known:
        have = f"this machine has {', '.join(known)}; choose one of them, or auto."
        raise RunError(f"Operators cannot be timed on '{device}': {have}", "load")
    entry = known[place]
    threads = f", {entry['threads']} threads" if "threads" in entry else ""
    kind = "" if dtype == "float32" else f", in {dtype}"
    return place, f"{entry['name']}{threads}{kind}", json.dumps(result["versions"], sort_keys=True)


# ---- measuring ------------------------------------------------------------------------


def _batches(probes: Sequence[Probe]) -> Iterator[tuple[list[Probe], int]]:
    """Batches of probes that fit into memory together, each with the number of probes before it."""
    batch: list[Probe] = []
    size = done = 0
    for probe in probes:
        need = _operand_bytes(probe)
        if batch and (size + need > BATCH_BYTES or len(batch) == BATCH_PROBES):
            yield batch, done
            done, batch, size = done + len(batch), [], 0
        batch.append(probe)
        size += need
    if batch:
        yield batch, done


def _operand_bytes(probe: Probe) -> int:
    types = (probe.graph.tensor_type(value) for value in probe.graph.inputs)
    return sum(type_.bytes or 0 for type_ in types if type_ is not None)


def _taken(worker: Worker, probes: Sequence[Probe], device: str, dtype: str) -> dict[Probe, Time]:
    """The times of a batch, without those of probes that do not run."""
    try:
        result = _run(worker, probes, device, dtype)
    except RunError as error:
        if error.stage == "process" or len(probes) == 1:
            if error.stage == "process":
                raise
            return {}
        half = len(probes) // 2
        return {**_taken(worker, probes[:half], device, dtype), **_taken(worker, probes[half:], device, dtype)}
    return {probe: Time(*result[f"p{index}"]) for index, probe in enumerate(probes)}


def _run(worker: Worker, probes: Sequence[Probe], device: str, dtype: str) -> Mapping[str, list[int]]:
    folder = Path(tempfile.mkdtemp(dir=worker.folder, prefix="times-"))
    try:
        export_onnx(_side_by_side(probes), folder / "operators.onnx", check=False)
        model = str(folder / "operators.onnx")
        backend = probes[0].backend
        answer = worker.request("operator_times", model=model, device=device, dtype=dtype, backend=backend)
        times: Mapping[str, list[int]] = answer["times"]
        return times
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _side_by_side(probes: Sequence[Probe]) -> Graph:
    """A graph of all operators, unconnected; node `p3` is the fourth."""
    inputs, outputs, nodes, constants, types, functions = [], [], [], {}, {}, {}
    for index, probe in enumerate(probes):
        own = probe.graph
        names = {value: f"p{index}_{value}" for value in own.values()}
        (node,) = own.nodes
        function = group_function(own, node)
        if function is not None:
            node = node.replace(op_type=f"{group_name(index)}_{node.op_type}")
            functions[node.domain, node.op_type, ""] = Function(node.op_type, node.domain, function.graph)
        node = node.with_values_renamed(names)
        nodes.append(node.replace(name=f"p{index}", outputs=tuple(names.get(v, "") for v in node.outputs)))
        inputs += [names[value] for value in own.inputs]
        outputs += [names[value] for value in own.outputs]
        constants.update({names[value]: tensor for value, tensor in own.constants.items()})
        types.update({names[value]: type_ for value, type_ in own.types.items()})
    opsets = probes[0].graph.opset_imports
    return Graph(
        name="operators", inputs=inputs, outputs=outputs, nodes=nodes, constants=constants, types=types,
        opset_imports=opsets, functions=functions,
    )  # fmt: skip


# ---- the cache -------------------------------------------------------------------------


@contextmanager
def _cache(path: Path) -> Iterator[sqlite3.Connection]:
    """A context with the file of times. Raises CacheError for any failure of it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CacheError(
            f"the folder {path.parent} for operator times cannot be made ({error.strerror or error}); "
            "set WORKBENCH_CACHE to one that can be written"
        ) from None
    try:
        with closing(sqlite3.connect(path, timeout=30)) as cache:
            cache.execute(_TABLE)
            yield cache
    except sqlite3.Error as error:
        raise CacheError(
            f"the file of operator times {path} cannot be used ({error}); delete it, or set WORKBENCH_CACHE to a "
            "folder that can be written"
        ) from None


def _remembered(
    cache: sqlite3.Connection, probes: Sequence[Probe], device: str, versions: str
) -> Iterator[tuple[Probe, Time]]:
    rows = cache.execute(
        "SELECT operator, signature, best_ns, spread_ns FROM operator_times WHERE device = ? AND versions = ?",
        (device, versions),
    )
    known = {(operator, signature): Time(*times) for operator, signature, *times in rows if all(map(_is_time, times))}
    for probe in probes:
        result = known.get((probe.operator, probe.signature))
        if result is not None:
            yield probe, result


def _is_time(number: object) -> bool:
    """Whether an entry has the form of a time; others are measured again."""
    return isinstance(number, int) and number >= 0


def _remember(cache: sqlite3.Connection, taken: Mapping[Probe, Time], device: str, versions: str) -> None:
    rows = [(p.operator, p.signature, device, versions, time.best, time.spread) for p, time in taken.items()]
    with cache:
        cache.executemany("INSERT OR REPLACE INTO operator_times VALUES (?, ?, ?, ?, ?, ?)", rows)
