"""A measurement in Chrome's Trace Event Format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. Each variant is a process,
with the threads of `_THREADS`. The kernels of a recorded run on a GPU are another process, with a thread for each
stream. Times are microseconds from the beginning of a run operator by operator, or of the first kernel, in whole
nanoseconds: Perfetto drops a slice that overlaps with another of its thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from workbench.backends.profiling.profile_result import Kernel, OperatorRun
from workbench.ir import Graph, Node
from workbench.planning.fusion.group_calls import group_function
from workbench.run.measurement.measurement_result import MeasuredVariant, Measurement

_THREADS = ("kernels", "operators", "nodes")  # those without a slice are left out
_Event = dict[str, Any]


def trace_document(measurement: Measurement, graphs: Mapping[str, Graph]) -> dict[str, Any]:
    """The measurement as the JSON object of the format, without NaN. graphs: the measured ones, by variant.

    An operator's slice has the measured time, and an arrow to each node that the operator computes: the node of its
    name, or the nodes of its group. The slice of a node lasts as long as its operator. In a group it lasts 0, since
    the time of each node is unknown. A kernel of the backend `fused` begins with its operator, or sooner if it would
    overlap with the next kernel: its time is from other runs, see `Kernel`. Without a graph there are no nodes.
    """
    ids, arrows = count(1), count(1)  # Perfetto names threads by id across all processes
    ran = measurement.ran.items()
    processes = [_process(label, variant, graphs.get(label), ids, arrows) for label, variant in ran]
    processes += [_on_device(label, variant, ids) for label, variant in ran if variant.device_kernels]
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
    """The variant, its times and its memory in total."""
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
    label: str, variant: MeasuredVariant, graph: Graph | None, ids: Iterator[int], arrows: Iterator[int]
) -> Iterator[_Event]:
    """The events of one variant. ids: of processes and threads. arrows: ids of arrows."""
    pid = next(ids)
    threads = {name: next(ids) for name in _THREADS}
    steps = _steps(variant, {} if graph is None else _nodes_by_name(graph))
    yield _metadata_event("process_name", pid, None, label)
    yield {"ph": "M", "name": "process_labels", "pid": pid, "args": {"labels": f"{variant.backend}, {variant.dtype}"}}
    events = [event for step in steps for event in _slices(step, pid, threads, arrows)]
    used = {event["tid"] for event in events}
    yield from (_metadata_event("thread_name", pid, tid, name) for name, tid in threads.items() if tid in used)
    yield from events
    for step, moment in zip(steps, variant.memory.timeline, strict=False):  # some backends report no timeline
        common = {"ph": "C", "pid": pid, "tid": threads["operators"]}
        during, after = {"bytes": moment.peak_bytes}, {"bytes": moment.live_bytes}
        yield {**common, "name": "live memory while an operator runs", "ts": _us(step.begin), "args": during}
        yield {**common, "name": "live memory after an operator", "ts": _us(step.end), "args": after}


def _on_device(label: str, variant: MeasuredVariant, ids: Iterator[int]) -> Iterator[_Event]:
    """The events of a recorded run, from its first kernel on."""
    pid = next(ids)
    yield _metadata_event("process_name", pid, None, f"{label}, recorded")
    threads: dict[str, int] = {}
    ends: dict[str, int] = {}
    for kernel in variant.device_kernels:
        begin, end = _ns(kernel.start_ms), _ns(kernel.start_ms + kernel.time_ms)
        # The branches of a CUDA graph may have one stream's number.
        names = (f"stream {kernel.stream}{f' ({number})' if number > 1 else ''}" for number in count(1))
        name = next(name for name in names if ends.get(name, 0) <= begin)
        if name not in threads:
            threads[name] = next(ids)
            yield _metadata_event("thread_name", pid, threads[name], name)
        ends[name] = end
        yield _complete_event(pid, threads[name], kernel.name, begin, end, {})


def _metadata_event(kind: str, pid: int, tid: int | None, name: str) -> _Event:
    thread = {} if tid is None else {"tid": tid}
    return {"ph": "M", "name": kind, "pid": pid, **thread, "args": {"name": name}}


# ---- steps -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Step:
    """An operator in a run operator by operator; times are nanoseconds.

    kernel:       the kernel that computed it.
    kernel_begin: the beginning of the kernel's slice.
    nodes:        the nodes of the graph that the operator computes.
    """

    operator: OperatorRun
    begin: int
    end: int
    kernel: Kernel | None
    kernel_begin: int
    nodes: Sequence[Node]

    def shifted(self, by: int) -> _Step:
        return replace(self, begin=self.begin + by, end=self.end + by, kernel_begin=self.kernel_begin + by)

    @property
    def is_group(self) -> bool:
        return self.kernel is not None and len(self.kernel.operators) > 1


def _steps(variant: MeasuredVariant, nodes: Mapping[str, Node]) -> list[_Step]:
    """The steps of a variant, computed from the last to the first.

    A kernel ends before the next one begins, and begins no later than its operator, since an arrow cannot go back in
    time. If the first kernel would begin before 0, all steps are shifted.
    """
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
    return [step.shifted(max(0, -next_kernel)) for step in reversed(results)]


def _nodes_by_name(graph: Graph) -> dict[str, Node]:
    """The nodes of the graph, and those in the groups that a pass has made."""
    bodies = (function.graph.nodes for node in graph.nodes if (function := group_function(graph, node)))
    return {node.name: node for nodes in (*bodies, graph.nodes) for node in nodes}


# ---- events ------------------------------------------------------------------------------


def _slices(step: _Step, pid: int, threads: Mapping[str, int], arrows: Iterator[int]) -> Iterator[_Event]:
    """The slices of one operator; each is followed by the ends of its arrows, which bind to the slice before them."""
    operator, kernel = step.operator, step.kernel
    name = operator.name or operator.op
    sources = [_complete_event(pid, threads["operators"], name, step.begin, step.end, _operator_args(step))]
    if kernel is not None:
        end = step.kernel_begin + _ns(kernel.time_ms)
        args = _kernel_args(kernel)
        sources.append(_complete_event(pid, threads["kernels"], kernel.group, step.kernel_begin, end, args))
    arrivals = [[(next(arrows), source) for source in sources] for _ in step.nodes]
    yield from sources
    yield from (_flow_event("s", number, source) for arriving in arrivals for number, source in arriving)
    for node, arriving in zip(step.nodes, arrivals, strict=True):
        group = {"group": operator.name} if step.is_group else {}
        args = {"operator_type": node.op, "reads": list(node.inputs), "writes": list(node.outputs), **group}
        end = step.begin if step.is_group else step.end
        target = _complete_event(pid, threads["nodes"], node.name, step.begin, end, args)
        yield target
        yield from ({**_flow_event("f", number, target), "bp": "e"} for number, _ in arriving)


def _operator_args(step: _Step) -> dict[str, Any]:
    operator = step.operator
    return _without_none(
        operator_type=operator.op,
        nodes=[node.name for node in step.nodes],
        bytes=operator.bytes,
        allocated_bytes=operator.allocated_bytes,
        flops=operator.flops,
        dtype=operator.dtype,
        share_of_roof=operator.of_roof,
    )


def _kernel_args(kernel: Kernel) -> dict[str, Any]:
    return _without_none(
        by=kernel.by,
        how=kernel.how,
        nodes=list(kernel.operators),
        sequential_ms=kernel.torch_ms,
        generated_kernels=kernel.kernels,
        bytes=kernel.bytes,
        same_as=kernel.same_as or None,
    )


def _without_none(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _complete_event(pid: int, tid: int, name: str, begin: int, end: int, args: dict[str, Any]) -> _Event:
    """A complete event. begin, end: nanoseconds."""
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": _us(begin), "dur": _us(end - begin), "args": args}


def _flow_event(phase: str, number: int, at: _Event) -> _Event:
    """An end of a flow, at the beginning of a slice. phase: "s" or "f"."""
    common = {key: at[key] for key in ("pid", "tid", "ts")}
    return {"ph": phase, "id": number, "cat": "graph", "name": "computes", **common}


def _ns(milliseconds: float) -> int:
    return round(milliseconds * 1e6)


def _us(nanoseconds: int) -> float:
    return nanoseconds / 1e3
