"""The nine light models with random weights: folded, laid out for two targets, verified."""

from __future__ import annotations

import json

import onnx
import pytest

from sample_models.light import LIGHT_MODELS
from tests.conftest import ROOT
from tests.light_networks import light_file
from workbench.__main__ import main


@pytest.fixture(scope="module")
def light(tmp_path_factory):
    """A light model's path by name, written when first asked for."""
    folder = tmp_path_factory.mktemp("light")
    return lambda name: light_file(name, folder)


def optimized(path, tmp_path, *arguments):
    """The report, and the written model."""
    out, report = tmp_path / "out.onnx", tmp_path / "report.json"
    code = main(["optimize", str(path), "-o", str(out), "--report", str(report), *arguments])
    assert code == 0
    onnx.checker.check_model(str(out))
    return json.loads(report.read_text()), onnx.load(out)


def step(report, name):
    return next(s for s in report["steps"] if s["pass"] == name)


def operators(model):
    found = {}
    for node in model.graph.node:
        found[node.op_type] = found.get(node.op_type, 0) + 1
    return found


@pytest.fixture(params=["narrow", pytest.param("whole", marks=pytest.mark.slow)])
def resnet(request, light):
    return ROOT / "sample_models/resnet50_narrow.onnx" if request.param == "narrow" else light("resnet50")


@pytest.mark.slow
def test_resnet_folds_every_batch_norm(resnet, tmp_path):
    report, model = optimized(resnet, tmp_path)
    assert step(report, "fold_batchnorm")["rewrites"] == 53
    assert "BatchNormalization" not in operators(model)
    assert operators(model)["Conv"] == 53
    assert report["totals"]["verified"] is True and report["totals"]["max_rel_error"] < 1e-5


@pytest.mark.slow
def test_resnet_greedy_on_cuda_leaves_two_transposes(resnet, tmp_path):
    report, model = optimized(resnet, tmp_path, "--layout", "greedy", "--target", "cuda")
    assert report["totals"]["transposes_after"] <= 2
    assert operators(model).get("Transpose", 0) == report["totals"]["transposes_after"]
    assert report["totals"]["elements_moved_after"] <= 3 * 224 * 224 + 2048
    assert sum(count for op, count in operators(model).items() if op.startswith("Conv_NHWC")) == 53
    assert report["totals"]["verified"] is True


@pytest.mark.slow
def test_resnet_record_then_insert_on_npu(resnet, tmp_path):
    """One transpose where the CNN path begins; where it ends, no element moves; weights in the NPU's HWOI."""
    report, model = optimized(resnet, tmp_path, "--layout", "record-then-insert", "--target", "npu")
    assert report["totals"]["transposes_after"] == 1
    calls = [n for n in model.graph.node if n.op_type.startswith("Conv_NHWC")]
    assert len(calls) == 53
    shapes = {t.name: tuple(t.dims) for t in model.graph.initializer}
    height, width, outputs, inputs = shapes[calls[0].input[1]]
    assert (height, width, inputs) == (7, 7, 3) and outputs in (8, 64)
    assert all(shapes[call.input[1]][:2] in ((1, 1), (3, 3)) for call in calls[1:])
    assert report["totals"]["verified"] is True


@pytest.mark.slow
@pytest.mark.parametrize("layout", [None, "greedy"])
@pytest.mark.parametrize("name", [name for name in LIGHT_MODELS if name != "resnet50"])
def test_the_other_light_models(light, tmp_path, name, layout):
    report, model = optimized(light(name), tmp_path, *(["--layout", layout, "--target", "cuda"] if layout else []))
    assert report["totals"]["verified"] is True
    assert report["totals"]["max_rel_error"] <= 1e-4
    if layout:
        assert any(op.endswith("_NHWC") for op in operators(model))
