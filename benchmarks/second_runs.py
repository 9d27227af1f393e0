"""Rewrites of a second run: `python benchmarks/second_runs.py MODEL.onnx ...`.

One row for each model and preset: its nodes, the nodes of the file that `optimize` writes, the rewrites of that run,
the rewrites of a second run on that file, and whether the second run writes the same bytes. If the engine works at a
newer opset than the file has, loading may undo what writing converted. Then the second run repeats rewrites and writes
the same bytes. Prints Markdown.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

COLUMNS = ("model", "preset", "nodes", "after", "rewrites", "of the second run", "the same bytes")
PRESETS = ("simplify", "normalize")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    for path in parser.parse_args().models:
        for preset in PRESETS:
            with tempfile.TemporaryDirectory() as folder:
                print(f"| {' | '.join(row(path, preset, Path(folder)))} |", flush=True)


def row(path: Path, preset: str, folder: Path) -> tuple[str, ...]:
    first, second = folder / "first.onnx", folder / "second.onnx"
    nodes, left, rewrites = written(path, preset, first)
    _, _, again = written(first, preset, second)
    same = "yes" if first.read_bytes() == second.read_bytes() else "no"
    return path.stem, preset, f"{nodes:,}", f"{left:,}", f"{rewrites:,}", f"{again:,}", same


def written(path: Path, preset: str, out: Path) -> tuple[int, int, int]:
    """The nodes before and after, and the rewrites between them."""
    import workbench as wb

    history = wb.optimize(wb.load(path), preset=preset)
    wb.export(history.graph, out)
    return len(history.initial), len(history.graph), sum(len(step.rewrites) for step in history.steps)


if __name__ == "__main__":
    main()
