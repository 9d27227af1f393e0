"""What runs where torch, an extra of the package, is not installed; and the sentence where it is needed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.commands import NHWC, SAMPLES
from tests.conftest import ROOT

MODEL = SAMPLES / "conv_relu_conv_relu.onnx"
HOW = "needs torch, which is not installed; `pip install -e '.[torch]'` in the project's folder adds it"
# Python imports this file at its start, in every process of ours too: `import torch` fails as where it is missing.
NONE_HERE = "import sys\nsys.modules['torch'] = None\n"


@pytest.fixture
def python(tmp_path):
    """Run Python without torch: its exit code, stdout and stderr."""
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(NONE_HERE)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(hook), str(ROOT))), "WORKBENCH_CACHE": str(tmp_path)}

    def python(*words):
        words = [sys.executable, *map(str, words)]
        done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    return python


@pytest.mark.slow
def test_a_model_is_optimized_verified_reported_and_checked(python, tmp_path):
    out, evidence, report = (tmp_path / name for name in ("out.onnx", "c.json", "report.html"))
    for words, said in (
        (
            (
                "optimize",
                MODEL,
                "-o",
                out,
                "--preset",
                "simplify",
                "--layout",
                "greedy",
                "--target",
                "cuda",
                "--certificate",
                evidence,
            ),
            "wrote",
        ),
        (("verify", MODEL, out), "equal"),
        (("check", MODEL, out, evidence), "computes the same"),
        (("report", MODEL, "-o", report), "wrote"),
        (("bench", MODEL, "--backend", "onnxruntime", "--repeat", "2", "--cold"), "median ms"),
    ):
        code, told, error = python("-m", "workbench", *words)
        assert code == 0 and said in told, (words, told, error)


@pytest.mark.slow
def test_a_model_and_passes_are_explained_and_strategies_compared(python):
    for words, said in (
        (("inspect", MODEL), "operators: Conv 2, Relu 2"),
        (("passes",), "layout_measured"),
        (("explain", "fold_constants", MODEL), "fold_constants"),
        (("layouts", MODEL), "optimal"),
        (("memory", MODEL), "certified"),
    ):
        code, told, error = python("-m", "workbench", *words)
        assert code == 0 and said in told, (words, told, error)


@pytest.mark.slow
def test_the_library_optimizes_and_says_where_it_needs_torch(python):
    code = f"""
import workbench as wb
graph = wb.load({str(NHWC)!r})
history = wb.optimize(graph, preset="simplify")
assert wb.verify(graph, history.graph).ok
wb.export(history.graph, "out.onnx")
wb.report(history, "out.html")
found = wb.measure(graph, backend="onnxruntime", repeat=2)
print(sorted(found.machine.versions))
try:
    wb.compile(graph)
except wb.errors.UserError as error:
    print(error)
"""
    code, told, error = python("-c", code.replace("import workbench as wb", "import workbench as wb, workbench.errors"))
    assert code == 0, error
    assert f"A compiled graph {HOW}" in told and "'onnxruntime'" in told and "'torch'" not in told


@pytest.mark.slow
def test_what_runs_in_torch_says_how_to_get_it(python, tmp_path):
    program = tmp_path / "program.pt2"
    program.write_bytes(b"PK\x03\x04")
    for words, who in (
        (("bench", MODEL, "--repeat", "2"), "The backend torch (unlike onnxruntime)"),
        (("bench", MODEL, "--backend", "onnxruntime", "--device", "cuda"), "The device 'cuda'"),
        (("package", MODEL, "-o", tmp_path / "out.pt2"), "A compiled package"),
        (("inspect", program), "program.pt2: a torch program"),
        (("inspect", "--torch", "some:program"), "some:program: a torch program"),
        (
            ("optimize", MODEL, "-o", tmp_path / "out.onnx", "--layout", "measured", "--target", "cuda"),
            "Timing operators",
        ),
    ):
        assert python("-m", "workbench", *words) == (2, "", f"workbench: {who} {HOW}\n"), words
