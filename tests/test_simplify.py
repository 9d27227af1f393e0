"""The preset `simplify` on published and real models: fewer nodes than the best tool leaves, and the same results.

The bounds are node counts of onnxsim 0.8.1, onnxslim 0.1.98, onnxscript 0.7.2 and ONNX Runtime 1.31's basic
level, the least of them, without Constant nodes and with those of bodies; `benchmarks/simplify.py` measures them.
"""

from __future__ import annotations

import json

import onnx
import pytest

from tests.conftest import CORPUS
from tests.light_networks import light_file
from tests.slow import thorough_unless
from workbench.__main__ import main

LIGHT = {
    "densenet121": 491,
    "inception_v2": 164,
    "resnet50": 123,
    "shufflenet": 154,
    "inception_v1": 142,
    "squeezenet": 65,
    "bvlc_alexnet": 22,
    "vgg19": 44,
    "zfnet512": 22,
}
REAL = {  # at most; of the first seven the best tool leaves one more
    "bert_12l_raw": 391,
    "unet_sd15_raw": 1570,
    "ppocrv4_rec": 382,
    "silero_vad": 115,
    "open_nsfw_resnet": 317,
    "ppocrv4_det": 296,
    "basic_pitch_nmp": 179,
    "ddddocr_det_yolox": 275,
    "magika_v3_3": 93,
    "ppocr_cls_v2": 155,
}


def nodes_of(graph):
    bodies = [a.g for n in graph.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH]
    own = [n for n in graph.node if n.op_type != "Constant"]
    return own + [n for body in bodies for n in nodes_of(body)]


def simplified(path, tmp_path):
    out, report = tmp_path / "out.onnx", tmp_path / "report.json"
    assert main(["optimize", str(path), "-o", str(out), "--preset", "simplify", "--report", str(report)]) == 0
    found = json.loads(report.read_text())
    assert found["totals"]["verified"] is True
    model = onnx.load(out)
    onnx.checker.check_model(model, full_check=True)
    assert {node.domain for node in nodes_of(model.graph)} <= {"", "ai.onnx"}, "standard operators only"
    assert not model.functions
    before = onnx.load(path)
    for old, new in ((before.graph.input, model.graph.input), (before.graph.output, model.graph.output)):
        known = {t.name for t in before.graph.initializer}
        assert [v.name for v in old if v.name not in known] == [v.name for v in new]
    return model


@pytest.mark.slow
@pytest.mark.parametrize("name", LIGHT)
def test_light_models_are_as_small_as_the_best_tool_makes_them(name, tmp_path):
    assert len(nodes_of(simplified(light_file(name, tmp_path), tmp_path).graph)) <= LIGHT[name]


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"THE CORPUS OF REAL MODELS IS NOT AT {CORPUS}")
@pytest.mark.parametrize("name", [thorough_unless("unet" not in name, name) for name in REAL])
def test_real_models_are_smaller_than_the_best_tool_makes_them(name, tmp_path):
    assert len(nodes_of(simplified(CORPUS / f"{name}.onnx", tmp_path).graph)) <= REAL[name]
