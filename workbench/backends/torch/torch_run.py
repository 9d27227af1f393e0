"""A model opened by the torch executor for measurement; used inside the worker only."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from workbench.backends.process_memory import rss_growth
from workbench.backends.profiling.device_kernels import device_kernels
from workbench.backends.profiling.profile import PROFILED_RUNS, RunProfile, median_operators, profile
from workbench.backends.profiling.profile_result import DeviceKernel, LiveMemory, Memory, OperatorRun, Peak
from workbench.backends.profiling.progress import StageCallback
from workbench.backends.torch.arena.arena_run import ArenaRun
from workbench.backends.torch.arena.scratch import measure_scratch, peak_allocated
from workbench.backends.torch.executor.cuda_graph import CapturedRun
from workbench.backends.torch.executor.device_times import device_times_ms, with_device_times
from workbench.backends.torch.executor.executor import TF32, outputs_to_numpy
from workbench.backends.torch.executor.opening import open_executor
from workbench.backends.torch.prepared import PREPARATIONS

_MAX_NAMED = 3  # operators that allocate in passing
_COUNTED_VALUES = (
    "weights, inputs and live computed values, counted by the executor; the memory that operators use internally is "
    "not counted"
)
_ALLOCATED = (
    "weights, inputs, computed values and the internal memory of operators, by torch's CUDA allocator; the timeline "
    "counts inputs and computed values only"
)
_PROCESS_GROWTH = (
    "weights, inputs, and the growth of the process during one run; the timeline counts inputs and computed values "
    "of a run operator by operator"
)


class TorchRun:
    """A run of the torch executor; weights, inputs and outputs are on the device.

    backend:   a key of PREPARATIONS.
    fallbacks: what ran in another way than requested, and why.
    kernels:   the kernel of each group, if the backend chooses them.
    streams:   the comparison with one stream, if it uses several.
    on_stage:  is called with the present stage of preparation.
    """

    def __init__(
        self,
        model: str,
        inputs: Mapping[str, np.ndarray],
        device: str,
        backend: str,
        dtype: str,
        on_stage: StageCallback,
    ) -> None:
        self._gpu = device if device.startswith("cuda") else None
        before = self._allocated()
        self._executor = open_executor(model, device, dtype)
        weights = self._allocated() - before
        self._tensors = self._executor.upload(inputs)
        prepared = PREPARATIONS[backend](self._executor, self._tensors, on_stage)
        self._run, self._reason, self.kernels = prepared.run, prepared.reason, prepared.kernels
        self._fallen_back, self._recording = prepared.fallbacks_of(backend), prepared.captured_graph
        on_cpu = _distinct_bytes(self._executor.weights) + prepared.packed_bytes
        self._weights = weights if self._gpu else on_cpu
        self._arena, self.streams = prepared.arena, prepared.streams
        self._backend = backend

    @property
    def fallbacks(self) -> Mapping[str, str]:
        return {**self._fallen_back, **self._executor.fallbacks}

    def outputs(self) -> dict[str, np.ndarray]:
        return outputs_to_numpy(self._run())

    def time_ms(self) -> float:
        if self._gpu:
            return self._time_on_gpu()
        start = time.perf_counter()
        self._run()
        return (time.perf_counter() - start) * 1e3

    def _time_on_gpu(self) -> float:
        import torch

        with torch.cuda.device(self._gpu):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            start.record()
            self._run()
            end.record()
            torch.cuda.synchronize()
        result: float = start.elapsed_time(end)
        return result

    def _allocated(self) -> int:
        import torch

        return torch.cuda.memory_allocated(self._gpu) if self._gpu else 0

    def _reserved(self) -> int:
        """Bytes of the GPU that torch's allocator reserves, after releasing unused ones."""
        import torch

        if not self._gpu:
            return 0
        torch.cuda.empty_cache()
        return torch.cuda.memory_reserved(self._gpu)

    @cached_property
    def _profiles(self) -> list[RunProfile]:
        return [profile(self._executor, self._tensors, self._gpu) for _ in range(PROFILED_RUNS)]

    def memory(self) -> Memory:
        first_profile = self._profiles[0]
        counted = max((moment.peak_bytes for moment in first_profile.timeline), default=0)
        timeline, peak = tuple(first_profile.timeline), first_profile.at_peak
        if self._recording is not None:
            return self._memory_of_recording(self._recording, timeline, peak)
        if self._gpu:
            allocated, reserved = self._peaks_of_gpu()
            return Memory(
                _ALLOCATED, "CUDA allocator", self._weights, allocated, timeline, peak, reserved_bytes=reserved
            )
        process = rss_growth(self._run)
        if self._arena is not None:
            return self._memory_of_arena(self._arena, process)
        if self._backend == "torch" or self._reason is not None:
            total = self._weights + counted
            return Memory(_COUNTED_VALUES, "values", self._weights, total, timeline, peak, process_bytes=process)
        grown = self._weights + _distinct_bytes(_tensors(self._tensors.values())) + process
        return Memory(_PROCESS_GROWTH, "process", self._weights, grown, timeline, peak, process_bytes=process)

    def peak_beside_bytes(self) -> int:
        """The peak bytes of a run without weights and inputs, by torch's allocator; an arena is included."""
        if self._recording is not None:
            return self._recording.bytes + self._planned_bytes
        if self._gpu:
            return self._peaks_of_gpu()[0] - self._weights - self._inputs_bytes
        if self._arena is not None:
            return len(self._arena.bytes) + measure_scratch(self._arena).bytes
        return peak_allocated(self._run)

    def _memory_of_arena(self, arena: ArenaRun, process: int) -> Memory:
        scratch = measure_scratch(arena)
        operators = ", ".join(op for op, _ in scratch.operators[:_MAX_NAMED]) or "nothing"
        planned = len(arena.bytes)
        sequentially = ", one after the other" if self._backend == "streams" else ""
        kind = (
            f"weights, inputs, the arena ({planned / 1e6:,.3f} MB) and what operators allocate in passing"
            f"{sequentially} ({scratch.bytes / 1e6:,.3f} MB: {operators}), by torch's profiler"
        )
        peak = self._weights + _distinct_bytes(_tensors(self._tensors.values())) + planned + scratch.bytes
        return Memory(kind, "arena", self._weights, peak, process_bytes=process)

    @property
    def _inputs_bytes(self) -> int:
        return _distinct_bytes(t for t in _tensors(self._tensors.values()) if t.is_cuda or self._gpu is None)

    @property
    def _planned_bytes(self) -> int:
        return 0 if self._arena is None else len(self._arena.bytes)

    def _memory_of_recording(
        self, recorded_run: CapturedRun, timeline: tuple[LiveMemory, ...], at_peak: Peak
    ) -> Memory:
        planned = self._planned_bytes
        arena = f"the arena ({planned / 1e6:,.3f} MB), " if planned else ""
        computed = "what else is computed" if planned else "computed values"
        kind = (
            f"weights, inputs, {arena}{computed} and what operators use inside "
            f"({(recorded_run.bytes - recorded_run.workspaces_bytes) / 1e6:,.3f} MB), and workspaces that cuBLAS keeps "
            f"({recorded_run.workspaces_bytes / 1e6:,.3f} MB), by torch's CUDA allocator while the run was recorded"
        )
        resident = self._weights + self._inputs_bytes + planned
        most = resident + recorded_run.bytes
        return Memory(
            kind,
            "CUDA allocator",
            self._weights,
            most,
            timeline,
            at_peak,
            reserved_bytes=max(most, resident + recorded_run.pool_bytes),
            workspaces_bytes=recorded_run.workspaces_bytes,
        )

    def _peaks_of_gpu(self) -> tuple[int, int]:
        """The peak bytes of this model's tensors in a run, and the peak that torch's allocator reserves."""
        import torch

        resident = self._weights + self._inputs_bytes
        reserved, before = self._reserved(), self._allocated()
        torch.cuda.reset_peak_memory_stats(self._gpu)
        self._run()
        torch.cuda.synchronize(self._gpu)
        peak = resident + torch.cuda.max_memory_allocated(self._gpu) - before
        most = resident + torch.cuda.max_memory_reserved(self._gpu) - reserved
        return peak, max(peak, most)

    def operators(self) -> list[OperatorRun]:
        result = median_operators(self._profiles)
        if self._gpu is None:
            return result
        result = with_device_times(result, device_times_ms(self._executor, self._tensors))
        if self._executor.dtype != TF32:
            return result
        return [replace(one, dtype=TF32) if one.dtype == "float32" else one for one in result]

    def device_kernels(self) -> list[DeviceKernel]:
        """Those of one replay of a recorded run. Empty for other runs, whose launches decide when kernels begin."""
        return [] if self._recording is None or self._gpu is None else device_kernels(self._run, self._gpu)


def _tensors(values: Iterable[Any]) -> Iterator[Any]:
    """The tensors among inputs, including those in lists; an input may also be None or an array of strings."""
    for value in values:
        if isinstance(value, list):
            yield from _tensors(value)
        elif hasattr(value, "untyped_storage"):
            yield value


def _distinct_bytes(tensors: Iterable[Any]) -> int:
    """The bytes of the tensors' storages, each counted once."""
    storages = (tensor.untyped_storage() for tensor in tensors)
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())
