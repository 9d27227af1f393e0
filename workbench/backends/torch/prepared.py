"""Prepares runs of the torch executor on fixed inputs: eager, CUDA graph, compiled, fused, in an arena, on streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from workbench.backends.failures import first_line
from workbench.backends.profiling.profile_result import Kernel, MeasuredStreams
from workbench.backends.profiling.progress import StageCallback
from workbench.backends.randomness import uses_random_numbers
from workbench.backends.torch.executor.compilers import enable_compile_cache
from workbench.backends.torch.executor.cuda_graph import CapturedRun, NotCaptured, RunOnce, captured
from workbench.backends.torch.traced_run import trace_run

if TYPE_CHECKING:
    from workbench.backends.torch.arena.arena_run import ArenaRun
    from workbench.backends.torch.executor.executor import TorchExecutor


@dataclass(frozen=True)
class Prepared:
    """A model ready to run.

    run:                 runs once; returns the outputs.
    reason:              why it falls back to running operator by operator; None if it does not.
    not_captured_reason: why its kernels are launched one by one on a CUDA device; None if a CUDA graph captured them.
    captured_graph:      the CUDA graph, if any.
    kernels:             the kernel chosen for each fusion group; only for `fused`.
    packed_bytes:        size of the weights that these kernels store in another order.
    arena:               only for `arena` and `streams`.
    streams:             the comparison with one stream; only for `streams`.
    """

    run: RunOnce
    reason: str | None = None
    not_captured_reason: str | None = None
    captured_graph: CapturedRun | None = None
    kernels: Sequence[Kernel] = ()
    packed_bytes: int = 0
    arena: ArenaRun | None = None
    streams: MeasuredStreams | None = None

    def fallbacks_of(self, backend: str) -> dict[str, str]:
        """Why the run differs from what the backend does, by the backend's name; empty if it does not."""
        if self.reason is not None:
            return {backend: f"runs operator by operator: {self.reason}"}
        if self.not_captured_reason is not None:
            return {backend: f"its kernels are launched one by one, not as a CUDA graph: {self.not_captured_reason}"}
        return {}


def eager(executor: TorchExecutor, tensors: Mapping[str, Any], on_stage: StageCallback) -> Prepared:
    """Runs operator by operator."""
    return Prepared(lambda: executor.run_tensors(tensors))


def fused(executor: TorchExecutor, tensors: Mapping[str, Any], on_stage: StageCallback) -> Prepared:
    """Runs each fusion group with the fastest of its candidate kernels; on CUDA, captures a graph."""
    from workbench.backends.torch.fused.select_kernels import choose_kernels

    chosen = choose_kernels(executor, tensors, on_stage)
    prepared = Prepared(
        eager(executor, tensors, on_stage).run, kernels=chosen.kernels, packed_bytes=chosen.packed_bytes
    )
    return with_cuda_graph(executor, tensors, prepared)


def cuda_graph(executor: TorchExecutor, tensors: Mapping[str, Any], on_stage: StageCallback) -> Prepared:
    """Captures all kernels once and launches them together."""
    prepared = with_cuda_graph(executor, tensors, eager(executor, tensors, on_stage))
    if prepared.captured_graph is not None:
        return prepared
    reason = prepared.not_captured_reason or "CUDA graphs need a CUDA device, and this run is on the CPU"
    return replace(prepared, reason=reason, not_captured_reason=None)


def with_cuda_graph(executor: TorchExecutor, tensors: Mapping[str, Any], prepared: Prepared) -> Prepared:
    """The run captured as one CUDA graph, on a CUDA device and if that is possible; else unchanged."""
    if executor.device.type != "cuda":
        return prepared
    try:
        captured_graph = captured(executor, tensors, prepared.run)
    except NotCaptured as reason:
        return replace(prepared, not_captured_reason=str(reason))
    return replace(prepared, run=captured_graph.run, captured_graph=captured_graph)


