"""A session of ONNX Runtime with all its optimizations, for measurement; used inside the worker only."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from statistics import median

import numpy as np

from workbench.backends.memory import weight_bytes
from workbench.backends.onnxruntime.sessions import open_session, provider_of, run_session
from workbench.backends.process_memory import rss_growth
from workbench.backends.profiling.profile import PROFILED_RUNS
from workbench.backends.profiling.profile_result import DeviceKernel, Memory, OperatorRun
from workbench.formats.io.exporting import to_bytes
from workbench.ir import from_text
from workbench.ir.from_proto import from_file

_PROCESS_GROWTH = (
    "inputs, and the growth of the process's resident memory while it loaded the model, weights included, and ran it "
    "once; ONNX Runtime reports nothing else"
)
_HOST_GROWTH = f"{_PROCESS_GROWTH}; this is memory of the host, not of the GPU"
_SMALLEST_MODEL = "g (float[1] x) => (float[1] y) { y = Relu(x) }"


class SessionRun:
    """A session of ONNX Runtime; on CUDA, inputs and outputs are copied in every run.

    memory_limit: bytes of a CUDA device, None for all.
    fallbacks:    operators that its CPU provider runs although the GPU was requested.
    """

    def __init__(self, model: str, inputs: Mapping[str, np.ndarray], device: str, memory_limit: int | None) -> None:
        self._model, self._inputs, self._device, self._limit = model, dict(inputs), device, memory_limit
        self._weights = weight_bytes(from_file(model))
        self._growth = rss_growth(self._open)
        self.fallbacks: Mapping[str, str] = {}
        self.kernels, self.streams = (), None

    def device_kernels(self) -> list[DeviceKernel]:
        """Empty: ONNX Runtime is not asked for its kernels."""
        return []

    def _open(self) -> None:
        self._session = open_session(self._model, "all", device=self._device, memory_limit=self._limit)
        self.outputs()

    def outputs(self) -> dict[str, np.ndarray]:
        return run_session(self._session, self._inputs)

    def time_ms(self) -> float:
        with _on_first_processor():
            start = time.perf_counter()
            self.outputs()
            return (time.perf_counter() - start) * 1e3

    def memory(self) -> Memory:
        kind = _HOST_GROWTH if self._device.startswith("cuda") else _PROCESS_GROWTH
        peak = sum(value.nbytes for value in self._inputs.values()) + self._growth
        return Memory(kind, "process", self._weights, peak, process_bytes=self._growth)

    def operators(self) -> list[OperatorRun]:
        """The operators after ONNX Runtime's optimizations, with median times of PROFILED_RUNS runs."""
        with tempfile.TemporaryDirectory() as folder:
            prefix = str(Path(folder) / "profile")
            session = open_session(
                self._model, "all", device=self._device, memory_limit=self._limit, profile_prefix=prefix
            )
            for _ in range(1 + PROFILED_RUNS):  # kernels are chosen in the first one
                run_session(session, self._inputs)
            events = json.loads(Path(session.end_profiling()).read_text())
        kernel_events = [e for e in events if e.get("cat") == "Node" and e["name"].endswith("_kernel_time")]
        requested = provider_of(self._device)
        fallback_ops = {
            e["args"].get("op_name", "") for e in kernel_events if e["args"].get("provider", requested) != requested
        }
        self.fallbacks = dict.fromkeys(sorted(fallback_ops), f"{requested} has no kernel for it; it ran on the CPU")
        per_run = len(kernel_events) // (1 + PROFILED_RUNS)
        result, start = [], 0.0
        for index in range(per_run):
            events_of_kernel = kernel_events[per_run + index :: per_run]
            time_ms = median(event["dur"] for event in events_of_kernel) / 1e3
            first = events_of_kernel[0]
            name, op = first["name"].removesuffix("_kernel_time"), first["args"].get("op_name", "")
            result.append(OperatorRun(name, op, time_ms, start))
            start += time_ms
        return result


@cache
def warm_up_runtime(device: str) -> None:
    """Open a first session, in which the library allocates its tables; that memory is not the model's."""
    session = open_session(to_bytes(from_text(_SMALLEST_MODEL)), "all", device=device)
    run_session(session, {"x": np.ones(1, np.float32)})


@contextmanager
def _on_first_processor() -> Iterator[None]:
    """Keep this thread on the first processor during the block.

    ONNX Runtime binds the threads of its pool to the other processors. A run takes three times as long if this thread
    shares a processor with one of them.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
