"""A profiled run of the torch executor, operator by operator: time, live bytes, and the live values at the peak."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from workbench.backends.profiling.profile_result import LiveMemory, LiveValue, OperatorRun, Peak
from workbench.backends.profiling.roofline import moved_bytes
from workbench.ir import Graph, Node

PROFILED_RUNS = 5  # runs; each operator has its median time
_MAX_AT_PEAK = 50  # named values; the rest is counted


@dataclass(frozen=True)
class RunProfile:
    """The operators of one run, in order, with bytes and float types of the actual tensors, and the memory.

    Bytes in memory are those of inputs and computed values, without weights.
    """

    operators: list[OperatorRun]
    timeline: list[LiveMemory]
    at_peak: Peak


@dataclass
class Ledger:
    """Bytes of the storages of live tensors; views of one storage count once.

    uncounted: addresses of storages that are not counted, those of the weights.
    """

    uncounted: frozenset[int]
    live_bytes: int = 0
    _counts: dict[int, int] = field(default_factory=dict)  # storage -> live tensors on it
    _values: dict[int, tuple[tuple[str, ...], int]] = field(default_factory=dict)  # storage -> values on it, its bytes
    _seen: set[int] = field(default_factory=set)  # ids of these tensors
    _orphaned: dict[int, tuple[str, ...]] = field(default_factory=dict)  # storage without a tensor -> its values

    def add(self, value: Any, name: str, operands: Collection[str] = ()) -> int:
        """Record a result (a tensor, a list of tensors, or None); returns the bytes that it added.

        operands: the operands of the node; the result may be a view of an operand whose own tensor was freed.
        """
        if isinstance(value, list):
            return sum(self.add(item, name, operands) for item in value)
        if not hasattr(value, "untyped_storage") or id(value) in self._seen:
            return 0
        storage = value.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
        if address == 0 or address in self.uncounted:
            return 0
        left = self._orphaned.pop(address, ())
        allocators = left if any(v in operands for v in left) else ()
        is_live = address in self._counts
        self._counts[address] = self._counts.get(address, 0) + 1
        names, _ = self._values.get(address, (allocators, 0))
        self._values[address] = ((*names, name), size)
        self._seen.add(id(value))
        weakref.finalize(value, self._remove, id(value), address, size).atexit = False
        self.live_bytes += 0 if is_live else size
        return 0 if is_live or allocators else size

    def live_storages(self) -> dict[int, tuple[tuple[str, ...], int]]:
        """For each live storage: its values, beginning with the value that allocated it, and its bytes.

        Call it once after each operator: a storage that lost its last tensor may live on in a view added before.
        """
        self._orphaned.clear()
        return dict(self._values)

    def _remove(self, tensor: int, address: int, size: int) -> None:
        self._seen.discard(tensor)
        self._counts[address] -= 1
        if self._counts[address] == 0:
            del self._counts[address]
            self._orphaned[address], _ = self._values.pop(address)
            self.live_bytes -= size


def profile(executor: Any, tensors: Mapping[str, Any], gpu: str | None = None) -> RunProfile:
    """Profile one run of a `TorchExecutor` on uploaded inputs. On a GPU, times are between CUDA events."""
    ledger = Ledger(frozenset(weight.untyped_storage().data_ptr() for weight in executor.weights))
    for name, value in tensors.items():
        ledger.add(value, name)
    sizes = {name: _read_bytes(value) for name, value in (executor.constants | dict(tensors)).items()}
    mark, milliseconds = _marks(gpu)
    nodes: list[Node] = []
    allocated: list[int] = []
    dtypes: list[str | None] = []
    marks: list[tuple[Any, Any]] = []
    timeline: list[LiveMemory] = []
    before, live_values, begin = ledger.live_bytes, ledger.live_storages(), None
    peak_bytes, at_peak, at_peak_node = before, live_values, 0

    def observe(node: Node, results: tuple[Any, ...]) -> None:
        nonlocal before, live_values, begin, peak_bytes, at_peak, at_peak_node
        marks.append((begin, mark()))
        added = sum(ledger.add(value, name, node.operands) for value, name in zip(results, node.outputs, strict=False))
        after = ledger.live_storages()
        # What the node freed no longer counts, but was live together with the results while the node ran.
        during = before + added
        if during > peak_bytes:
            peak_bytes, at_peak, at_peak_node = during, {**live_values, **after}, len(nodes)
        sizes.update((name, _read_bytes(value)) for value, name in zip(results, node.outputs, strict=False))
        nodes.append(node)
        dtypes.append(_float_type(results))
        allocated.append(added)
        timeline.append(LiveMemory(node.name, node.op, ledger.live_bytes, during))
        before, live_values = ledger.live_bytes, after
        begin = mark()

    begin = mark()
    executor.run_tensors(tensors, observe)
    operators = [
        OperatorRun(
            node.name,
            node.op,
            milliseconds(*pair),
            allocated_bytes=size,
            bytes=moved_bytes(node, sizes),
            dtype=dtype,
        )
        for node, pair, size, dtype in zip(nodes, marks, allocated, dtypes, strict=True)
    ]
    return RunProfile(operators, timeline, _at_peak(executor.graph, nodes, at_peak_node, at_peak.values()))


def _read_bytes(value: Any) -> int | None:
    """Bytes of memory that reading a value takes; elements that repeat (stride 0) count once. None for strings."""
    if value is None:
        return 0
    if isinstance(value, list):
        sizes = [size for item in value if (size := _read_bytes(item)) is not None]
        return sum(sizes) if len(sizes) == len(value) else None
    if not hasattr(value, "untyped_storage"):
        return None
    distinct = math.prod(size for size, stride in zip(value.shape, value.stride(), strict=True) if stride)
    result: int | None = min(value.nbytes, distinct * value.element_size(), value.untyped_storage().nbytes())
    return result


def _float_type(results: Sequence[Any]) -> str | None:
    """The type of the first floating-point result."""
    dtypes = (value.dtype for value in results if hasattr(value, "untyped_storage"))
    return next((str(dtype).removeprefix("torch.") for dtype in dtypes if dtype.is_floating_point), None)


def median_operators(profiles: Sequence[RunProfile]) -> list[OperatorRun]:
    """The operators of several runs of one executor, each with its median time."""
    result, start = [], 0.0
    for runs_of_one in zip(*(profile_.operators for profile_ in profiles), strict=True):
        time_ms = median(operator.time_ms for operator in runs_of_one)
        result.append(replace(runs_of_one[0], time_ms=time_ms, start_ms=start))
        start += time_ms
    return result


def _marks(gpu: str | None) -> tuple[Callable[[], Any], Callable[[Any, Any], float]]:
    """(a function that marks a moment, a function that returns the milliseconds between two marks)."""
    if gpu is None:
        return time.perf_counter, lambda start, end: (end - start) * 1e3
    import torch

    stream = torch.cuda.current_stream(gpu)

    def milliseconds(start: Any, end: Any) -> float:
        end.synchronize()
        result: float = start.elapsed_time(end)
        return result

    return lambda: stream.record_event(torch.cuda.Event(enable_timing=True)), milliseconds


def _at_peak(graph: Graph, nodes: Sequence[Node], index: int, live_values: Any) -> Peak:
    """The live values at the peak, the largest first.

    index:       the index of the operator that runs at the peak.
    live_values: (values, bytes) of each storage, see `Ledger.live_storages`.
    """
    producers = {value: node.name for node in nodes for value in node.outputs}
    last_readers = {value: node.name for node in nodes for value in node.operands}
    order = {node.name: number for number, node in enumerate(nodes)}

    def described(names: tuple[str, ...], size: int) -> LiveValue:
        is_external = any(graph.is_output(name) or graph.is_input(name) for name in names)  # the caller holds them
        readers = [last_readers[name] for name in names if name in last_readers]
        last = "" if is_external or not readers else max(readers, key=order.__getitem__)
        return LiveValue(names[0], size, producers.get(names[0], ""), last)

    largest = sorted((described(names, size) for names, size in live_values), key=lambda value: -value.bytes)
    node = nodes[index] if nodes else None
    name, op = ("", "") if node is None else (node.name, node.op)
    others_bytes = sum(value.bytes for value in largest[_MAX_AT_PEAK:])
    return Peak(name, op, tuple(largest[:_MAX_AT_PEAK]), others_bytes)
