"""Ways to run the torch executor on fixed inputs: eager, as a CUDA graph, through torch.compile, by fused kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from workbench.errors import UserError
from workbench.run.measurement.profiled import Kernel, MeasuredLanes
from workbench.run.measurement.progress import OnStage
from workbench.run.onnxruntime.randomness import draws_numbers
from workbench.run.torch.compilers import keep_compiled
from workbench.run.worker.failures import first_line

if TYPE_CHECKING:
    import torch

    from workbench.run.torch.arena.arena_run import ArenaRun
    from workbench.run.torch.executor import TorchExecutor

_Run = Callable[[], Mapping[str, Any]]
_WARMUP = 3  # runs before a capture, as torch requires: libraries choose their kernels then


@dataclass(frozen=True)
class Prepared:
    """A model ready to run.

    run:     runs once; returns the outputs.
    reason:  why it falls back to running operator by operator, if it does.
    kernels: of each group, by `fused` alone. packed_bytes: of the weights that these hold in another order.
    arena:   of `arena` and `lanes` alone. lanes: of `lanes` alone.
    """

    run: _Run
    reason: str | None = None
    kernels: Sequence[Kernel] = ()
    packed_bytes: int = 0
    arena: ArenaRun | None = None
    lanes: MeasuredLanes | None = None


def eager(executor: TorchExecutor, tensors: Mapping[str, Any], say: OnStage) -> Prepared:
    """Operator by operator."""
    return Prepared(lambda: executor.run_tensors(tensors))


def fused(executor: TorchExecutor, tensors: Mapping[str, Any], say: OnStage) -> Prepared:
    """Each group of operators by the fastest of the kernels that can compute it."""
    from workbench.run.torch.fused.choosing import choose_kernels

    chosen = choose_kernels(executor, tensors, lambda number, count: say(f"compiling group {number:,} of {count:,}"))
    return Prepared(lambda: executor.run_tensors(tensors), None, chosen.kernels, chosen.packed_bytes)


def cuda_graph(executor: TorchExecutor, tensors: Mapping[str, Any], say: OnStage) -> Prepared:
    """All kernels recorded once and launched together (https://docs.pytorch.org/docs/stable/notes/cuda.html)."""
    if executor.device.type != "cuda":
        reason = "CUDA graphs need a CUDA device, and this run is on the CPU"
        return replace(eager(executor, tensors, say), reason=reason)
    return captured(executor, eager(executor, tensors, say).run)


def captured(executor: TorchExecutor, run: _Run) -> Prepared:
    """A run on a CUDA device, recorded once."""
    import torch

    try:
        # The current stream is set here, so that it is restored if a capture fails.
        with torch.cuda.device(executor.device), torch.cuda.stream(torch.cuda.current_stream(executor.device)):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(_WARMUP):
                    run()
            torch.cuda.current_stream().wait_stream(side)
            if executor.fallbacks:
                names = ", ".join(sorted(executor.fallbacks))
                return Prepared(run, f"ONNX Runtime runs {names}, which cannot be captured")
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                results = run()
    except (RuntimeError, UserError) as error:  # an operator synchronizes with the device, or runs on the CPU
        torch.cuda.synchronize(executor.device)
        return Prepared(run, f"the run cannot be captured: {first_line(error.__context__ or error)}")

    def replay() -> Mapping[str, Any]:
        graph.replay()
        return results

    return Prepared(replay)


def compiled(executor: TorchExecutor, tensors: Mapping[str, Any], say: OnStage) -> Prepared:
    """The run traced into one graph of torch's operators for these shapes, compiled by torch.compile.

    On the CPU constant weights are folded and prepacked once (inductor's freezing).
    Tracing follows tensors through the executor (torch.fx's make_fx); if an
    element of a tensor decides what runs next, there is no such graph.
    """
    keep_compiled()
    import torch
    from torch._inductor import config
    from torch.fx.experimental.proxy_tensor import make_fx

    names = [name for name, value in tensors.items() if isinstance(value, torch.Tensor)]
    others = {name: value for name, value in tensors.items() if name not in names}
    outputs: list[str] = []

    def traced(*values: Any) -> tuple[Any, ...]:
        results = executor.run_tensors({**others, **dict(zip(names, values, strict=True))})
        outputs[:] = results
        return tuple(results.values())

    operands = [tensors[name] for name in names]
    run = eager(executor, tensors, say).run
    try:
        run()  # what falls back to ONNX Runtime is known after a run
        if executor.fallbacks:
            return Prepared(run, f"ONNX Runtime runs {', '.join(sorted(executor.fallbacks))}, which cannot be traced")
        with torch.inference_mode(), config.patch(freezing=executor.device.type == "cpu"):
            graph = _with_parameters(make_fx(traced)(*operands))
            function = torch.compile(graph, dynamic=False)
            function(*operands)
    except Exception as error:  # tracing and the compilers may raise anything
        return Prepared(run, f"the run cannot be compiled: {first_line(error)}")

    def compiled_run() -> Mapping[str, Any]:
        with torch.inference_mode():
            return dict(zip(outputs, function(*operands), strict=True))

    return Prepared(compiled_run)


def arena(executor: TorchExecutor, tensors: Mapping[str, Any], say: OnStage) -> Prepared:
    """Every planned value at its offset in one block of memory; on CUDA recorded as a CUDA graph."""
    import torch

    from workbench.run.torch.arena.arena_run import ArenaRun
    from workbench.run.torch.arena.planned import plan_of_run

    if not executor.is_float32:
        return replace(eager(executor, tensors, say), reason="the plan is for the element types of the model")
    say("planning memory")
    plan = plan_of_run(executor, tensors)
    with torch.inference_mode():
        placed = ArenaRun(executor, tensors, plan)
    run = named(executor, placed.run)
    if executor.device.type != "cuda":
        return Prepared(run, arena=placed)
    return replace(captured(executor, run), arena=placed)


def lanes(executor: TorchExecutor, tensors: Mapping[str, Any], say: OnStage) -> Prepared:
    """Operators side by side, by threads on a CPU and by streams within one CUDA graph on a GPU; one after the other
    where that is faster."""
    import torch

    from workbench.run.torch.lanes.choosing import LanesWay, by_threads, fastest
    from workbench.run.torch.lanes.launches import launches_of
    from workbench.run.torch.lanes.streams import StreamedRun

    if not executor.is_float32:
        return replace(eager(executor, tensors, say), reason="the plan is for the element types of the model")
    if draws_numbers(executor.graph):
        reason = "it draws random numbers, which depend on the order of the operators"
        return replace(arena(executor, tensors, say), reason=reason)
    say("planning lanes")
    with torch.inference_mode():
        launches = launches_of(executor, tensors)
    one_by_one, on_gpu = named(executor, launches.arena.run), executor.device.type == "cuda"
    if on_gpu:
        streamed = captured(executor, named(executor, StreamedRun(launches).run))
        if streamed.reason is not None:
            return replace(captured(executor, one_by_one), reason=streamed.reason, arena=launches.arena)
        one_by_one, ways = captured(executor, one_by_one).run, [LanesWay(streamed.run, True)]
    else:
        threaded = by_threads(launches, torch.get_num_threads())
        ways = [LanesWay(named(executor, one.run), one.threads > 1, one) for one in threaded]
    say("comparing lanes with one operator after the other")
    chosen = fastest(launches, one_by_one, ways, torch.cuda.synchronize if on_gpu else lambda: None)
    return Prepared(chosen.run, chosen.reason, arena=launches.arena, lanes=chosen.measured)


def named(executor: TorchExecutor, run: Callable[[], Sequence[Any]]) -> _Run:
    """A run whose outputs have their names."""
    import torch

    def run_named() -> Mapping[str, Any]:
        with torch.inference_mode():
            return dict(zip(executor.graph.outputs, run(), strict=True))

    return run_named


def _with_parameters(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The traced graph with its constants as parameters, which the compiler folds and prepacks when it freezes them."""
    import torch

    constants = {name: value for name, value in vars(graph).items() if isinstance(value, torch.Tensor)}
    constants |= dict(graph.named_buffers(recurse=False))
    for name, value in constants.items():
        delattr(graph, name)
        graph.register_parameter(name, torch.nn.Parameter(value, requires_grad=False))
    return graph.eval()


PREPARATIONS: Mapping[str, Callable[[TorchExecutor, Mapping[str, Any], OnStage], Prepared]] = {
    "torch": eager,
    "fused": fused,
    "arena": arena,
    "lanes": lanes,
    "cuda-graphs": cuda_graph,
    "torch-compile": compiled,
}