def compiled(
    executor: TorchExecutor, tensors: Mapping[str, Any], on_stage: StageCallback, mode: str | None = None
) -> Prepared:
    """Traces the run for these shapes and compiles it with torch.compile; on CUDA, captures a graph.

    mode: the mode of torch.compile; one without CUDA graphs, because this module captures its own.
    On the CPU constant weights are folded and prepacked once (inductor's freezing).
    Tracing fails for data-dependent control flow.
    """
    enable_compile_cache()
    import torch
    from torch._inductor import config

    run = eager(executor, tensors, on_stage).run
    on_stage("compiling")
    try:
        run()  # fallbacks to ONNX Runtime are known after a run
        if executor.fallbacks:
            return Prepared(run, f"ONNX Runtime runs {', '.join(sorted(executor.fallbacks))}, which cannot be traced")
        with torch.inference_mode(), executor.tf32(), config.patch(freezing=executor.device.type == "cpu"):
            traced = trace_run(executor, tensors)
            function = torch.compile(traced.module, dynamic=False, mode=mode)
            function(*traced.operands)
    except Exception as error:  # tracing and the compilers may raise anything
        return Prepared(run, f"the run cannot be compiled: {first_line(error)}")

    def compiled_run() -> Mapping[str, Any]:
        with torch.inference_mode(), executor.tf32():
            return dict(zip(traced.outputs, function(*traced.operands), strict=True))

    return with_cuda_graph(executor, tensors, Prepared(compiled_run))


def autotuned(executor: TorchExecutor, tensors: Mapping[str, Any], on_stage: StageCallback) -> Prepared:
    """Compiles as `compiled`, and picks the fastest of several kernels for each product and convolution."""
    return compiled(executor, tensors, on_stage, "max-autotune-no-cudagraphs")


def arena(executor: TorchExecutor, tensors: Mapping[str, Any], on_stage: StageCallback) -> Prepared:
    """Places every planned value at its offset in one block of memory; on CUDA, captures a graph."""
    from workbench.backends.torch.arena.arena_run import ArenaRun
    from workbench.backends.torch.arena.run_plan import plan_of_run

    on_stage("planning memory")
    plan = plan_of_run(executor, tensors)
    with executor.computing():
        arena_run = ArenaRun(executor, tensors, plan)
    return with_cuda_graph(executor, tensors, Prepared(with_output_names(executor, arena_run.run), arena=arena_run))


def streams(executor: TorchExecutor, tensors: Mapping[str, Any], on_stage: StageCallback) -> Prepared:
    """Runs operators on concurrent streams of one CUDA graph, or one after the other if that is faster."""
    import torch

    from workbench.backends.torch.streams.cuda_streams import StreamedRun
    from workbench.backends.torch.streams.launches import launches_of
    from workbench.backends.torch.streams.select_run import faster

    if reason := _why_sequential(executor):
        return replace(arena(executor, tensors, on_stage), reason=reason)
    on_stage("planning streams")
    with executor.computing():
        launches = launches_of(executor, tensors)
    prepared = Prepared(with_output_names(executor, launches.arena.run), arena=launches.arena)
    on_stage("comparing streams with one operator after the other")
    prepared = with_cuda_graph(executor, tensors, prepared)
    try:
        streamed = captured(executor, tensors, with_output_names(executor, StreamedRun(launches).run))
    except NotCaptured as reason:
        return replace(prepared, reason=str(reason))
    synchronize = partial(torch.cuda.synchronize, executor.device)
    chosen = faster(launches.schedule, prepared.run, streamed.run, synchronize)
    taken = streamed if chosen.run is streamed.run else prepared.captured_graph
    return replace(
        prepared, run=chosen.run, reason=chosen.sequential_reason, streams=chosen.measured, captured_graph=taken
    )


def _why_sequential(executor: TorchExecutor) -> str:
    """Why operators cannot run concurrently, or "" if they can."""
    if executor.device.type != "cuda":
        return "operators run concurrently on a CUDA device only"
    if uses_random_numbers(executor.graph):
        return "it draws random numbers, which depend on the order of the operators"
    return ""


def with_output_names(executor: TorchExecutor, run: Callable[[], Sequence[Any]]) -> RunOnce:
    """The run with its outputs as a mapping by name."""

    def run_named() -> Mapping[str, Any]:
        with executor.computing():
            return dict(zip(executor.graph.outputs, run(), strict=True))

    return run_named


PREPARATIONS: Mapping[str, Callable[[TorchExecutor, Mapping[str, Any], StageCallback], Prepared]] = {
    "torch": eager,
    "fused": fused,
    "arena": arena,
    "streams": streams,
    "cuda-graphs": cuda_graph,
    "torch-compile": compiled,
    "torch-compile-autotuned": autotuned,
}
