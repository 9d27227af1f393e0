"""Operators that nothing here runs: results are compared with a function of the operands in their place."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import parser

import workbench as wb
from workbench.evidence.verification.files import verify_files
from workbench.evidence.verification.verifier import Verifier
from workbench.run.foreign_operators import foreign_operators, with_stand_ins

WEIGHTS = ", ".join(f"{(i * 7 % 11 - 5) / 5:.2f}" for i in range(27))
HEADERS = {
    "a domain of its own": '<ir_version: 8, opset_import: ["": 17, "my": 1]>',
    "opset 9": '<ir_version: 4, opset_import: ["": 9, "my": 1]>',
}
DECLARED = f"""g (float[1,3,6,6] x) => (float[1,3,6,6] y, float[1,5] z) <float[3,3,3,1] w = {{{WEIGHTS}}}> {{
    c = Conv<pads = [1,0,1,0]>(x, w)
    a = my.Act<slope = 2.0>(c)
    y = Relu(a)
    z = my.Scores(a)
}}"""
IN_ONNX_DOMAIN = f"""<ir_version: 8, opset_import: ["": 17]>
g (float[1,3,6,6] x) => (int32[1,1] number, float[1,10,4] boxes) <float[3,3,3,1] w = {{{WEIGHTS}}}> {{
    c = Conv<pads = [1,0,1,0]>(x, w)
    r = Relu(c)
    q = Relu(r)
    number, boxes = EfficientNMS_TRT<max_output_boxes = 10>(q)
}}"""


def saved(path, text):
    path.write_bytes(parser.parse_model(text).SerializeToString())
    return path


@pytest.fixture
def model(tmp_path, request):
    return saved(tmp_path / "model.onnx", f"{HEADERS['a domain of its own']} {DECLARED}")


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_both_sides_get_the_same_function_and_the_sentence_says_so(header, tmp_path):
    graph = wb.load(saved(tmp_path / "model.onnx", f"{header} {DECLARED}"))
    made = wb.optimize(graph, layout="greedy", target="cuda").graph
    verdict = wb.verify(graph, made)
    assert verdict.ok, verdict.sentence
    assert (
        "Nothing here runs 'my.Act', 'my.Scores': on both sides a function of the operands took the place of each call."
        in verdict.sentence
    )


def test_a_plugin_in_the_domain_of_onnx_has_a_stand_in_too(tmp_path, done):
    source, out = saved(tmp_path / "model.onnx", IN_ONNX_DOMAIN), tmp_path / "out.onnx"
    said = done("optimize", source, "-o", out)
    assert "the end: Equal to the last bit: 2 outputs." in said and "Nothing here runs 'EfficientNMS_TRT'" in said
    assert [node.op_type for node in onnx.load(out).graph.node] == ["Conv", "Relu", "EfficientNMS_TRT"]


FAULTS = {
    "what it reads": lambda m: m.graph.node[0].attribute[0].ints.__setitem__(slice(None), [0, 0, 2, 0]),
    "its attribute": lambda m: setattr(m.graph.node[1].attribute[0], "f", 2.5),
    "another operator": lambda m: setattr(m.graph.node[1], "op_type", "Other"),
    "what reads it": lambda m: setattr(m.graph.node[2], "op_type", "Abs"),
}


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("change", FAULTS.values(), ids=FAULTS)
def test_a_fault_around_it_is_found(change, model, tmp_path):
    wrong = onnx.load(model)
    change(wrong)
    onnx.save(wrong, tmp_path / "wrong.onnx")
    assert verify_files(wb.load(model), wb.load(tmp_path / "wrong.onnx")).ok is False


def test_a_result_without_a_declared_type_has_that_of_the_first_operand(tmp_path):
    text = '<ir_version: 8, opset_import: ["": 17, "my": 1]> g (float[2,6] x) => (float[2,3] y) { a = my.Act(x)  b, y = Split<axis = 1>(a) }'
    graph = wb.load(
        saved(
            tmp_path / "model.onnx",
            text.replace(
                "b, y = Split<axis = 1>(a)", "r = Relu(a)  q = Relu(r)  b, y = Split<axis = 1, num_outputs = 2>(q)"
            ).replace('"": 17', '"": 18'),
        )
    )
    verdict = wb.verify(graph, wb.optimize(graph).graph)
    assert verdict.ok and "Nothing here runs 'my.Act'" in verdict.sentence, verdict.sentence


INSIDE = {
    "in both branches": """g (float[2,6] x, bool p) => (float[2,6] y) {
        y = If(p)<then_branch = t() => (float[2,6] s) { n = Neg(x)  m = Neg(n)  s = my.Act(m) },
                  else_branch = e() => (float[2,6] z) { k = my.Act<slope = 3.0>(x)  z = Neg(k) }> }""",
    "in a loop": """g (float[2,6] x) => (float[2,6] y) <int64 n = {3}, bool yes = {1}> {
        y = Loop(n, yes, x)<body = b(int64 i, bool c, float[2,6] s) => (bool d, float[2,6] t) {
            d = Identity(c)  a = my.Act(s)  k = Neg(a)  m = Neg(k)  t = Neg(m) }> }""",
    "of sizes that nothing declares": """g (float[2,6] x, float[3] z) => (float[A,B] y) {
        n = NonZero(x)  c = Cast<to = 1>(n)  d = my.Act(c, z)  a = my.Other(d)  r = Neg(a)  q = Neg(r)  y = Neg(q) }""",
}


@pytest.mark.parametrize("text", INSIDE.values(), ids=INSIDE)
def test_one_in_a_body_or_of_unknown_sizes_has_a_stand_in_too(text, tmp_path):
    graph = wb.load(saved(tmp_path / "model.onnx", f'<ir_version: 8, opset_import: ["": 17, "my": 1]> {text}'))
    history = wb.optimize(graph, ["simplify"], verifier=None)
    verdict = wb.verify(graph, history.graph)
    assert history.steps[-1].rewrites and verdict.ok, verdict.sentence
    assert "Nothing here runs 'my.Act'" in verdict.sentence and "no input leads" not in verdict.sentence
    wrong = saved(
        tmp_path / "wrong.onnx",
        f'<ir_version: 8, opset_import: ["": 17, "my": 1]> {text}'.replace("Neg(k)", "Abs(k)").replace(
            "Neg(a)", "Abs(a)"
        ),
    )
    assert wb.verify(graph, wrong).ok is False


TYPES = {
    "float[2,3]": np.float32,
    "float16[4]": np.float16,
    "int64[2,2]": np.int64,
    "bool[3]": bool,
    "double[1]": np.float64,
}


@pytest.mark.parametrize("type_", TYPES)
def test_a_stand_in_gives_the_declared_type_and_depends_on_every_operand(type_, tmp_path):
    from tests.loading import run

    text = f'<ir_version: 8, opset_import: ["": 17, "my": 1]> g (float[2,3] a, int64[4] b) => ({type_} y) {{ y = my.F(a, b) }}'
    path = saved(tmp_path / "model.onnx", text)
    graph = wb.load(path)
    assert foreign_operators(path) == ("my.F",)
    copy = with_stand_ins(path, tmp_path, graph.tensor_type)
    inputs = {"a": np.ones((2, 3), np.float32), "b": np.arange(4)}
    (first,) = run(copy, inputs)
    declared = graph.tensor_type("y")
    assert (first.dtype, first.shape) == (TYPES[type_], declared.static_shape)
    if declared.dtype.is_floating_point():
        for name in inputs:
            (other,) = run(copy, {**inputs, name: inputs[name] + 1})
            assert not np.array_equal(first, other), name


UNKNOWN = '<ir_version: 8, opset_import: ["": 17, "my": 1]> g (string[2] x) => (float[2] y) { a = my.Act(x)  r = Relu(a)  y = Relu(r) }'


def test_what_is_not_verified_has_a_line_of_its_own_and_is_not_written_if_it_must_be(tmp_path, run):
    source, out, report = (tmp_path / name for name in ("model.onnx", "out.onnx", "report.json"))
    saved(source, UNKNOWN)
    code, printed, _ = run("optimize", source, "-o", out)
    assert code == 3 and out.exists()
    assert (
        "\nNOT VERIFIED: whether the result computes what the model computes is not known; the exit code is 3\n"
        in printed
    )
    out.unlink()
    code, _, told = run("optimize", source, "-o", out, "--require-verified", "--report", report)
    assert code == 3 and not out.exists() and json.loads(report.read_text())["steps"]
    assert f"'{out}' was not written, since it was not verified, and --require-verified is given\n" in told


def test_nothing_can_be_required_of_a_comparison_that_is_off(tmp_path, refused):
    source = saved(tmp_path / "model.onnx", UNKNOWN)
    said = refused("optimize", source, "-o", tmp_path / "out.onnx", "--require-verified", "--no-verify")
    assert "--require-verified needs the comparison that --no-verify switches off" in said


def test_each_step_is_compared_with_the_stand_ins(model):
    graph = wb.load(model)
    with Verifier(graph) as verifier:
        history = wb.optimize(graph, layout="optimal", target="cuda", verifier=verifier, verify="each")
    assert all(step.verdict.ok for step in history.steps[1:])
