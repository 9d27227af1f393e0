"""Two revisions of this program beside each other.

The one before, of git, is checked out into a temporary folder. It and the present one simplify each model alternately
`--repeat` times without verification, then once each with it. The default models are the samples, the nine light models
with random weights, and BERTs of 1,100 and 5,000 nodes.

nodes: left by the preset `simplify`. error: the largest difference from the original, as verification finds it.
CPU s: median of a process from its start to its end; the ratio is now to before.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.shared.benchmark import MODELS, ROOT, Benchmark, Item, Row, default_and_real, option, repeat, table
from benchmarks.shared.models import LIGHT, SAMPLES, models_of
from benchmarks.shared.processes import graph_workbench, ran

DEFAULT = (*SAMPLES, *LIGHT, "bert_1100", "bert_5000")
BEFORE_DECLARED_RULES = "3e820f1"  # of git, 2026-11-23
TABLE = table("model", "nodes before", "now", "error before", "now", "CPU s before", "now", "ratio")


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    yield f"The revision before is {chosen.revision}."
    yield TABLE
    with tempfile.TemporaryDirectory() as folder, checked_out(chosen.revision, Path(folder)) as before:
        for model in models_of(chosen, DEFAULT):
            yield row(model, before, Path(folder), chosen.repeat)


def cpu_seconds(tree: Path, model: Path, *more: str) -> float:
    """CPU seconds of `optimize --preset simplify` in a source tree. Raises SystemExit if it fails."""
    command = graph_workbench("optimize", model, "--preset", "simplify", *more)
    return ran(command, tree, {"OMP_NUM_THREADS": "1"}).cpu_seconds


def verified(tree: Path, model: Path, folder: Path) -> tuple[int, float | None]:
    """The nodes left, and the largest absolute error; None if nothing was compared."""
    report = folder / "report.json"
    cpu_seconds(tree, model, "-o", str(folder / "out.onnx"), "--report", str(report))
    totals = json.loads(report.read_text())["totals"]
    return totals["nodes_after"], totals["max_abs_error"]


@contextlib.contextmanager
def checked_out(revision: str, folder: Path) -> Iterator[Path]:
    """A folder with the files of the revision, which exists inside the with block."""
    tree = folder / "before"
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(tree), revision], cwd=ROOT, check=True)
    try:
        yield tree
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)


def row(model: Path, before: Path, folder: Path, repeat: int) -> Row:
    out = ("--no-verify", "-o", str(folder / "out.onnx"))
    for tree in (before, ROOT):
        cpu_seconds(tree, model, *out)  # compiles the modules
    runs = [(cpu_seconds(before, model, *out), cpu_seconds(ROOT, model, *out)) for _ in range(repeat)]
    seconds = [statistics.median(times) for times in zip(*runs, strict=True)]
    ratio = statistics.median(now / then for then, now in runs)
    (old_nodes, old_error), (nodes, error) = (verified(tree, model, folder) for tree in (before, ROOT))
    errors = ["-" if value is None else f"{value:.1e}" for value in (old_error, error)]
    return (model.stem, f"{old_nodes:,}", f"{nodes:,}", *errors, *(f"{s:.2f}" for s in seconds), f"{ratio:.2f}")


OPTIONS = (
    *MODELS,
    option("--revision", default=BEFORE_DECLARED_RULES, help="the one before (default: %(default)s)"),
    repeat(5),
)
BENCHMARK = Benchmark(measure, (TABLE,), OPTIONS, default_and_real)
