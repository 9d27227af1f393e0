"""How many nodes the default preset leaves of each sample and real model, bodies included: never more than before.

`python -m tests.test_node_counts` writes the counts down, where a pass leaves fewer.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import workbench as wb
from tests.conftest import CORPUS, ROOT
from workbench.formats.io.samples import samples

COUNTS = ROOT / "tests" / "node_counts.toml"
SAMPLES = {sample.file.stem: sample for sample in samples()}
REAL = {path.stem: path for path in sorted(CORPUS.glob("*.onnx"))}
LARGE = {"unet_sd15_raw"}  # seconds
NAMES = [*SAMPLES, *(name for name in REAL if name not in SAMPLES)]


def nodes_left(name: str) -> int:
    sample = SAMPLES.get(name)
    graph = wb.load(REAL[name]) if sample is None else wb.load(sample.file, dims=sample.dims)
    return wb.optimize(graph)[-1].after["nodes"]


def written() -> dict[str, int]:
    return tomllib.loads(COUNTS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in LARGE else n for n in NAMES])
def test_no_model_has_more_nodes_than_before(name):
    before, now = written()[name], nodes_left(name)
    assert now <= before, "a pass leaves more nodes than it did"
    assert now == before, "write it down: python -m tests.test_node_counts"


def test_what_is_written_down_is_there():
    absent = written().keys() - {*NAMES}
    assert not absent or not REAL


def write(path: Path = COUNTS) -> None:
    counts = {name: nodes_left(name) for name in NAMES}
    path.write_text("".join(f"{name} = {count}\n" for name, count in sorted(counts.items())), encoding="utf-8")


if __name__ == "__main__":
    write()
