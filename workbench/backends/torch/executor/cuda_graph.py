"""A run on a CUDA device recorded once, whose kernels are then launched together.

Source: https://docs.pytorch.org/docs/stable/notes/cuda.html, "CUDA Graphs".
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from workbench.backends.failures import first_line
from workbench.backends.torch.executor.crossings import crossings_of
from workbench.errors import UserError

if TYPE_CHECKING:
    from workbench.backends.torch.executor.executor import TorchExecutor

RunOnce = Callable[[], Mapping[str, Any]]
_Results = TypeVar("_Results")
_WARMUP = 3  # runs before a capture, as torch requires: libraries choose their kernels then
_MAX_NAMED = 3  # crossings
_THREAD = "thread_local"  # what other threads call meanwhile is no error
_FAILED: list[Any] = []  # graphs whose recording failed, see `_end_failed`


class NotCaptured(Exception):
    """The run cannot be recorded; the message is a phrase that says why."""


@dataclass(frozen=True)
class CapturedRun:
    """run: replays; its outputs are overwritten by the next replay.

    bytes: the most that torch's allocator had given away at once while it was recorded, beside what was there before.
    workspaces_bytes: the part of `bytes` that cuBLAS keeps, some for each stream.
    pool_bytes: the memory that this recording shares with the earlier ones of the process that still live.
    """

    run: RunOnce
    bytes: int
    workspaces_bytes: int
    pool_bytes: int


@dataclass(frozen=True)
class _Pool:
    """A pool of memory and the graphs that live in it."""

    handle: Any
    graphs: WeakSet[Any] = field(default_factory=WeakSet)


_POOLS: dict[int, _Pool] = {}  # by the number of the device


def captured(executor: TorchExecutor, tensors: Mapping[str, Any], run: RunOnce) -> CapturedRun:
    """The same run, recorded. Raises NotCaptured.

    The recordings of a process share one pool of memory: they are never replayed at once, and each computes anew
    whatever it reads there.
    """
    import torch

    try:
        with torch.cuda.device(executor.device):
            warm_up(run, _WARMUP)
            if executor.fallbacks:
                raise NotCaptured(f"ONNX Runtime runs {', '.join(sorted(executor.fallbacks))}, which is not recorded")
            torch.cuda.synchronize()
            _clear_workspaces()  # else those of the warm-up stay beside the recording's own
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            pool = _pool(torch.cuda.current_device())
            others = list(pool.graphs)  # which live until this one is recorded, and the pool with them
            graph, results = recorded(run, pool.handle)
            pool.graphs.add(graph)
            del others
            most, held = torch.cuda.max_memory_allocated() - before, torch.cuda.memory_allocated()
            reserved = sum(segment["total_size"] for segment in torch.cuda.memory_snapshot(pool.handle))
            _clear_workspaces()
            workspaces = held - torch.cuda.memory_allocated()
    except (RuntimeError, UserError) as error:  # an operator synchronizes with the device, or runs on the CPU
        torch.cuda.synchronize(executor.device)
        cause = error if isinstance(error, UserError) else error.__context__ or error  # the one that names an operator
        raise NotCaptured(why_not(executor, tensors, cause)) from error

    def replay() -> Mapping[str, Any]:
        graph.replay()
        return results

    return CapturedRun(replay, most, workspaces, reserved)


def recorded(run: Callable[[], _Results], pool: Any) -> tuple[Any, _Results]:
    """A run on the current device as a CUDA graph in a pool of memory, and its results. Raises what the run raises, or
    RuntimeError.

    Other threads may use CUDA meanwhile, as the loader of a program's data does.
    """
    import torch

    device, graph = torch.cuda.current_device(), torch.cuda.CUDAGraph()
    try:
        # The current stream is set here, so that it is restored if the recording fails.
        with torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.graph(graph, pool, _stream(device), _THREAD):
            results = run()
    except BaseException:
        _end_failed(graph, device, pool)
        raise
    return graph, results


def _end_failed(graph: Any, device: int, pool: Any) -> None:
    """End a recording that CUDA has ended as invalid: torch then leaves it begun.

    Until then the allocator gives no cached memory back, and the generator of random numbers serves no other run. No
    other recording may use the pool, since torch's allocator of pinned memory goes on asking the graph about it.
    """
    import torch

    try:
        torch._C._cuda_endAllocateToPool(device, pool)
    except RuntimeError:  # torch has ended it, since only the run failed
        return
    torch._C._cuda_releasePool(device, pool)
    _FAILED.append(graph)
    if device in _POOLS and _POOLS[device].handle == pool:
        del _POOLS[device]
    empty = torch.cuda.CUDAGraph()
    with warnings.catch_warnings(), torch.cuda.graph(empty, None, _stream(device), _THREAD):
        warnings.simplefilter("ignore")  # it is empty, and on leaving it the generator is free


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
def _stream(device: int) -> Any:
    """The stream on which all recordings of a device are made, so that cuBLAS keeps one workspace for them."""
    import torch

    return torch.cuda.Stream(device)


def _pool(device: int) -> _Pool:
    """The pool of a device; a new one after its last graph has ended, since torch takes no more into it then."""
    import torch

    if device not in _POOLS or not _POOLS[device].graphs:
        _POOLS[device] = _Pool(torch.cuda.graph_pool_handle())
    return _POOLS[device]


def _clear_workspaces() -> None:
    """Give back what cuBLAS holds for each stream; a recording's stay in its pool, where later ones may use them."""
    import torch

    torch._C._cuda_clearCublasWorkspaces()
