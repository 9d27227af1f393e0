"""Measure benchmarks into docs/results/*.json, and draw docs/results.md from them.

All of them take an hour, in a process each; --only measures one. FOLDER: real models (`*.onnx`), measured besides the
samples. It needs a Chromium. The title of a part and the text above its tables are in its file, and stay when it is
measured again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import replace
from itertools import chain
from pathlib import Path

from benchmarks.publishing.groups import NAMES
from benchmarks.publishing.page import DATA, published_parts, results_page
from benchmarks.shared.benchmark import ROOT, Benchmark, RealModels, benchmark, content_of
from benchmarks.shared.machine import machine, today, versions
from workbench.run.records.published import PublishedMeasurement, published_text, read_published
from workbench.support.files import write_text

PAGE = DATA.parent / "results.md"


def publish(argv: list[str]) -> None:
    """The command `publish` with these arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks publish",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--only", choices=NAMES, metavar="NAME", help="the other parts stay as they are")
    parser.add_argument("--instances", type=Path, metavar="FOLDER", help="MiniMalloc's, *.csv")
    chosen = parser.parse_args(argv)
    if chosen.only is None:
        for name in NAMES:
            command = [sys.executable, "-m", "benchmarks", "publish", *argv, "--only", name]
            subprocess.run(command, cwd=ROOT, check=True)
        return
    real = RealModels(chosen.folder, chosen.instances)
    file = DATA / f"{chosen.only}.json"
    write_text(file, published_text(replace(read_published(file), measurements=measured(benchmark(chosen.only), real))))
    draw()


def measured(one: Benchmark, real: RealModels) -> tuple[PublishedMeasurement, ...]:
    """What is measured now, or was on other machines."""
    if one.measurements is not None:
        return tuple(one.measurements())
    content = content_of(chain.from_iterable(one.run(arguments) for arguments in one.published(real)))
    return (PublishedMeasurement(today(), machine(), versions(), tuple(content)),)


def draw() -> None:
    write_text(PAGE, results_page(published_parts()))
