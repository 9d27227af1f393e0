"""A model of 3 GB through the simplifiers of `simplify.py`.

Twelve layers of a product, with the weights in a separate file and leftovers of an export between them. It needs 16 GB
of disk, and twice the memory of the model.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.shared.benchmark import Benchmark, Item, repeat
from benchmarks.shared.processes import python
from benchmarks.simplify import PEERS, PINNED, free_memory, results, tables

LAYERS, WIDTH = 12, 8_192
BYTES = 4 * LAYERS * WIDTH * WIDTH  # of the model
WRITE = """
import sys
from pathlib import Path
from benchmarks.shared.bert import write_large
write_large(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
"""


def measure(chosen: argparse.Namespace) -> Iterator[Item]:
    with tempfile.TemporaryDirectory() as folder:
        refuse_unless_fits(Path(folder))
        path = Path(folder) / "large.onnx"
        python(WRITE, path, LAYERS, WIDTH)
        yield from results(iter([path]), chosen.repeat, chosen.peers)


def refuse_unless_fits(folder: Path) -> None:
    """Exit unless disk and memory suffice: each tool writes the large model, and holds it in memory at least once."""
    files = BYTES * (1 + len(PINNED) + 2)
    disk, memory = shutil.disk_usage(folder).free, free_memory()
    if disk < files:
        sys.exit(f"The large model needs {files / 1e9:.0f} GB of disk, and {folder} has {disk / 1e9:.0f}.")
    if memory < 2 * BYTES:
        sys.exit(f"The large model needs {2 * BYTES / 1e9:.0f} GB of memory, and {memory / 1e9:.0f} are free.")


BENCHMARK = Benchmark(measure, tuple(tables([])), (PEERS, repeat(1)))
