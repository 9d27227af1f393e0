"""Statistics of a list of times: median, spread, the median's interval, and the ratio of two medians.

Common practice: the median rather than the mean, since noise only adds time;
p90, p99 and the interquartile range beside it; the ratio of two medians with a
bootstrap interval (Efron 1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BUSY = 0.15  # interquartile range over median, above which the machine was busy
STABLE = 0.01  # half the median's interval over the median, below which further runs are not needed
RESAMPLES = 2000
CONFIDENCE = 95  # percent
MIN_ITERATIONS = 6  # with fewer, even the whole range contains the median with less than 95 %
_LAUNCHED_ONE_BY_ONE = ("torch", "onnxruntime")
_NOTCH = 1.57  # McGill, Tukey, Larsen 1978: the median's 95 % interval is about 1.57 IQR / sqrt(n) to each side


@dataclass(frozen=True)
class LatencyStats:
    """Statistics in milliseconds; the median is known to +- `median_error_ms` (95 %)."""

    min_ms: float
    median_ms: float
    median_error_ms: float
    p90_ms: float
    p99_ms: float
    iqr_ms: float


@dataclass(frozen=True)
class Ratio:
    """One median over another, below 1 if faster, without unit.

    ratio_low, ratio_high: its 95 % bootstrap interval.
    ratio_busy: whether the machine was busy while either was measured.
    """

    ratio: float
    ratio_low: float
    ratio_high: float
    ratio_busy: bool


def spread(times_ms: Sequence[float]) -> LatencyStats:
    """Minimum, median, percentiles and interquartile range of times in milliseconds."""
    low, median, high, p90, p99 = np.percentile(times_ms, [25, 50, 75, 90, 99])
    return LatencyStats(
        min_ms=min(times_ms),
        median_ms=float(median),
        median_error_ms=float(_NOTCH * (high - low) / len(times_ms) ** 0.5),
        p90_ms=float(p90),
        p99_ms=float(p99),
        iqr_ms=float(high - low),
    )


def is_stable(times_ms: Sequence[float]) -> bool:
    """Whether the median is known to one percent."""
    spread_ = spread(times_ms)
    return spread_.median_error_ms <= STABLE * spread_.median_ms


def is_busy(times_ms: Sequence[float]) -> bool:
    """Whether the times spread so far that the machine must have been busy."""
    spread_ = spread(times_ms)
    return spread_.iqr_ms > BUSY * spread_.median_ms


def spread_shows_load(device: str, backend: str) -> bool:
    """Whether the spread of a backend's times on a device shows that something else ran there.

    On CUDA it does not if the host launches kernels one by one: launch times vary on an idle machine too, with a
    ninetieth percentile of 1.5 times the median on an H200. A recorded run has the times of the device alone.
    """
    return not device.startswith("cuda") or backend not in _LAUNCHED_ONE_BY_ONE


def ratio(times_ms: Sequence[float], first_ms: Sequence[float], busy: bool | None = None) -> Ratio:
    """The median over the first variant's, below 1 if faster, with its 95 % bootstrap interval.

    Iterations are resampled together, since the runs of one iteration are simultaneous. For fewer than MIN_ITERATIONS
    the interval is their whole range. busy: whether the machine was busy; None: as the times show.
    """
    times, baseline = np.asarray(times_ms), np.asarray(first_ms)
    median_ratio = float(np.median(times) / np.median(baseline))
    if len(times) < MIN_ITERATIONS:
        pairs = times / baseline
        low, high = float(pairs.min()), float(pairs.max())
    else:
        iterations = np.random.default_rng(0).integers(0, len(times), (RESAMPLES, len(times)))
        low, high = interval(np.median(times[iterations], axis=1) / np.median(baseline[iterations], axis=1))
    if busy is None:
        busy = is_busy(times_ms) or is_busy(first_ms)
    return Ratio(median_ratio, low, high, busy)


def interval(resampled: np.ndarray) -> tuple[float, float]:
    """The central interval of CONFIDENCE percent of the resampled numbers."""
    low, high = np.percentile(resampled, [(100 - CONFIDENCE) / 2, (100 + CONFIDENCE) / 2])
    return float(low), float(high)
