"""What a list of times says: middle, spread, how sure the middle is, and the ratio of two.

Habits of the field: the median rather than the mean, for noise only ever adds;
p90, p99 and the interquartile range beside it; the ratio of two medians with a
bootstrap interval (Efron 1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BUSY = 0.15  # interquartile range over median, above which something else was running
STABLE = 0.01  # half the interval of the median over the median, below which more runs tell nothing new
RESAMPLES = 2000
CONFIDENCE = 95  # percent
FEWEST = 6  # turns; of fewer, even the whole range holds the median with less than 95 %
_NOTCH = 1.57  # McGill, Tukey, Larsen 1978: the median's 95 % interval is about 1.57 IQR / sqrt(n) to each side


@dataclass(frozen=True)
class Spread:
    """What a list of times says, all in milliseconds; the median is known to +- `median_error_ms` (95 %)."""

    min_ms: float
    median_ms: float
    median_error_ms: float
    p90_ms: float
    p99_ms: float
    iqr_ms: float


@dataclass(frozen=True)
class Ratio:
    """One median over another, below 1 where faster, without unit.

    ratio_low, ratio_high: its 95 % bootstrap interval.
    ratio_busy: the machine did something else while either was measured.
    """

    ratio: float
    ratio_low: float
    ratio_high: float
    ratio_busy: bool


def spread(times_ms: Sequence[float]) -> Spread:
    """Minimum, median, percentiles and interquartile range of times in milliseconds."""
    low, median, high, p90, p99 = np.percentile(times_ms, [25, 50, 75, 90, 99])
    return Spread(
        min_ms=min(times_ms),
        median_ms=float(median),
        median_error_ms=float(_NOTCH * (high - low) / len(times_ms) ** 0.5),
        p90_ms=float(p90),
        p99_ms=float(p99),
        iqr_ms=float(high - low),
    )


def is_stable(times_ms: Sequence[float]) -> bool:
    """Is the median known to one percent?"""
    numbers = spread(times_ms)
    return numbers.median_error_ms <= STABLE * numbers.median_ms


def is_busy(times_ms: Sequence[float]) -> bool:
    """Do the times spread so far that the machine did something else meanwhile?"""
    numbers = spread(times_ms)
    return numbers.iqr_ms > BUSY * numbers.median_ms


def ratio(times_ms: Sequence[float], first_ms: Sequence[float]) -> Ratio:
    """The median over the first variant's, below 1 where faster, with its 95 % bootstrap interval.

    Turns are drawn again together, as the runs of one turn met the same moment. Fewer
    than FEWEST carry no such interval: then it is the whole range of the turns.
    """
    ours, theirs = np.asarray(times_ms), np.asarray(first_ms)
    middle = float(np.median(ours) / np.median(theirs))
    if len(ours) < FEWEST:
        pairs = ours / theirs
        low, high = float(pairs.min()), float(pairs.max())
    else:
        turns = np.random.default_rng(0).integers(0, len(ours), (RESAMPLES, len(ours)))
        low, high = interval(np.median(ours[turns], axis=1) / np.median(theirs[turns], axis=1))
    busy = is_busy(times_ms) or is_busy(first_ms)
    return Ratio(middle, low, high, busy)


def interval(drawn: np.ndarray) -> tuple[float, float]:
    """What holds CONFIDENCE percent of the numbers that were drawn, as many below it as above."""
    low, high = np.percentile(drawn, [(100 - CONFIDENCE) / 2, (100 + CONFIDENCE) / 2])
    return float(low), float(high)
