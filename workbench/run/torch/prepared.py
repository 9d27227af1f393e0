"""Ways to run the torch executor: eager, as a CUDA graph, through torch.compile.

Each returns a function without arguments that runs once, on fixed inputs, and the reason
if it falls back to running operator by operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from workbench.errors import UserError
from workbench.run.worker.failures import first_line

if TYPE_CHECKING:
    import torch

_Run = Callable[[], Mapping[str, Any]]
_WARMUP = 3  # runs before a capture, as torch requires: libraries choose their kernels then


def eager(executor: Any, tensors: Mapping[str, Any]) -> tuple[_Run, str | None]:
    """Operator by operator."""
    return lambda: executor.run_tensors(tensors), None


def cuda_graph(executor: Any, tensors: Mapping[str, Any]) -> tuple[_Run, str | None]:
    """All kernels recorded once and launched together (https://docs.pytorch.org/docs/stable/notes/cuda.html)."""
    import torch

    if executor.device.type != "cuda":
        return eager(executor, tensors)[0], "CUDA graphs need a CUDA device, and this run is on the CPU"
    run, _ = eager(executor, tensors)
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
                return run, f"ONNX Runtime runs {', '.join(sorted(executor.fallbacks))}, which cannot be captured"
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                results = run()
    except (RuntimeError, UserError) as error:  # an operator synchronizes with the device, or runs on the CPU
        torch.cuda.synchronize(executor.device)
        return run, f"the run cannot be captured: {first_line(error.__context__ or error)}"

    def replay() -> Mapping[str, Any]:
        graph.replay()
        return results

    return replay, None


def compiled(executor: Any, tensors: Mapping[str, Any]) -> tuple[_Run, str | None]:
    """The run traced into one graph of torch's operators for these shapes, compiled by torch.compile.

    On the CPU constant weights are folded and prepacked once (inductor's freezing).
    Tracing follows tensors through the executor (torch.fx's make_fx); if an
    element of a tensor decides what runs next, there is no such graph.
    """
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
    run, _ = eager(executor, tensors)
    try:
        run()  # what falls back to ONNX Runtime is known after a run
        if executor.fallbacks:
            return run, f"ONNX Runtime runs {', '.join(sorted(executor.fallbacks))}, which cannot be traced"
        with torch.inference_mode(), config.patch(freezing=executor.device.type == "cpu"):
            graph = _with_parameters(make_fx(traced)(*operands))
            function = torch.compile(graph, dynamic=False)
            function(*operands)
    except Exception as error:  # tracing and the compilers may raise anything
        return run, f"the run cannot be compiled: {first_line(error)}"

    def compiled_run() -> Mapping[str, Any]:
        with torch.inference_mode():
            return dict(zip(outputs, function(*operands), strict=True))

    return compiled_run, None


def _with_parameters(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The traced graph with its constants as parameters, which the compiler folds and prepacks when it freezes them."""
    import torch

    constants = {name: value for name, value in vars(graph).items() if isinstance(value, torch.Tensor)}
    constants |= dict(graph.named_buffers(recurse=False))
    for name, value in constants.items():
        delattr(graph, name)
        graph.register_parameter(name, torch.nn.Parameter(value, requires_grad=False))
    return graph.eval()


PREPARATIONS: Mapping[str, Callable[[Any, Mapping[str, Any]], tuple[_Run, str | None]]] = {
    "torch": eager,
    "cuda-graphs": cuda_graph,
    "torch-compile": compiled,
}
