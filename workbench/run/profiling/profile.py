"""A profiled run of the torch executor, operator by operator: time, live bytes, and the live values at the peak."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from workbench.ir import Graph, Node
from workbench.run.profiling.profiled import LiveMemory, LiveValue, OperatorRun, Peak
from workbench.run.profiling.roofline import moved_bytes

PROFILED = 5  # runs, of which each operator's median is taken
MOST_AT_PEAK = 50  # named values; the rest is counted


@dataclass(frozen=True)
class RunProfile:
    """The operators of one run, in order, with bytes and float types as the tensors had them, and the memory.

    Bytes in memory are those of inputs and computed values, without weights.
    """

    operators: list[OperatorRun]
    timeline: list[LiveMemory]
    at_peak: Peak


@dataclass
class Ledger:
    """Bytes of the storages of live tensors; views of one storage count once.

    free: storages that are not counted, those of the weights.
    """

    free: frozenset[int]
    live_bytes: int = 0
    _holders: dict[int, int] = field(default_factory=dict)  # storage -> live tensors on it
    _values: dict[int, tuple[tuple[str, ...], int]] = field(default_factory=dict)  # storage -> values on it, its bytes
    _seen: set[int] = field(default_factory=set)  # ids of those tensors
    _left: dict[int, tuple[str, ...]] = field(default_factory=dict)  # storage without a tensor -> values it had

    def enter(self, value: Any, name: str, operands: Collection[str] = ()) -> int:
        """Record a result (a tensor, a list of tensors, or None); returns the bytes that it added.

        operands: the values from which it was computed; it may be a view of one whose own tensor is gone.
        """
        if isinstance(value, list):
            return sum(self.enter(item, name, operands) for item in value)
        if not hasattr(value, "untyped_storage") or id(value) in self._seen:
            return 0
        storage = value.untyped_storage()
        place, size = storage.data_ptr(), storage.nbytes()
        if place == 0 or place in self.free:
            return 0
        left = self._left.pop(place, ())
        viewed = left if any(v in operands for v in left) else ()
        is_held = place in self._holders
        self._holders[place] = self._holders.get(place, 0) + 1
        names, _ = self._values.get(place, (viewed, 0))
        self._values[place] = ((*names, name), size)
        self._seen.add(id(value))
        weakref.finalize(value, self._leave, id(value), place, size).atexit = False
        self.live_bytes += 0 if is_held else size
        return 0 if is_held or viewed else size

    def living(self) -> dict[int, tuple[tuple[str, ...], int]]:
        """For each live storage: the values on it, beginning with the one that allocated it, and its bytes.

        Call it once after each operator: a storage that lost its last tensor may live on in a view entered before.
        """
        self._left.clear()
        return dict(self._values)

    def _leave(self, tensor: int, place: int, size: int) -> None:
        self._seen.discard(tensor)
        self._holders[place] -= 1
        if self._holders[place] == 0:
            del self._holders[place]
            self._left[place], _ = self._values.pop(place)
            self.live_bytes -= size


def profile(executor: Any, tensors: Mapping[str, Any], gpu: str | None = None) -> RunProfile:
    """Profile one run of a `TorchExecutor` on uploaded inputs. On a GPU, times are between CUDA events."""
    ledger = Ledger(frozenset(weight.untyped_storage().data_ptr() for weight in executor.weights))
    for name, value in tensors.items():
        ledger.enter(value, name)
    sizes = {name: _read_bytes(value) for name, value in (executor.constants | dict(tensors)).items()}
    mark, milliseconds = _marks(gpu)
    nodes: list[Node] = []
    allocated: list[int] = []
    dtypes: list[str | None] = []
    marks: list[tuple[Any, Any]] = []
    timeline: list[LiveMemory] = []
    before, living, begin = ledger.live_bytes, ledger.living(), None
    peak_bytes, at_peak, at_peak_node = before, living, 0

    def observe(node: Node, results: tuple[Any, ...]) -> None:
        nonlocal before, living, begin, peak_bytes, at_peak, at_peak_node
        marks.append((begin, mark()))
        added = sum(
            ledger.enter(value, name, node.operands) for value, name in zip(results, node.outputs, strict=False)
        )
        after = ledger.living()
        # What the node freed is gone already, but was live beside the results while it ran.
        during = before + added
        if during > peak_bytes:
            peak_bytes, at_peak, at_peak_node = during, {**living, **after}, len(nodes)
        sizes.update((name, _read_bytes(value)) for value, name in zip(results, node.outputs, strict=False))
        nodes.append(node)
        dtypes.append(_float_type(results))
        allocated.append(added)
        timeline.append(LiveMemory(node.name, node.op, ledger.live_bytes, during))
        before, living = ledger.live_bytes, after
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
    """Bytes that reading all of a value takes from memory, elements that repeat (stride 0) once; None for strings."""
    if value is None:
        return 0
    if isinstance(value, list):
        sizes = [size for item in value if (size := _read_bytes(item)) is not None]
        return sum(sizes) if len(sizes) == len(value) else None
    if not hasattr(value, "untyped_storage"):
        return None
    there = math.prod(size for size, stride in zip(value.shape, value.stride(), strict=True) if stride)
    result: int | None = min(value.nbytes, there * value.element_size(), value.untyped_storage().nbytes())
    return result


def _float_type(results: Sequence[Any]) -> str | None:
    """The type of the first floating-point result."""
    dtypes = (value.dtype for value in results if hasattr(value, "untyped_storage"))
    return next((str(dtype).removeprefix("torch.") for dtype in dtypes if dtype.is_floating_point), None)


def median_operators(profiles: Sequence[RunProfile]) -> list[OperatorRun]:
    """The operators of several runs of one executor, each with its median time."""
    result, start = [], 0.0
    for same in zip(*(taken.operators for taken in profiles), strict=True):
        time_ms = median(operator.time_ms for operator in same)
        result.append(replace(same[0], time_ms=time_ms, start_ms=start))
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


def _at_peak(graph: Graph, nodes: Sequence[Node], index: int, living: Any) -> Peak:
    """The live values at the peak, the largest first. index: of the operator that runs then; living: see `Ledger`."""
    made_by = {value: node.name for node in nodes for value in node.outputs}
    read_last_by = {value: node.name for node in nodes for value in node.operands}
    order = {node.name: number for number, node in enumerate(nodes)}

    def described(names: tuple[str, ...], size: int) -> LiveValue:
        stays = any(graph.is_output(name) or graph.is_input(name) for name in names)  # the caller holds them
        readers = [read_last_by[name] for name in names if name in read_last_by]
        last = "" if stays or not readers else max(readers, key=order.__getitem__)
        return LiveValue(names[0], size, made_by.get(names[0], ""), last)

    largest = sorted((described(names, size) for names, size in living), key=lambda value: -value.bytes)
    node = nodes[index] if nodes else None
    name, op = ("", "") if node is None else (node.name, node.op)
    others_bytes = sum(value.bytes for value in largest[MOST_AT_PEAK:])
    return Peak(name, op, tuple(largest[:MOST_AT_PEAK]), others_bytes)
