"""The results of profiling a model: each operator's time and work, and the live memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class OperatorRun:
    """One operator of a run; None: unknown.

    start_ms:        the times of the operators before it, summed.
    allocated_bytes: the bytes of its results, 0 if they are views.
    bytes:           read and written by one call, see `workbench.backends.profiling.roofline`.
    dtype:           the float type of its result, as torch names it.
    of_roof:         see `roofline.share_of_roof`.
    """

    name: str
    op: str
    time_ms: float
    start_ms: float = 0.0
    allocated_bytes: int | None = None
    bytes: int | None = None
    dtype: str | None = None
    flops: int | None = None
    of_roof: float | None = None


@dataclass(frozen=True)
class Kernel:
    """How a group of operators, or one operator alone, ran in the backend `fused`.

    group:     the node that is a call of the group, or the operator.
    operators: their names, in order.
    by:        "oneDNN", "BLAS", "C++" (our own convolution kernel), "inductor", "in place" (operator by operator, some
               of which write into an operand) or "torch" (operator by operator).
    how:       what was called, as text, or why nothing faster was.
    time_ms, torch_ms: of one run of the group, and of its operators one by one; the fastest of a few interleaved runs.
    kernels, bytes:    the number of kernels that inductor generated, and their bytes by its count; None for others.
    compile_s: seconds of compiling, or of reading from the cache.
    same_as:   the first group of the same structure and shapes, whose kernel it shares; "" if it is the first.
    source:    the generated code; "" if there is none, or it is shared.
    """

    group: str
    operators: tuple[str, ...]
    by: str
    how: str
    time_ms: float
    torch_ms: float
    kernels: int | None = None
    bytes: int | None = None
    compile_s: float = 0.0
    same_as: str = ""
    source: str = ""


@dataclass(frozen=True)
class DeviceKernel:
    """A kernel, or a copy, of one run on a CUDA device: its name, its stream, and milliseconds from the first one."""

    name: str
    stream: int
    start_ms: float
    time_ms: float


@dataclass(frozen=True)
class MeasuredStreams:
    """A run on streams compared with a sequential run of the same operators, interleaved, in preparation.

    streams: the number of streams of the schedule.
    waits:   the number of waits between streams.
    sequential_ms, concurrent_ms: medians.
    """

    streams: int
    waits: int
    sequential_ms: float
    concurrent_ms: float

    @property
    def is_faster(self) -> bool:
        return self.concurrent_ms < self.sequential_ms

    @property
    def ratio(self) -> float:
        """The time on streams over the sequential time; below 1 if streams are faster."""
        return self.concurrent_ms / self.sequential_ms

    @property
    def sentence(self) -> str:
        return (
            f"{self.sequential_ms:,.3f} ms one after the other, {self.concurrent_ms:,.3f} ms on {self.streams:,}"
            f" streams, {self.ratio:.2f} times as long"
        )


def kernel_from_json(results: Mapping[str, Any]) -> Kernel:
    """The inverse of `dataclasses.asdict`."""
    return Kernel(**{**results, "operators": tuple(results["operators"])})


def streams_from_json(results: Mapping[str, Any] | None) -> MeasuredStreams | None:
    """The inverse of `dataclasses.asdict`; also of version 0.2, which named the fields otherwise."""
    if results is None:
        return None
    former = {"lanes": "streams", "one_by_one_ms": "sequential_ms", "side_by_side_ms": "concurrent_ms"}
    renamed = {former.get(name, name): value for name, value in results.items()}
    return MeasuredStreams(**{field.name: renamed[field.name] for field in fields(MeasuredStreams)})


@dataclass(frozen=True)
class LiveMemory:
    """Bytes of inputs and computed values at one operator: live after it, and the peak while it ran."""

    name: str
    op: str
    live_bytes: int
    peak_bytes: int


@dataclass(frozen=True)
class LiveValue:
    """A value that is live at the peak.

    made_by, read_last_by: operator names; "" for an input of the model, and for values that the caller holds.
    """

    value: str
    bytes: int
    made_by: str
    read_last_by: str


@dataclass(frozen=True)
class Peak:
    """The operator that runs at the peak, "" if there is none; the largest live values, and the bytes of all others."""

    name: str
    op: str
    values: tuple[LiveValue, ...]
    others_bytes: int


@dataclass(frozen=True)
class Memory:
    """The memory of one variant.

    kind:    what `peak_bytes` counts, as text; weights are included.
    counted: the same in short: "values" of the torch executor, "process" for its growth, "CUDA allocator".
    timeline, at_peak: without weights; empty and None if the backend does not report them.
    reserved_bytes: by torch's allocator, on CUDA. process_bytes: the growth of the process, on the CPU.
    workspaces_bytes: the bytes of cuBLAS's workspaces, for a recorded run.
    """

    kind: str
    counted: str
    weights_bytes: int
    peak_bytes: int
    timeline: tuple[LiveMemory, ...] = ()
    at_peak: Peak | None = None
    reserved_bytes: int | None = None
    process_bytes: int | None = None
    workspaces_bytes: int | None = None


def memory_from_json(results: Mapping[str, Any]) -> Memory:
    """The inverse of `dataclasses.asdict`."""
    peak = results.get("at_peak")
    timeline = tuple(LiveMemory(**moment) for moment in results.get("timeline") or ())
    return Memory(**{**results, "timeline": timeline, "at_peak": None if peak is None else peak_from_json(peak)})


def peak_from_json(results: Mapping[str, Any]) -> Peak:
    """The inverse of `dataclasses.asdict`."""
    return Peak(**{**results, "values": tuple(LiveValue(**value) for value in results["values"])})
