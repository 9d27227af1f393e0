"""A run on a CUDA device recorded once, whose kernels are then launched together.

Source: https://docs.pytorch.org/docs/stable/notes/cuda.html, "CUDA Graphs".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from workbench.errors import UserError
from workbench.run.torch.executor.crossings import crossings_of
from workbench.run.worker.failures import first_line

if TYPE_CHECKING:
    from workbench.run.torch.executor.executor import TorchExecutor

RunOnce = Callable[[], Mapping[str, Any]]
_WARMUP = 3  # runs before a capture, as torch requires: libraries choose their kernels then
_MAX_NAMED = 3  # crossings


class NotCaptured(Exception):
    """The run cannot be recorded; the message is a phrase that says why."""


@dataclass(frozen=True)
class CapturedRun:
    """run: replays; its outputs are overwritten by the next replay.

    bytes: the most that torch's allocator had given away at once while it was recorded, beside what was there before.
    workspaces_bytes: the part of `bytes` that cuBLAS keeps, some for each stream.
    """

    run: RunOnce
    bytes: int
    workspaces_bytes: int


def captured(executor: TorchExecutor, tensors: Mapping[str, Any], run: RunOnce) -> CapturedRun:
    """The same run, recorded. Raises NotCaptured.

    All recordings of a process share one pool of memory: they are never replayed at once, and each computes anew
    whatever it reads there.
    """
    import torch

    try:
        # The current stream is set here, so that it is restored if a capture fails.
        with torch.cuda.device(executor.device), torch.cuda.stream(torch.cuda.current_stream(executor.device)):
            warm_up(run, _WARMUP)
            if executor.fallbacks:
                raise NotCaptured(f"ONNX Runtime runs {', '.join(sorted(executor.fallbacks))}, which is not recorded")
            torch.cuda.synchronize()
            _clear_workspaces()  # else those of the warm-up stay beside the recording's own
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=_pool(torch.cuda.current_device())):
                results = run()
            most, held = torch.cuda.max_memory_allocated() - before, torch.cuda.memory_allocated()
            _clear_workspaces()
            workspaces = held - torch.cuda.memory_allocated()
    except (RuntimeError, UserError) as error:  # an operator synchronizes with the device, or runs on the CPU
        torch.cuda.synchronize(executor.device)
        raise NotCaptured(why_not(executor, tensors, error.__context__ or error)) from error

    def replay() -> Mapping[str, Any]:
        graph.replay()
        return results

    return CapturedRun(replay, most, workspaces)


def warm_up(run: Callable[[], Any], times: int) -> None:
    """Run on a side stream of the current device, as torch asks for before a capture."""
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(times):
            run()
    torch.cuda.current_stream().wait_stream(side)


def why_not(executor: TorchExecutor, tensors: Mapping[str, Any], error: BaseException) -> str:
    """The operators that exchange data with the host in each run; the error's own words if there are none."""
    result = crossings_of(executor, tensors)
    if not result:
        return first_line(error)
    named = [crossing.sentence for crossing in result[:_MAX_NAMED]]
    more = len(result) - len(named)
    return "; ".join(named) + (f"; and {more:,} more" if more else "")


@cache
def _pool(device: int) -> Any:
    import torch

    with torch.cuda.device(device):
        return torch.cuda.graph_pool_handle()


def _clear_workspaces() -> None:
    """Give back what cuBLAS holds for each stream; a recording's stay in its pool, where later ones may use them."""
    import torch

    torch._C._cuda_clearCublasWorkspaces()
