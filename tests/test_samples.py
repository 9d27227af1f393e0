"""The sample models: each loads, exports, and runs as it did; `make.py` makes the same files again."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import onnx
import pytest

from tests.conftest import ROOT
from tests.test_export import checked, session
from workbench.formats.io import load_model
from workbench.formats.io.exporting import export_onnx
from workbench.formats.io.samples import FOLDER, samples
from workbench.ir import check
from workbench.run.inputs import seed_inputs

REAL = ("ppocr_cls_v2.onnx", "basic_pitch_nmp.onnx", "silero_vad.onnx")


def test_every_model_in_the_folder_is_listed():
    assert {s.file for s in samples()} == {*FOLDER.rglob("*.onnx"), *FOLDER.rglob("*.onnxtxt")}
    assert all(s.title and s.description and s.source for s in samples())
    assert sum(file.stat().st_size for file in FOLDER.iterdir() if file.is_file()) < 6_000_000


def test_the_real_ones_have_their_licences():
    told = (FOLDER / "LICENSES.md").read_text()
    assert all(name in told for name in REAL)
    assert "Apache License" in told and "Version 2.0, January 2004" in told and "Silero Team" in told


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    "sample", [s for s in samples() if s.group in ("Real networks", "Layouts")], ids=lambda s: s.file.stem
)
def test_a_sample_comes_back_the_same(sample, tmp_path):
    graph = load_model(sample.file, sample.dims)
    check(graph)
    assert graph.warnings == ()
    export_onnx(graph, tmp_path / "out.onnx")
    given = seed_inputs(graph)
    before = session(sample.file).run(None, given)
    after = checked(tmp_path / "out.onnx").run(None, given)
    for a, b in zip(before, after, strict=True):
        assert len(np.unique(a)) > 1 or a.size == 1  # an output that is one number proves nothing
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_make_makes_the_same_files(tmp_path):
    done = subprocess.run(
        [sys.executable, str(FOLDER / "make.py"), str(tmp_path)], capture_output=True, text=True, cwd=ROOT.parent
    )
    assert done.returncode == 0, done.stderr
    made = {str(file.relative_to(tmp_path)): file.read_bytes() for file in tmp_path.rglob("*.onnx*")}
    assert made.keys() == {str(s.file.relative_to(FOLDER)) for s in samples()} - set(REAL)
    for name, data in made.items():
        assert data == (FOLDER / name).read_bytes(), (
            f"{name}: make.py makes another file; run it and commit what it made"
        )


def test_the_narrow_resnet_is_resnet50():
    narrow = onnx.load(FOLDER / "resnet50_narrow.onnx").graph
    folder = FOLDER.__class__(onnx.__file__).parent / "backend/test/data/light"
    whole = onnx.load(folder / "light_resnet50.onnx").graph
    operators = [n.op_type for n in whole.node if n.op_type != "ConstantOfShape"]
    assert [n.op_type for n in narrow.node] == operators and len(operators) == 176


def test_every_figure_of_the_founding_documents_stands_in_the_references():
    """The table names samples that are here, and each sample that was made from a figure."""
    table = (ROOT / "docs" / "references.md").read_text(encoding="utf-8").split("## Figures of the five documents")[1]
    sources = {sample.file.relative_to(FOLDER).with_suffix("").as_posix(): sample.source for sample in samples()}
    rows = [line.split("|")[1:-1] for line in table.splitlines() if line.startswith("| ")][1:]
    named = {name for *_, here in rows for name in re.findall(r"`([\w/]*\w)`", here)}
    assert len(rows) == 21 and len(named) >= 18 and named <= sources.keys()
    assert {name for name, source in sources.items() if "'s figure" in source} <= named
