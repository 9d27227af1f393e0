"""What `optimize` takes of memory: less than three times a model of 25 MB and more, Python and its libraries counted,
ONNX Runtime aside, which is loaded only where something is folded that it computes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.engine import smallest_model
from sample_models.light import random_light
from tests.conftest import CORPUS, ROOT

LARGE = sorted(path for path in CORPUS.glob("*.onnx") if path.stat().st_size > 20_000_000)
WHOLE_FROM = 25_000_000  # bytes of a file; Python with numpy and onnx takes 64 MB for a model of two nodes
OPTIMIZE = """
import sys
from workbench.__main__ import main
assert main(["optimize", sys.argv[1], "--layout", "greedy", "--target", "cuda", "-o", sys.argv[2], "--no-verify"]) == 0
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak.split()[1]) * 1024, "onnxruntime" in sys.modules)
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="NOT TESTED: only Linux tells a process's peak"),
]


def peak_bytes(path: Path, folder: Path) -> tuple[int, bool]:
    """The largest resident set of a process that only optimizes this model; does ONNX Runtime fold something?

    Modules are compiled once, as for a user: to compile them again takes 3 MB.
    """
    command = [sys.executable, "-c", OPTIMIZE, str(path), str(folder / "out.onnx")]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=env)
    peak, folds = done.stdout.splitlines()[-1].split()
    return int(peak), folds == "True"


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """By whether ONNX Runtime folds something: what Python and its libraries need."""
    folder = tmp_path_factory.mktemp("bare")
    peaks = (peak_bytes(smallest_model(folder, folded), folder) for folded in (False, True))
    found = {folds: peak for peak, folds in peaks}
    assert set(found) == {False, True}
    return found


@pytest.mark.skipif(not LARGE, reason=f"THE CORPUS OF REAL MODELS IS NOT AT {CORPUS}: ITS MEMORY IS NOT TESTED")
@pytest.mark.parametrize("path", LARGE, ids=lambda path: path.stem)
def test_a_real_model_takes_less_than_three_times_its_file(path, bare, tmp_path):
    peak, folds = peak_bytes(path, tmp_path)
    size = path.stat().st_size
    library = bare[folds] - bare[False]  # ONNX Runtime's, which no model makes larger
    taken = peak - library if size > WHOLE_FROM else peak - bare[folds]
    assert taken < 3 * size, f"{taken / 1e6:,.0f} MB for a file of {size / 1e6:,.0f} MB"


def test_resnet50_takes_less_than_one_and_a_half_times_its_file(tmp_path):
    onnx.save(random_light("resnet50"), tmp_path / "resnet50.onnx")
    assert peak_bytes(tmp_path / "resnet50.onnx", tmp_path)[0] < 1.5 * (tmp_path / "resnet50.onnx").stat().st_size


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("name", ["w", "of another length"])  # it decides whether the numbers lie aligned in the file
def test_a_weight_that_no_pass_changes_is_never_held_in_memory(name, beside, bare, tmp_path):
    weight = numpy_helper.from_array(np.zeros((25_000, 1_000), np.float32), name)
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", d]) for n, d in (("x", 25_000), ("y", 1_000)))
    graph = helper.make_graph([helper.make_node("MatMul", ["x", name], ["y"])], "g", [x], [y], [weight])
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=beside, location="m.data")
    peak, folds = peak_bytes(tmp_path / "m.onnx", tmp_path)
    taken = peak - bare[folds]
    assert taken < weight.ByteSize() / 4, f"{taken / 1e6:,.0f} MB for a weight of {weight.ByteSize() / 1e6:,.0f} MB"
