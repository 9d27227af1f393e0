"""Memory of the app's process while one session opens small models.

For each part of the opens: the largest resident memory in MB, and its ratio to that of the first twenty opens.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import pairwise

from benchmarks.shared.benchmark import Benchmark, Item, option, table
from benchmarks.shared.processes import python

TABLE = table("opens", "largest memory (MB)", "over that of the first 20")
FIRST = 20


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    count = chosen.opens
    printed = python("import sys; from tests.opens import main; main(int(sys.argv[1]))", count)
    resident = [int(line) / 1e6 for line in printed.split()]
    first = max(resident[:FIRST])
    yield TABLE
    for begin, end in pairwise([0, FIRST, *(end for end in (count // 4, count // 2, count) if end > FIRST)]):
        largest = max(resident[begin:end])
        yield f"{begin + 1} to {end}", f"{largest:.0f}", f"{largest / first:.2f}"


BENCHMARK = Benchmark(measure, (TABLE,), (option("opens", nargs="?", type=int, default=400),))
