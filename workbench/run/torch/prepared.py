"""Ways to run the torch executor on fixed inputs: eager, as a CUDA graph, through torch.compile, by fused kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from workbench.run.profiling.profiled import Kernel, MeasuredLanes
from workbench.run.profiling.progress import OnStage
from workbench.run.randomness import draws_numbers
from workbench.run.torch.executor.compilers import keep_compiled
from workbench.run.torch.executor.cuda_graph import NotCaptured, RecordedRun, RunOnce, captured
from workbench.run.torch.traced import trace_run
from workbench.run.worker.failures import first_line

if TYPE_CHECKING:
    from workbench.run.torch.arena.arena_run import ArenaRun
    from workbench.run.torch.executor.executor import TorchExecutor


@dataclass(frozen=True)
class Prepared:
    """A model ready to run.

    run:        runs once; returns the outputs.
    reason:     why it falls back to running operator by operator, if it does.
    unrecorded: why its kernels are launched one by one on a CUDA device, where they should be recorded, if they are.
    recording:  on a CUDA device, if they are recorded.
    kernels:    of each group, by `fused` alone. packed_bytes: of the weights that these hold in another order.
    arena:      of `arena` and `lanes` alone. lanes: of `lanes` alone.
    """

    run: RunOnce
    reason: str | None = None
    unrecorded: str | None = None
    recording: RecordedRun | None = None
    kernels: Sequence[Kernel] = ()
    packed_bytes: int = 0
    arena: ArenaRun | None = None
    lanes: MeasuredLanes | None = None

    def fallbacks_of(self, backend: str) -> dict[str, str]:
        """By the backend's name, what does not run as it would, and why; nothing if all does."""
        if self.reason is not None:
            return {backend: f"runs operator by operator: {self.reason}"}
        if self.unrecorded is not None:
            return {backend: f"its kernels are launched one by one, not as a CUDA graph: {self.unrecorded}"}
        return {}


def eager(executor: TorchExecutor, tensors: Mapping[str, Any], say: OnStage) -> Prepared:
    """Operator by operator."""
    return Prepared(lambda: executor.run_tensors(tensors))


def fused(executor: TorchExecutor, tensors: Mapping[str, Any], say: OnStage) -> Prepared:
    """Each group of operators by the fastest of the kernels that can compute it; on CUDA recorded."""
    from workbench.run.torch.fused.choosing import choose_kernels

    chosen = choose_kernels(executor, tensors, say)
    made = Prepared(eager(executor, tensors, say).run, kernels=chosen.kernels, packed_bytes=chosen.packed_bytes)
    return recorded(executor, tensors, made)


def cuda_graph(executor: TorchExecutor, tensors: Mapping[str, Any], say: OnStage) -> Prepared:
    """All kernels recorded once and launched together."""
    made = recorded(executor, tensors, eager(executor, tensors, say))
    if made.recording is not None:
        return made
    reason = made.unrecorded or "CUDA graphs need a CUDA device, and this run is on the CPU"
    return replace(made, reason=reason, unrecorded=None)


def recorded(executor: TorchExecutor, tensors: Mapping[str, Any], made: Prepared) -> Prepared:
    """On CUDA the same as one CUDA graph, if it can be recorded."""
    if executor.device.type != "cuda":
        return made
    try:
        recording = captured(executor, tensors, made.run)
    except NotCaptured as reason:
        return replace(made, unrecorded=str(reason))
    return replace(made, run=recording.run, recording=recording)


