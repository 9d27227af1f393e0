"""A measurement in Chrome's Trace Event Format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. Each variant is a process,
with the threads of `_THREADS`; a stream of a GPU would be one more. Times are microseconds from the beginning of a run
operator by operator, of whole nanoseconds: Perfetto drops a slice that overlaps with another of its thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from workbench.fusion.group_calls import group_function
from workbench.ir import Graph, Node
from workbench.run.measurement.measured import MeasuredVariant, Measurement
from workbench.run.profiling.profiled import Kernel, OperatorRun

_THREADS = ("kernels", "operators", "nodes")  # those without a slice are left out
_Event = dict[str, Any]


def trace_document(measurement: Measurement, graphs: Mapping[str, Graph]) -> dict[str, Any]:
    """The measurement as the JSON object of the format, without NaN. graphs: that were measured, by variant.

    An operator's slice has the time that was measured for it, and an arrow to each node of the graph that it computes:
    the one of its name, or those of its group. The slice of a node lasts as long as its operator, and 0 in a group, of
    whose nodes no time is known. A kernel of the backend `fused` begins with its operator, or sooner if it would
    overlap with the next: its time is of other runs, see `Kernel`. Without a graph there are no nodes.
    """
    numbers, arrows = count(1), count(1)  # threads differ across processes too: Perfetto names them by number
    processes = (
        _process(label, variant, graphs.get(label), numbers, arrows) for label, variant in measurement.ran.items()
    )
    return {
        "traceEvents": [event for process in processes for event in process],
        "otherData": {
            "machine": measurement.machine.to_json(),
            "variants": {label: _facts(variant) for label, variant in measurement.ran.items()},
            "failed": measurement.failures,
            "notes": list(measurement.notes),
        },
    }


def _facts(variant: MeasuredVariant) -> dict[str, Any]:
    """What the times and the memory are of."""
    return {
        "backend": variant.backend,
        "dtype": variant.dtype,
        "median_ms": variant.latency.median_ms,
        "sum_ms": variant.sum_ms,
        "difference": variant.difference,
        "weights_bytes": variant.memory.weights_bytes,
        "memory": variant.memory.kind,
    }


def _process(
    label: str, variant: MeasuredVariant, graph: Graph | None, numbers: Iterator[int], arrows: Iterator[int]
) -> Iterator[_Event]:
    """The events of one variant. numbers: the next ones for processes and threads. arrows: those for arrows."""
    pid = next(numbers)
    threads = {name: next(numbers) for name in _THREADS}
    steps = _steps(variant, {} if graph is None else _nodes_by_name(graph))
    yield _named("process_name", pid, None, label)
    yield {"ph": "M", "name": "process_labels", "pid": pid, "args": {"labels": f"{variant.backend}, {variant.dtype}"}}
    events = [event for step in steps for event in _slices(step, pid, threads, arrows)]
    used = {event["tid"] for event in events}
    yield from (_named("thread_name", pid, tid, name) for name, tid in threads.items() if tid in used)
    yield from events
    for step, moment in zip(steps, variant.memory.timeline, strict=False):  # some backends report no timeline
        where = {"ph": "C", "pid": pid, "tid": threads["operators"]}
        during, after = {"bytes": moment.peak_bytes}, {"bytes": moment.live_bytes}
        yield {**where, "name": "live memory while an operator runs", "ts": _us(step.begin), "args": during}
        yield {**where, "name": "live memory after an operator", "ts": _us(step.end), "args": after}


def _named(kind: str, pid: int, tid: int | None, name: str) -> _Event:
    thread = {} if tid is None else {"tid": tid}
    return {"ph": "M", "name": kind, "pid": pid, **thread, "args": {"name": name}}


# ---- what ran when -----------------------------------------------------------------------


@dataclass(frozen=True)
class _Step:
    """An operator in a run operator by operator; times are nanoseconds.

    kernel: that ran it, which is drawn from `kernel_begin` on. nodes: of the graph, that it computes.
    """

    operator: OperatorRun
    begin: int
    end: int
    kernel: Kernel | None
    kernel_begin: int
    nodes: Sequence[Node]

    def later(self, by: int) -> _Step:
        return replace(self, begin=self.begin + by, end=self.end + by, kernel_begin=self.kernel_begin + by)

    @property
    def is_group(self) -> bool:
        return self.kernel is not None and len(self.kernel.operators) > 1


def _steps(variant: MeasuredVariant, nodes: Mapping[str, Node]) -> list[_Step]:
    """Made from the last to the first: a kernel ends before the next begins, and begins no later than its operator,
    since an arrow cannot go back in time. If the first would begin before 0, all begin later by as much."""
    kernels = {kernel.group: kernel for kernel in variant.kernels}
    results: list[_Step] = []
    next_kernel = _ns(variant.sum_ms)
    for operator in reversed(variant.operators):
        begin, end = _ns(operator.start_ms), _ns(operator.start_ms + operator.time_ms)
        kernel, kernel_begin = kernels.get(operator.name), begin
        if kernel is not None:
            kernel_begin = next_kernel = min(begin, next_kernel - _ns(kernel.time_ms))
        names = (operator.name,) if kernel is None else kernel.operators
        computed = [nodes[name] for name in names if name in nodes]
        results.append(_Step(operator, begin, end, kernel, kernel_begin, computed))
    return [step.later(max(0, -next_kernel)) for step in reversed(results)]


def _nodes_by_name(graph: Graph) -> dict[str, Node]:
    """The nodes of the graph, and those in the groups that a pass has made."""
    bodies = (function.graph.nodes for node in graph.nodes if (function := group_function(graph, node)))
    return {node.name: node for nodes in (*bodies, graph.nodes) for node in nodes}


# ---- events ------------------------------------------------------------------------------


def _slices(step: _Step, pid: int, threads: Mapping[str, int], arrows: Iterator[int]) -> Iterator[_Event]:
    """The slices of one operator, each followed by the ends of its arrows, which bind to the slice before them."""
    operator, kernel = step.operator, step.kernel
    name = operator.name or operator.op
    sources = [_complete(pid, threads["operators"], name, step.begin, step.end, _operator_args(step))]
    if kernel is not None:
        end = step.kernel_begin + _ns(kernel.time_ms)
        args = _kernel_args(kernel)
        sources.append(_complete(pid, threads["kernels"], kernel.group, step.kernel_begin, end, args))
    arrivals = [[(next(arrows), source) for source in sources] for _ in step.nodes]
    yield from sources
    yield from (_arrow("s", number, source) for arriving in arrivals for number, source in arriving)
    for node, arriving in zip(step.nodes, arrivals, strict=True):
        group = {"group": operator.name} if step.is_group else {}
        args = {"operator_type": node.op, "reads": list(node.inputs), "writes": list(node.outputs), **group}
        end = step.begin if step.is_group else step.end
        target = _complete(pid, threads["nodes"], node.name, step.begin, end, args)
        yield target
        yield from ({**_arrow("f", number, target), "bp": "e"} for number, _ in arriving)


def _operator_args(step: _Step) -> dict[str, Any]:
    operator = step.operator
    return _known(
        operator_type=operator.op,
        nodes=[node.name for node in step.nodes],
        bytes=operator.bytes,
        allocated_bytes=operator.allocated_bytes,
        flops=operator.flops,
        dtype=operator.dtype,
        share_of_roof=operator.of_roof,
    )


def _kernel_args(kernel: Kernel) -> dict[str, Any]:
    return _known(
        by=kernel.by,
        how=kernel.how,
        nodes=list(kernel.operators),
        one_by_one_ms=kernel.torch_ms,
        generated_kernels=kernel.kernels,
        bytes=kernel.bytes,
        same_as=kernel.same_as or None,
    )


def _known(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _complete(pid: int, tid: int, name: str, begin: int, end: int, args: dict[str, Any]) -> _Event:
    """A complete event. begin, end: nanoseconds."""
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": _us(begin), "dur": _us(end - begin), "args": args}


def _arrow(phase: str, number: int, at: _Event) -> _Event:
    """An end of a flow, at the beginning of a slice. phase: "s" or "f"."""
    where = {key: at[key] for key in ("pid", "tid", "ts")}
    return {"ph": phase, "id": number, "cat": "graph", "name": "computes", **where}


def _ns(milliseconds: float) -> int:
    return round(milliseconds * 1e6)


def _us(nanoseconds: int) -> float:
    return nanoseconds / 1e3
