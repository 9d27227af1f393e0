"""The time that each operator's kernels take on a CUDA device, without their launches.

An operator is recorded several times over as a CUDA graph, whose kernels the device starts itself, and once with twice
as many; the difference of both, divided, is free of what a replay costs. Its operands are those of a run, in the
caches as far as they fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.backends.profiling.profile_result import OperatorRun
from workbench.backends.torch.executor.cuda_graph import recorded, warm_up
from workbench.backends.torch.executor.program import store
from workbench.errors import UserError

if TYPE_CHECKING:
    from workbench.backends.torch.executor.executor import TorchExecutor

_SHORT_MS = 0.5  # a recording is about as long, so that the clock's steps of 0.5 us are a thousandth of it
_MAX_TIMES = 64  # the most repetitions of an operator in a recording
_REPLAYS = 9


def device_times_ms(executor: TorchExecutor, tensors: Mapping[str, Any]) -> dict[str, list[float]]:
    """For each node of the main graph, `_REPLAYS` times of one run of it; one that cannot be recorded has none."""
    program, result = executor.program, {}
    with executor.computing():
        registers = program.filled_registers([tensors[name] for name in executor.graph.inputs])
        for step in program.steps:
            results = program.results(step, registers)
            if step.one_node is None and step.node.name:
                result[step.node.name] = kernel_times_ms(lambda: program.results(step, registers), executor.device)  # noqa: B023
            store(step, results, registers)
    return {name: times for name, times in result.items() if times}


def with_device_times(operators: Sequence[OperatorRun], times_ms: Mapping[str, Sequence[float]]) -> list[OperatorRun]:
    """The operators of a run, in order, with the medians of these times where there are any."""
    result, start = [], 0.0
    for operator in operators:
        times = times_ms.get(operator.name)
        time_ms = median(times) if times else operator.time_ms
        result.append(replace(operator, time_ms=time_ms, start_ms=start))
        start += time_ms
    return result


def kernel_times_ms(run: Callable[[], Any], device: Any) -> list[float]:
    """Some times of the kernels that a function launches on a CUDA device; none if it cannot be recorded."""
    import torch

    try:
        with torch.cuda.device(device):
            once = median(_replayed_ms(run, 1))
            count = int(np.clip(_SHORT_MS / max(once, 1e-3), 2, _MAX_TIMES))
            short, long = _replayed_ms(run, count), _replayed_ms(run, 2 * count)
    except (RuntimeError, UserError):  # it waits for the device, and is timed with its launches
        torch.cuda.synchronize(device)
        return []
    base = median(short)
    return [max(time - base, 0.0) / count for time in long]


def _replayed_ms(run: Callable[[], Any], count: int) -> list[float]:
    """The times of a recording of so many runs."""
    import torch

    warm_up(run, 1)

    def repeated() -> None:
        for _ in range(count):
            run()

    graph, _ = recorded(repeated, torch.cuda.graph_pool_handle())
    graph.replay()
    times = []
    for _ in range(_REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return times
