"""The kernels of one run on a CUDA device with their streams, by torch's profiler, which asks CUPTI."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from workbench.backends.profiling.profile_result import DeviceKernel


def device_kernels(run: Callable[[], Any], device: str) -> list[DeviceKernel]:
    """The kernels and copies of a run on a CUDA device, in the order in which they begin."""
    import torch

    autograd: Any = torch.autograd
    os.environ.setdefault("TEARDOWN_CUPTI", "0")  # as torch does: CUPTI does not survive it beside CUDA graphs
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
        torch.cuda.synchronize(device)
    return kernels_in(profile.events(), autograd.DeviceType.CUDA)


def kernels_in(events: Iterable[Any], kind: Any) -> list[DeviceKernel]:
    """The events of torch's profiler on one kind of device; the first begins at 0."""
    of_kind = sorted((event for event in events if event.device_type == kind), key=lambda event: event.time_range.start)
    return [
        DeviceKernel(
            event.name,
            event.device_resource_id,
            (event.time_range.start - of_kind[0].time_range.start) / 1e3,
            event.time_range.elapsed_us() / 1e3,
        )
        for event in of_kind
    ]