def compiled(executor: TorchExecutor, tensors: Mapping[str, Any], say: OnStage, mode: str | None = None) -> Prepared:
    """The run traced into one graph of torch's operators for these shapes, compiled by torch.compile; on CUDA recorded.

    mode: of torch.compile, without its own CUDA graphs, since ours is the graph.
    On the CPU constant weights are folded and prepacked once (inductor's freezing).
    If an element of a tensor decides what runs next, there is no such graph.
    """
    keep_compiled()
    import torch
    from torch._inductor import config

    run = eager(executor, tensors, say).run
    say("compiling")
    try:
        run()  # what falls back to ONNX Runtime is known after a run
        if executor.fallbacks:
            return Prepared(run, f"ONNX Runtime runs {', '.join(sorted(executor.fallbacks))}, which cannot be traced")
        with torch.inference_mode(), config.patch(freezing=executor.device.type == "cpu"):
            traced = trace_run(executor, tensors)
            function = torch.compile(traced.module, dynamic=False, mode=mode)
            function(*traced.operands)
    except Exception as error:  # tracing and the compilers may raise anything
        return Prepared(run, f"the run cannot be compiled: {first_line(error)}")

    def compiled_run() -> Mapping[str, Any]:
        with torch.inference_mode():
            return dict(zip(traced.outputs, function(*traced.operands), strict=True))

    return recorded(executor, tensors, Prepared(compiled_run))


def autotuned(executor: TorchExecutor, tensors: Mapping[str, Any], say: OnStage) -> Prepared:
    """As `compiled`, each product and convolution by the fastest of the kernels that the compiler tries."""
    return compiled(executor, tensors, say, "max-autotune-no-cudagraphs")


def arena(executor: TorchExecutor, tensors: Mapping[str, Any], say: OnStage) -> Prepared:
    """Every planned value at its offset in one block of memory, planned for the types of the run; on CUDA recorded."""
    from workbench.run.torch.arena.arena_run import ArenaRun
    from workbench.run.torch.arena.planned import plan_of_run

    say("planning memory")
    plan = plan_of_run(executor, tensors)
    with executor.computing():
        placed = ArenaRun(executor, tensors, plan)
    return recorded(executor, tensors, Prepared(named(executor, placed.run), arena=placed))


def lanes(executor: TorchExecutor, tensors: Mapping[str, Any], say: OnStage) -> Prepared:
    """Operators side by side, by threads on a CPU and by streams within one CUDA graph on a GPU; one after the other
    where that is faster."""
    import torch

    from workbench.run.torch.streams.choosing import LanesWay, by_threads, fastest
    from workbench.run.torch.streams.cuda_streams import StreamedRun
    from workbench.run.torch.streams.launches import launches_of

    if draws_numbers(executor.graph):
        reason = "it draws random numbers, which depend on the order of the operators"
        return replace(arena(executor, tensors, say), reason=reason)
    say("planning lanes")
    with executor.computing():
        launches = launches_of(executor, tensors)
    made = Prepared(named(executor, launches.arena.run), arena=launches.arena)
    say("comparing lanes with one operator after the other")
    if executor.device.type != "cuda":
        threaded = by_threads(launches, torch.get_num_threads())
        ways = [LanesWay(named(executor, one.run), one.threads > 1, one) for one in threaded]
        chosen = fastest(launches, made.run, ways, lambda: None)
        return replace(made, run=chosen.run, reason=chosen.reason, lanes=chosen.measured)
    made = recorded(executor, tensors, made)
    try:
        streamed = captured(executor, tensors, named(executor, StreamedRun(launches).run))
    except NotCaptured as reason:
        return replace(made, reason=str(reason))
    chosen = fastest(launches, made.run, [LanesWay(streamed.run, True)], torch.cuda.synchronize)
    taken = streamed if chosen.run is streamed.run else made.recording
    return replace(made, run=chosen.run, reason=chosen.reason, lanes=chosen.measured, recording=taken)


def named(executor: TorchExecutor, run: Callable[[], Sequence[Any]]) -> RunOnce:
    """A run whose outputs have their names."""

    def run_named() -> Mapping[str, Any]:
        with executor.computing():
            return dict(zip(executor.graph.outputs, run(), strict=True))

    return run_named


PREPARATIONS: Mapping[str, Callable[[TorchExecutor, Mapping[str, Any], OnStage], Prepared]] = {
    "torch": eager,
    "fused": fused,
    "arena": arena,
    "lanes": lanes,
    "cuda-graphs": cuda_graph,
    "torch-compile": compiled,
    "torch-compile-autotuned": autotuned,
}
