"""What is written loads in the ONNX Runtimes that load the original, and gives the same results there."""

from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.commands import SAMPLES
from tests.conftest import CORPUS
from tests.loading import saved
from tests.old_runtimes import VERSIONS, python_with_onnxruntime, run_in
from tests.slow import thorough_unless
from tests.test_load_opsets import CONVERTED
from tests.test_written_opset import GELU, WRITTEN, named
from workbench.backends.randomness import is_random
from workbench.formats.io import load_model
from workbench.formats.io.exporting import export_onnx
from workbench.run.inputs import bound_dims, seed_inputs

pytestmark = pytest.mark.slow
HEAVY = 50e6  # bytes; of such a file three versions take minutes
_AT_LEAST = 60  # files of which the original runs there


def _texts(folder):
    """Forms of operators: of files of old opsets, and of what is written at an old opset."""
    for number, (opset, text) in enumerate(CONVERTED):
        yield saved(folder, named(text), f"old{number}.onnx", f'<ir_version: 7, opset_import: ["": {opset}]>\n'), None
    for number, (text, opset, _) in enumerate(WRITTEN):
        header = '<ir_version: 9, opset_import: ["": 20]>\n'
        if "ReduceMax" not in text:
            yield saved(folder, named(text), f"new{number}.onnx", header), opset
    yield saved(folder, GELU, "gelu.onnx", '<ir_version: 6, opset_import: ["": 12]>\n'), None


def _files():
    corpus = [path for path in sorted(CORPUS.glob("*.onnx")) if path.stat().st_size < HEAVY] if CORPUS.is_dir() else []
    return [*sorted(SAMPLES.glob("*.onnx")), *corpus]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """For each file: the original, the inputs, and what is written of it: as loaded, simplified, in other layouts."""
    folder = tmp_path_factory.mktemp("written")
    found = []
    sources = [*_texts(folder), *((path, None) for path in _files())]
    for number, (path, opset) in enumerate(sources):
        graph = load_model(path)
        if is_random(graph):
            continue
        inputs = folder / f"{number}.npz"
        np.savez(inputs, **seed_inputs(graph, bound_dims(graph), 0))
        made = {"loaded": graph}
        if opset is None:
            made["simplified"] = wb.optimize(graph, preset="simplify", opset="keep").graph
            made["layouts"] = wb.optimize(graph, layout="greedy", opset="keep", target="cuda").graph
        for how, result in made.items():
            written = folder / f"{number}-{how}.onnx"
            export_onnx(result, written, opset=opset)
            found.append((path, written, inputs))
    return found


@pytest.mark.parametrize("version", [thorough_unless(version == VERSIONS[0], version) for version in VERSIONS])
def test_it_runs_where_the_original_ran(version, jobs, tmp_path):
    python = python_with_onnxruntime(version)
    if python is None:
        pytest.skip(f"NOT TESTED: onnxruntime {version} cannot be installed here")
    asked = [
        (model, inputs, tmp_path / f"{index}-{side}.npz")
        for index, (original, written, inputs) in enumerate(jobs)
        for side, model in enumerate((original, written))
    ]
    said = run_in(python, asked, tmp_path)
    faults, ran = [], 0
    for index, (original, written, _) in enumerate(jobs):
        first, second = said[2 * index : 2 * index + 2]
        if first:
            continue  # this version has no kernel for the original either
        ran += 1
        if second:
            faults.append(f"{original.name}, {written.name}: {second}")
            continue
        before, after = (np.load(tmp_path / f"{index}-{side}.npz") for side in (0, 1))
        for key in before:
            if not np.allclose(after[key], before[key], rtol=1e-4, atol=1e-5, equal_nan=True):
                faults.append(f"{original.name}, {written.name}: output {key} differs")
    assert faults == []
    assert ran >= _AT_LEAST
