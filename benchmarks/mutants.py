"""Mutants of the logic, and whether a test notices each, by `python -m tests.mutation`.

Of small packages every mutant is tried, of others a sample.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from benchmarks.shared.benchmark import Benchmark, Item, table
from tests.mutation.__main__ import COLUMNS, row, tried

TABLE = table(*COLUMNS)
ONE_IN = {"solvers": 1, "ir": 3, "cuts": 6, "checker": 29, "rewrite/core": 25}  # one in so many is tried


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    yield TABLE
    for package, one_in in ONE_IN.items():
        yield row(tried(package, argparse.Namespace(one_in=one_in, at_once=1, again=False)))


BENCHMARK = Benchmark(measure, (TABLE,))
