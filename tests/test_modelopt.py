"""NVIDIA's ModelOpt as passes: what it says where it is not installed, and what it does where it is."""

import re
import sys

import numpy as np
import pytest
from onnx import helper

import workbench as wb
from passes.tools.modelopt_autocast import ModeloptAutocast
from passes.tools.modelopt_quantize import ModeloptQuantize
from tests.conftest import ROOT
from tests.running import typed
from workbench.evidence.verification.verifier import Verifier
from workbench.interfaces.api import optimize
from workbench.rewrite.external.modelopt import check_operators, patterns_of
from workbench.rewrite.external.tool_call import ToolError

AUTOCAST, QUANTIZE = "modelopt_autocast", "modelopt_quantize"
INSTALLED = pytest.mark.skipif(bool(ModeloptAutocast.missing()), reason=ModeloptAutocast.missing())
CHAIN = "g (float[2,3] x) => (float[2,3] y) { a = Exp(x)  b = Neg(a)  c = Abs(b)  y = Sqrt(c) }"


@pytest.mark.parametrize("cls", [ModeloptAutocast, ModeloptQuantize])
def test_where_it_is_missing_the_step_says_how_to_install_it(monkeypatch, cls):
    """Packages have other names than modules, and ModelOpt's extra `onnx` would replace onnx and ONNX Runtime."""
    for module in cls.packages:
        monkeypatch.setitem(sys.modules, module, None)  # as Python marks a module that is not there
    step = optimize(typed(CHAIN), [cls().name])[1]
    assert not step.rewrites and step.facts.failed == (
        "nvidia-modelopt, torch, onnx-graphsurgeon, polygraphy, lief are not installed;"
        " pip install nvidia-modelopt torch onnx-graphsurgeon polygraphy lief"
    )


def test_names_are_matched_as_a_whole():
    """ModelOpt takes regular expressions, and would leave `Conv_10` out too."""
    (pattern,) = patterns_of(["/a.b/Conv_1"])
    assert [bool(re.match(pattern, name)) for name in ("/a.b/Conv_1", "/a.b/Conv_10", "/axb/Conv_1")] == [1, 0, 0]


def test_operators_of_other_domains_are_refused_in_a_sentence():
    """ModelOpt looks for TensorRT then, and ends with "name 'trt' is not defined"."""
    nodes = [helper.make_node(op, ["x"], [op], domain=domain) for op, domain in (("Relu", ""), ("Gelux", "com.a"))]
    model = helper.make_model(helper.make_graph(nodes, "g", [], []))
    with pytest.raises(ToolError, match=r"^it needs TensorRT for operators that ONNX does not define: 'Gelux'$"):
        check_operators(model)


@INSTALLED
@pytest.mark.slow
def test_autocast_leaves_in_float32_what_is_named_and_what_is_large(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.full((2, 3), 6.5, np.float32))  # exp(6.5) exceeds 512
    graph = typed(CHAIN)
    options = {f"{AUTOCAST}.{key}": value for key, value in {"type": "bfloat16", "keep": "Sqrt*"}.items()}
    with Verifier(graph) as verifier:
        step = optimize(graph, [AUTOCAST], options=options, verifier=verifier)[1]
        assert [rewrite.sentence for rewrite in step.rewrites] == [
            "Exp 'Exp_a', Neg 'Neg_b' and Abs 'Abs_c' run in bfloat16; 2 nodes more"
        ]
        assert step.verdict.ok and "for bfloat16" in step.verdict.sentence
    large = optimize(graph, [AUTOCAST], options={f"{AUTOCAST}.calibration": str(tmp_path)})[1]
    assert not large.rewrites and "its ranges are those of 1 file of inputs" in large.conclusion


@INSTALLED
@pytest.mark.slow
def test_each_operator_that_it_quantizes_is_a_rewrite_and_close():
    graph = wb.load(ROOT / "sample_models" / "ppocr_cls_v2.onnx")
    with Verifier(graph) as verifier:
        simple = optimize(graph, verifier=verifier, verify="end").graph
        convs = [node.name for node in simple.nodes if node.op == "Conv"][:2]
        history = optimize(simple, [QUANTIZE], options={f"{QUANTIZE}.keep": convs[0]}, verifier=verifier)
        step = history[1]
        assert step.verdict.is_close and len(step.rewrites) > 50
        quantized = {name for rewrite in step.rewrites for name in rewrite.nodes}
        assert convs[0] not in quantized and history.graph.node(convs[0]).inputs == simple.node(convs[0]).inputs
        assert verifier.check(history.at(1, len(step.rewrites) // 2), narrowed=True).is_close
