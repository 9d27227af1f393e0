"""A model opened by ONNX Runtime with all its optimizations, for measurement; used inside the worker only."""

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

from workbench.io.exporting import to_bytes
from workbench.ir import from_text
from workbench.ir.from_proto import from_file
from workbench.run.onnxruntime.sessions import open_session, provider_of, run_session
from workbench.run.profiling.profile import PROFILED
from workbench.run.profiling.profiled import Memory, OperatorRun
from workbench.run.worker.memory import weight_bytes
from workbench.run.worker.process_memory import growth

_GROWN = (
    "inputs, and what the process grew by while it opened the model, weights too, and ran it once; ONNX Runtime tells "
    "no more"
)
_ON_THE_HOST = f"{_GROWN}; it is memory of the host, not of the GPU"
_SMALLEST = "g (float[1] x) => (float[1] y) { y = Relu(x) }"


class SessionRun:
    """A session of ONNX Runtime, used as usual: on CUDA, inputs and outputs are copied in every run.

    memory_limit: bytes of a CUDA device, None for all.
    fallbacks: operators that its CPU provider runs although the GPU was requested.
    """

    def __init__(self, model: str, inputs: Mapping[str, np.ndarray], device: str, memory_limit: int | None) -> None:
        self._model, self._inputs, self._device, self._limit = model, dict(inputs), device, memory_limit
        self._weights = weight_bytes(from_file(model))
        self._grown = growth(self._open)
        self.fallbacks: Mapping[str, str] = {}
        self.kernels, self.lanes = (), None

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
        kind = _ON_THE_HOST if self._device.startswith("cuda") else _GROWN
        peak = sum(value.nbytes for value in self._inputs.values()) + self._grown
        return Memory(kind, "process", self._weights, peak, process_bytes=self._grown)

    def operators(self) -> list[OperatorRun]:
        """Medians of some runs from ONNX Runtime's profile; the operators are those after its optimizations."""
        with tempfile.TemporaryDirectory() as folder:
            prefix = str(Path(folder) / "profile")
            session = open_session(
                self._model, "all", device=self._device, memory_limit=self._limit, profile_prefix=prefix
            )
            for _ in range(1 + PROFILED):  # kernels are chosen in the first one
                run_session(session, self._inputs)
            events = json.loads(Path(session.end_profiling()).read_text())
        ran = [e for e in events if e.get("cat") == "Node" and e["name"].endswith("_kernel_time")]
        wanted = provider_of(self._device)
        others = {e["args"].get("op_name", "") for e in ran if e["args"].get("provider", wanted) != wanted}
        self.fallbacks = dict.fromkeys(sorted(others), f"{wanted} has no kernel for it; it ran on the CPU")
        in_a_run = len(ran) // (1 + PROFILED)
        result, start = [], 0.0
        for place in range(in_a_run):
            same = ran[in_a_run + place :: in_a_run]
            time_ms = median(event["dur"] for event in same) / 1e3
            name, op = same[0]["name"].removesuffix("_kernel_time"), same[0]["args"].get("op_name", "")
            result.append(OperatorRun(name, op, time_ms, start))
            start += time_ms
        return result


@cache
def load_kernels(device: str) -> None:
    """Open a first session, which allocates the library's tables; that memory is not the model's."""
    session = open_session(to_bytes(from_text(_SMALLEST)), "all", device=device)
    run_session(session, {"x": np.ones(1, np.float32)})


@contextmanager
def _on_first_processor() -> Iterator[None]:
    """Keep this thread there: ONNX Runtime ties the threads of its pool to the others, and where the system has put
    this one on one of theirs, the two take turns, and a run takes three times as long."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
