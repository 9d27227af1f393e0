"""Two revisions of this program beside each other: `python benchmarks/revisions.py REVISION [MODEL or FOLDER ...]`.

REVISION, of git, is checked out into a temporary folder. It and the present one simplify each model alternately
`--repeat` times without verification, then once each with it. The default models are the samples, the nine light models
with random weights, and BERTs of 1,100 and 5,000 nodes.

nodes: left by the preset `simplify`. error: the largest difference from the original, as verification finds it.
CPU s: median of a process from its start to its end; the ratio is now to before.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import onnx

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.simplify_models import bert_of  # noqa: E402
from sample_models.light import light_paths  # noqa: E402

BERTS = (1_100, 5_000)  # nodes


def cpu_seconds(tree: Path, model: Path, *more: str) -> float:
    """CPU seconds of `optimize --preset simplify` in a source tree. Raises SystemExit if it fails."""
    command = [sys.executable, "-m", "workbench", "optimize", str(model), "--preset", "simplify", *more]
    process = subprocess.Popen(command, cwd=tree, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"this command failed in {tree}: {' '.join(command)}")
    return usage.ru_utime + usage.ru_stime


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


def models_in(paths: list[Path], folder: Path) -> list[Path]:
    """The given files and those in given folders; by default, the default models, written into `folder`."""
    if paths:
        return [model for path in paths for model in ([path] if path.is_file() else sorted(path.glob("*.onnx")))]
    berts = [folder / f"bert_{nodes}.onnx" for nodes in BERTS]
    for path, nodes in zip(berts, BERTS, strict=True):
        onnx.save(bert_of(nodes), path)
    return [*sorted((ROOT / "sample_models").glob("*.onnx")), *light_paths(folder), *berts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revision")
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--repeat", type=int, default=5)
    chosen = parser.parse_args()
    print("| model | nodes before | now | error before | now | CPU s before | now | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = [model.resolve() for model in models_in(chosen.models, folder)]
        with checked_out(chosen.revision, folder) as before:
            for model in models:
                print(row(model, before, folder, chosen.repeat), flush=True)


def row(model: Path, before: Path, folder: Path, repeat: int) -> str:
    """One line of the table."""
    out = ("--no-verify", "-o", str(folder / "out.onnx"))
    for tree in (before, ROOT):
        cpu_seconds(tree, model, *out)  # compiles the modules
    runs = [(cpu_seconds(before, model, *out), cpu_seconds(ROOT, model, *out)) for _ in range(repeat)]
    seconds = [statistics.median(times) for times in zip(*runs, strict=True)]
    ratio = statistics.median(now / then for then, now in runs)
    (old_nodes, old_error), (nodes, error) = (verified(tree, model, folder) for tree in (before, ROOT))
    errors = ["-" if value is None else f"{value:.1e}" for value in (old_error, error)]
    cells = [model.stem, f"{old_nodes:,}", f"{nodes:,}", *errors, *(f"{s:.2f}" for s in seconds), f"{ratio:.2f}"]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
