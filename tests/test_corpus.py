"""Every real model through the whole command line: inspect, optimize with and without layouts, bench."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.conftest import CORPUS
from tests.slow import thorough_unless
from workbench.__main__ import main

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not CORPUS.is_dir(), reason=f"THE CORPUS OF REAL MODELS IS NOT AT {CORPUS}: NOTHING OF IT IS TESTED"
    ),
]
HEAVY = ("unet_sd15_raw.onnx",)  # tens of seconds a way; it goes fewer
WAYS = {
    "greedy on cuda": ["--layout", "greedy", "--target", "cuda"],
    "optimal on cuda": ["--layout", "optimal", "--target", "cuda"],
    "any order on cuda": ["--layout", "optimal", "--target", "cuda"],
    "blocked": ["--layout", "blocked", "--target", "blocked"],
    "record-then-insert on npu": ["--layout", "record-then-insert", "--target", "npu"],
}
PATHS = sorted(CORPUS.glob("*.onnx"))


@pytest.fixture
def done(capsys):
    """Run a command that must succeed; what it printed."""

    def done(*arguments):
        code = main([str(a) for a in arguments])
        said = capsys.readouterr()
        assert code == 0, said.out + said.err
        return said.out

    return done


def is_int8(path):
    found = {n.op_type for n in onnx.load(path, load_external_data=False).graph.node}
    return bool(found & {"ConvInteger", "MatMulInteger", "DynamicQuantizeLinear", "QuantizeLinear"})


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def drawn(path, dims):
    """Inputs that any model of the corpus runs with, made without our own code's help: drawn numbers of each type."""
    random = np.random.default_rng(5)
    made = {}
    for wanted in session(path).get_inputs():
        shape = [d if isinstance(d, int) else dims.get(d, 1) for d in wanted.shape]
        if "float" in wanted.type:
            made[wanted.name] = random.standard_normal(shape).astype(np.float32)
        else:
            made[wanted.name] = random.integers(0, 2, shape).astype(np.int64 if "64" in wanted.type else np.int32)
    return made


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("path", [thorough_unless(p.name not in HEAVY, p) for p in PATHS], ids=lambda path: path.stem)
def test_optimize_keeps_what_the_model_computes(done, tmp_path, path, way):
    if path.name in HEAVY and way != "optimal on cuda":
        pytest.skip("the heaviest model goes the default way and one other only")
    optimized(done, tmp_path, path, *WAYS[way])


def optimized(done, tmp_path, path, *arguments):
    """The file that `optimize` writes, verified, well-formed and called as the original is; the report's totals."""
    out, report = tmp_path / "out.onnx", tmp_path / "report.json"
    done("optimize", path, "-o", out, "--report", report, *arguments)
    found = json.loads(report.read_text())
    totals = found["totals"]
    assert totals["verified"] is True
    allowed = 1e-1 if is_int8(path) else 1e-4
    is_close = totals["max_rel_error"] <= allowed or totals["max_abs_error"] <= 1e-3
    assert is_close or "what rounding explains" in found["steps"][-1]["verdict"]
    onnx.checker.check_model(str(out), full_check=True)
    assert interface(out) == interface(path)
    return out, totals


@cache
def interface(path):
    """The names and element types of inputs and outputs, as a session with all optimizations tells them."""
    opened = session(path)
    return [[(v.name, v.type) for v in values] for values in (opened.get_inputs(), opened.get_outputs())]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_inspect_optimize_and_bench(done, tmp_path, path):
    """By default. What is measured is compared too: the file that was written with the original's outputs."""
    found = json.loads(done("inspect", path, "--json"))
    assert found["nodes"] > 0 and found["parameters"] > 0 and found["operators"]
    out, totals = optimized(done, tmp_path, path)
    assert totals["nodes_after"] <= totals["nodes_before"]
    bench = tmp_path / "bench.json"
    if path.name in HEAVY:  # whose runs test_executor_numbers compares
        return
    done("bench", path, out, "--device", "cpu", "--repeat", "2", "--json", bench)
    variants = json.loads(bench.read_text())["variants"]
    assert list(variants) == [str(path), str(out)]
    for variant in variants.values():
        assert len(variant["times_ms"]) == 2 and variant["memory"]["peak_bytes"] > 0
        assert variant["error"]["ok"] is True


@pytest.mark.parametrize("name", ["open_nsfw_resnet.onnx", "ddddocr_det_yolox.onnx", "basic_pitch_nmp.onnx"])
def test_the_file_in_another_session_with_other_inputs(done, tmp_path, name):
    """Nothing of ours takes part in the comparison: a plain session, all its own optimizations on, other inputs."""
    path, out = CORPUS / name, tmp_path / "out.onnx"
    done("optimize", path, "-o", out, "--layout", "greedy", "--target", "cuda", "--no-verify")
    given = drawn(path, {})
    for a, b in zip(session(path).run(None, given), session(out).run(None, given), strict=True):
        assert np.abs(a - b).max() <= max(1e-4 * np.abs(a).max(), 1e-6)
