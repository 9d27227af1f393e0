"""Mutation testing: one change of logic at a time in a package, and whether a test of it fails.

`python -m tests.mutation [PACKAGE ...]` prints a table, and each mutant that survives without a reason in
`survivors.toml`; then the exit code is 1. `--one-in N` tries a sample, the same in each run. Tools as mutmut and
cosmic-ray start a process for each mutant, which here takes seconds to import; forks of one process take milliseconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from collections.abc import Collection

from tests.mutation.mutations import Mutant
from tests.mutation.progress import Progress
from tests.mutation.running import Run
from tests.mutation.subjects import SUBJECTS
from tests.mutation.warm import ROOT

COLUMNS = ("package", "mutants", "tried", "killed", "survived", "of them equivalent", "killed of the others")
LAST = ROOT / ".mutation"  # for `--again`: the mutants that survived the last run, by package


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=f"of {', '.join(SUBJECTS)}; else all")
    parser.add_argument("--one-in", type=int, default=1, metavar="N", help="try one mutant in N")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="mutants that are tried at the same time")
    parser.add_argument("--again", action="store_true", help="only those that survived the last run")
    arguments = parser.parse_args()
    if unknown := set(arguments.packages) - set(SUBJECTS):
        parser.error(f"there is no package {', '.join(sorted(unknown))}; there are {', '.join(SUBJECTS)}")
    done = [tried(package, arguments) for package in arguments.packages or SUBJECTS]
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for progress in done:
        print(f"| {' | '.join(row(progress))} |")
    return int(any(len(progress.survivors) > progress.equivalent for progress in done))


def tried(package: str, arguments: argparse.Namespace) -> Progress:
    last = LAST / f"{package.replace('/', '-')}.json"
    only = {tuple(key) for key in json.loads(last.read_text(encoding="utf-8"))} if arguments.again else None
    run = Run(SUBJECTS[package], lambda mutant: is_wanted(mutant, arguments.one_in, only), arguments.at_once)
    progress = run.run(Progress(package))
    progress.tell()
    last.parent.mkdir(exist_ok=True)
    last.write_text(json.dumps([mutant.key for mutant in progress.survivors]), encoding="utf-8")
    return progress


def is_wanted(mutant: Mutant, one_in: int, only: Collection[tuple[str, ...]] | None) -> bool:
    """A mutant is in the sample or not whatever else changes in its file."""
    return (only is None or mutant.key in only) and zlib.crc32("".join(mutant.key).encode()) % one_in == 0


def row(progress: Progress) -> tuple[str, ...]:
    survived = len(progress.survivors)
    others = progress.killed + survived - progress.equivalent
    counts = (
        SUBJECTS[progress.package].count,
        progress.killed + survived,
        progress.killed,
        survived,
        progress.equivalent,
    )
    return progress.package, *(f"{count:,}" for count in counts), f"{progress.killed / others:.1%}" if others else "-"


if __name__ == "__main__":
    sys.exit(main())
