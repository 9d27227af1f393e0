"""The task of timing operators one by one inside the worker, in interleaved rounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from workbench.backends.failures import TaskError
from workbench.backends.profiling.profile import profile
from workbench.backends.torch.executor.device_times import device_times_ms
from workbench.backends.torch.executor.executor import MIXED
from workbench.backends.torch.executor.opening import check_device, open_executor
from workbench.run.inputs import seed_inputs

_WARMUP = 2
_MIN_ROUNDS, _MAX_ROUNDS = 9, 25
_BUDGET_S = 4.0  # seconds for the rounds of one request, after the fewest


def operator_times(request: Mapping[str, Any], report: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Nanoseconds of every node of `model`, in rounds over all nodes on seeded inputs; on CUDA those of its kernels.

    dtype:   the dtype of the run; in a mixed run all operators are timed in the narrow type, which most of them have.
    backend: "torch", or "fused": each node by its fastest kernel, if it has one.
    Returns `times`: node -> [the fastest, the distance of the lower quartile from it].
    Progress: {"done", "total"} after every round.
    """
    check_device(request["device"])
    gpu = request["device"] if request["device"].startswith("cuda") else None
    narrow = "bfloat16" if gpu is None else "float16"
    dtype = narrow if request["dtype"] == MIXED else request["dtype"]
    executor = open_executor(request["model"], request["device"], dtype)
    tensors = executor.upload(seed_inputs(executor.graph))
    if request["backend"] == "fused":
        from workbench.backends.torch.fused.select_kernels import choose_kernels

        try:
            choose_kernels(executor, tensors, lambda stage: report({"done": 0, "total": 1}))
        except Exception as error:
            raise TaskError(error, "run") from error
    results: dict[str, list[float]] = {node.name: [] for node in executor.graph.nodes}
    deadline = time.monotonic() + _BUDGET_S
    for round_ in range(_WARMUP + _MAX_ROUNDS):
        try:
            operators = profile(executor, tensors, gpu).operators
        except Exception as error:
            raise TaskError(error, "run") from error
        if round_ >= _WARMUP:
            for operator in operators:
                results[operator.name].append(operator.time_ms)
        report({"done": round_ + 1, "total": _WARMUP + _MAX_ROUNDS})
        if round_ + 1 >= _WARMUP + _MIN_ROUNDS and time.monotonic() > deadline:
            break
    results |= {} if gpu is None else device_times_ms(executor, tensors)
    return {"times": {name: _nanoseconds(times_ms) for name, times_ms in results.items()}}


def _nanoseconds(times_ms: list[float]) -> list[int]:
    best, quartile = min(times_ms), np.percentile(times_ms, 25)
    return [round(best * 1e6), round((quartile - best) * 1e6)]
