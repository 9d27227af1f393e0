"""The command line: as a process, what it lists and tells, torch programs, and the exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import onnxruntime
import psutil
import pytest
import torch

import passes as library
from tests.commands import NHWC, NPU, OCR, RESNET, operators
from tests.conftest import ROOT
from tests.waiting import LIMIT_S
from workbench.__main__ import main

pytestmark = pytest.mark.own_worker

# ---- as a process ----------------------------------------------------------------------


def in_a_process(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "workbench", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        timeout=LIMIT_S,
    )


def test_the_process_ends_with_the_code_and_says_one_line():
    ended = in_a_process("passes")
    assert ended.returncode == 0 and "fold_batchnorm" in ended.stdout and ended.stderr == ""
    ended = in_a_process("inspect", "there_is_no_such.onnx")
    assert ended.returncode == 2 and ended.stdout == ""
    assert ended.stderr == "workbench: there_is_no_such.onnx: there is no such file\n"
    ended = in_a_process("bench", NPU, "--device", "tpu")
    assert ended.returncode == 2 and ended.stderr.startswith("workbench: ") and ended.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_command_ends_what_it_started(done):
    before = psutil.Process().children(recursive=True)
    done("bench", NPU, "--repeat", "1")
    assert psutil.Process().children(recursive=True) == before


def test_a_listing_imports_nothing_heavy():
    code = (
        "import sys; from workbench.__main__ import main; main(['passes']); "
        "print(sorted({'torch', 'onnxruntime', 'streamlit', 'pandas', 'plotly'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=LIMIT_S)
    assert ended.stdout.splitlines()[-1] == "[]", ended.stderr


@pytest.mark.slow
def test_optimizing_loads_no_runtime(tmp_path):
    """What the samples fold has one right result each, which NumPy computes (`analysis/inference/exact.py`)."""
    models = [str(path) for path in sorted((ROOT / "sample_models").glob("*.onnx"))]
    code = (
        "import sys; from workbench.__main__ import main\n"
        f"for model in {models}:\n"
        f"    assert main(['optimize', model, '-o', r'{tmp_path / 'out.onnx'}', '--no-verify']) == 0, model\n"
        "print(sorted({'torch', 'onnxruntime', 'onnx.reference', 'psutil', 'sqlite3', 'networkx'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert len(models) > 5 and ended.stdout.splitlines()[-1] == "[]", ended.stderr


def test_help_is_no_error(capsys):
    for command in ("passes", "explain", "inspect", "optimize", "verify", "bench"):
        with pytest.raises(SystemExit) as ended:
            main([command, "--help"])
        assert ended.value.code == 0 and command in capsys.readouterr().out


# ---- passes, explain, inspect ----------------------------------------------------------


def test_passes(done):
    out = done("passes")
    for name, cls in library.all_passes().items():
        assert any(line.split(maxsplit=1) == [name, cls.title] for line in out.splitlines())
    assert "preset default" in out and "fold_constants.max_bytes = " in out


def test_passes_as_json(done):
    found = json.loads(done("passes", "--json"))
    assert [row["name"] for row in found["passes"]] == list(library.all_passes())
    assert found["broken"] == {}
    assert found["presets"]["normalize"]["passes"][0] == "remove_dropout"
    row = next(row for row in found["passes"] if row["name"] == "fold_constants")
    assert [option["name"] for option in row["options"]] == ["max_bytes"]
    assert {row["strategy"] for row in found["passes"]} == {None, *library.strategies()}


@pytest.mark.parametrize("name", library.all_passes())
def test_explain(done, name):
    out, cls = done("explain", name), library.all_passes()[name]
    assert out.startswith(f"{name}: {cls.title}\n")
    assert out.count("  before:\n") == out.count("  after:\n") == len(cls.examples())
    for rule in cls.rules:
        assert f"Rule: {rule.name}" in out
    for example in cls.examples():
        assert all(f"  - {sentence}" in out for sentence in example.sentences)


def test_inspect(done):
    out = done("inspect", RESNET)
    assert out.startswith("resnet50: 176 nodes, opset 23 (converted from the file's 9), ")
    assert "input gpu_0/data_0: float[1,3,224,224] NCHW" in out
    assert "operators: BatchNormalization 53, Conv 53, Relu 49, Sum 16, " in out


def test_inspect_says_from_which_opset_the_model_was_brought(done, tmp_path):
    new = tmp_path / "new.onnxtxt"
    new.write_text('<ir_version: 10, opset_import: ["": 23]> g (float[2] x) => (float[2] y) { y = Relu(x) }')
    assert ": 1 nodes, opset 23, " in done("inspect", new)
    assert json.loads(done("inspect", OCR, "--json"))["file_opset"] == 11


def test_inspect_as_json(done):
    found = json.loads(done("inspect", NHWC, "--json"))
    assert (found["nodes"], found["transposes"]) == (4, 0)
    assert found["elements_moved"] == 0
    assert found["parameters"] == 32 * 64 * 9 + 32 * 32 * 9
    multiplied = 2 * 56 * 56 * 9 * (64 * 32 + 32 * 32)
    assert multiplied <= found["flops"] <= multiplied * 1.01


# ---- torch programs --------------------------------------------------------------------

FACTORY = """
import torch
from torch import nn

def make():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU())
    return model, (torch.randn(1, 3, 8, 8),)

def broken():
    raise RuntimeError("the disk is full")
"""


@pytest.fixture
def factory(tmp_path, monkeypatch):
    package = tmp_path / "my_models"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "small.py").write_text(textwrap.dedent(FACTORY))
    monkeypatch.syspath_prepend(tmp_path)
    return "my_models.small"


@pytest.mark.slow
def test_a_torch_factory(run, done, tmp_path, factory):
    out = tmp_path / "out.onnx"
    done("optimize", "--torch", f"{factory}:make", "-o", out)
    assert operators(out) == {"Conv": 1, "Relu": 1}
    given = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    session = onnxruntime.InferenceSession(str(out))
    module, _ = sys.modules[factory].make()
    expected = module.eval()(torch.from_numpy(given)).detach().numpy()
    found = session.run(None, {session.get_inputs()[0].name: given})[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert "Conv 1" in done("inspect", "--torch", f"{factory}:make")
    for name, sentence in (("broken", "the disk is full"), ("nothing", "has no 'nothing'")):
        code, _, err = run("inspect", "--torch", f"{factory}:{name}")
        assert code == 2 and sentence in err and err.count("\n") == 1


@pytest.mark.slow
def test_a_torch_program_file(done, run, tmp_path, factory):
    program, out = tmp_path / "program.pt2", tmp_path / "out.onnx"
    sys.path_importer_cache.clear()
    module, given = __import__(factory, fromlist=["make"]).make()
    torch.export.save(torch.export.export(module.eval(), given), program)
    done("optimize", program, "-o", out)
    assert operators(out) == {"Conv": 1, "Relu": 1}
    done("verify", program, out)
    code, _, err = run("optimize", program, "-o", program)
    assert code == 2 and "read or written already" in err and program.read_bytes()[:2] == b"PK"
