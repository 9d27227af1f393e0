"""Repetitions in a row of numbers, by which identical consecutive blocks of a graph are found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_MAX_PERIOD = 400  # numbers of a repeated block
_MIN_REPEATS = 3


def repeats(row: Sequence[int], crossing: Sequence[int]) -> list[tuple[int, int, int]]:
    """Repetitions in a row of numbers, in order: (start, period, times); the longest ones are preferred.

    crossing: by position of the row, how many values cross it. A repetition begins where the fewest do: at a block's
    beginning, not in its middle.
    """
    numbers = np.array(row)
    found = []
    for period in range(1, min(_MAX_PERIOD, len(row) // _MIN_REPEATS) + 1):
        same = np.concatenate(([False], numbers[:-period] == numbers[period:], [False]))
        borders = np.flatnonzero(same[1:] != same[:-1])
        for start, end in zip(borders[::2], borders[1::2], strict=True):
            length = int(end - start) + period
            if length // period >= _MIN_REPEATS:
                found.append((length // period * period, -period, int(start), length))
    covered = np.zeros(len(row), dtype=bool)
    chosen = []
    for _, negative, start, length in sorted(found, reverse=True):
        period = -negative
        if covered[start : start + length].any():
            continue
        shifts = range(min(period, length - _MIN_REPEATS * period + 1))
        shift = min(shifts, key=lambda i: (crossing[start + i], -((length - i) // period), i))
        times = (length - shift) // period
        covered[start + shift : start + shift + times * period] = True
        chosen.append((start + shift, period, times))
    return sorted(chosen)
