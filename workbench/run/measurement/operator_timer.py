"""The timer of operators in a pass's context.

Every pipeline has one, and few use it: `timing_cache.py`, and the worker in which times are
measured, are loaded at the first request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.layout.problem.probe import OperatorTimer, Probe, Times
from workbench.run.profiling.progress import OnShare
from workbench.support.torch_here import need_torch

if TYPE_CHECKING:
    from workbench.run.worker.client import Worker


class DeviceOperatorTimer(OperatorTimer):
    """Times operators in `worker`, or in a new worker that ends with the request.

    on_share: is called with the progress, in words and from 0 to 1; may raise to stop.
    """

    def __init__(self, worker: Worker | None = None, on_share: OnShare | None = None) -> None:
        self._worker = worker
        self._on_share = on_share or _unheard

    def times(self, probes: Sequence[Probe], device: str, dtype: str = "float32") -> Times:
        """The times of all probes. Raises RunError if the device fails, CacheError if the file of times fails,
        and UserError where torch, which runs them, is not installed."""
        need_torch("Timing operators")
        from workbench.run.measurement.timing_cache import times_of
        from workbench.run.worker.client import Worker

        once = tuple(dict.fromkeys(probes))
        if self._worker is not None:
            return times_of(self._worker, once, device, dtype, self._on_share)
        with Worker() as worker:
            return times_of(worker, once, device, dtype, self._on_share)


def _unheard(words: str, share: float) -> None:
    """Ignore the progress."""
