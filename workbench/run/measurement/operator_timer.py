"""The operator timer of a pass context.

Every pipeline has a timer, and few use it: `timing_cache.py` and the worker, which measures,
are loaded at the first request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.backends.profiling.progress import ProgressCallback
from workbench.planning.layout.problem.operator_benchmark import OperatorBenchmark, OperatorTimer, Times
from workbench.support.optional_torch import need_torch

if TYPE_CHECKING:
    from workbench.run.worker.client import Worker


class DeviceOperatorTimer(OperatorTimer):
    """Times operators in `worker`, or in a new worker that ends with the request.

    on_progress: is called with the progress, a text and the fraction done, from 0 to 1; may raise to stop.
    """

    def __init__(self, worker: Worker | None = None, on_progress: ProgressCallback | None = None) -> None:
        self._worker = worker
        self._on_progress = on_progress or _ignore

    def times(self, benchmarks: Sequence[OperatorBenchmark], device: str, dtype: str = "float32") -> Times:
        """The times of all benchmarks. Raises RunError if the device fails, CacheError if the file of times fails,
        and UserError where torch, which runs them, is not installed."""
        need_torch("Timing operators")
        from workbench.run.measurement.timing_cache import times_of
        from workbench.run.worker.client import Worker

        distinct = tuple(dict.fromkeys(benchmarks))
        if self._worker is not None:
            return times_of(self._worker, distinct, device, dtype, self._on_progress)
        with Worker() as worker:
            return times_of(worker, distinct, device, dtype, self._on_progress)


def _ignore(text: str, share: float) -> None:
    """Ignore the progress."""
