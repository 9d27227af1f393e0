"""A region of a model as a model of its own, bit for bit what the whole computes there, and put back again."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, parser

from tests.commands import NHWC, OCR, RESNET, SPEECH
from tests.faulty_models import outputs_of

SKIP = """<ir_version: 8, opset_import: ["": 17]>
g (float[N,4] x, float[N,4] z) => (float[N,4] y, float[N,4] side) <float[4,4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}> {
    a = Relu(x) one = Constant<value=float {1.0}>() b = MatMul(a, w) c = Add(b, one) d = Add(c, x) e = Exp(d) y = Sub(e, z)
    side = Neg(b)
}"""


@pytest.fixture
def skip(tmp_path):
    return saved(tmp_path / "skip.onnx", parser.parse_model(SKIP))


def saved(path, model):
    path.write_bytes(model.SerializeToString())
    return path


def run(path, inputs):
    """Outputs by name, from the file, not optimized."""
    model = onnx.load(path)
    return dict(zip([output.name for output in model.graph.output], outputs_of(model, inputs), strict=True))


def loaded(path):
    with np.load(path) as arrays:
        return dict(arrays)


def value_in(path, inputs, *values):
    """Values of the whole model on these inputs."""
    model = onnx.load(path)
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=value) for value in values)
    return outputs_of(model, inputs)


def operators(path):
    return [node.op_type for node in onnx.load(path).graph.node]


# ---- extracting ------------------------------------------------------------------------------


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    ("path", "given", "sources", "target"),
    [
        (RESNET, {"gpu_0/data_0": (1, 3, 224, 224)}, "r11,r13", "r30"),
        (RESNET, {"gpu_0/data_0": (1, 3, 224, 224)}, None, "r15"),
        (NHWC, {"x": (1, 56, 56, 64)}, None, None),
    ],
    ids=["between", "from the inputs", "all"],
)
def test_a_part_computes_the_same_bits(done, tmp_path, path, given, sources, target):
    target = target or onnx.load(path).graph.output[0].name
    draw = np.random.default_rng(5)
    own = {name: draw.standard_normal(shape).astype(np.float32) for name, shape in given.items()}
    np.savez(tmp_path / "own.npz", **own)
    part, inputs = tmp_path / "part.onnx", tmp_path / "part.inputs.npz"
    begin = () if sources is None else ("--from", sources)
    done("extract", path, *begin, "--to", target, "-o", part, "--inputs", tmp_path / "own.npz")
    assert list(loaded(inputs)) == (sources.split(",") if sources else list(given))
    expected = value_in(path, own, target)[0]
    assert run(part, loaded(inputs))[target].tobytes() == expected.tobytes()
    assert "Equal to the last bit" in done("verify", part, part, "--inputs", inputs)


def test_a_part_keeps_symbols_and_takes_constants_along(done, tmp_path, skip):
    part = tmp_path / "part.onnx"
    said = done("extract", skip, "--from", "a", "--to", "c,side", "-o", part).splitlines()
    assert said[0] == f"wrote {part}, 4 of 8 nodes, 0.00 MB, and its inputs, {tmp_path / 'part.inputs.npz'}"
    assert said[1] == "inputs: a; outputs: c, side"
    assert operators(part) == ["Constant", "MatMul", "Add", "Neg"]
    graph = onnx.load(part).graph
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"
    onnx.checker.check_model(onnx.load(part), full_check=True)


def test_from_may_be_repeated(done, tmp_path, skip):
    done("extract", skip, "--from", "c", "--from", "x", "--to", "e", "-o", tmp_path / "part.onnx")
    assert operators(tmp_path / "part.onnx") == ["Add", "Exp"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--to", "sidee"), "the model has no value 'sidee'; similar are 'side'"),
        (("--to", "quite other"), "the model has no value 'quite other'; `inspect` and `report` show the names"),
        (("--to", "x"), "no node computes 'x', so that no region ends there"),
        (("--from", "w", "--to", "c"), "value 'w' is a constant of the model, which the part contains anyway"),
        (("--from", "c", "--to", "c"), "value 'c' is both a beginning and an end"),
        (("--from", "c", "--to", "e"), "'e' cannot be computed from 'c' alone: it needs 'x' too; begin at c,x"),
        (("--from", "a", "--to", "y"), "it needs 'x', 'z' too; begin at a,x,z"),
        (("--from", "e", "--to", "c"), "'c' does not depend on 'e'; it is computed from 'x'"),
        (("--from", "b,x", "--to", "c"), "'c' can be computed without 'x'; leave that out"),
        (("--from", ",", "--to", "c"), "name at least one"),
        (("--to", "c", "--dims", "M=3"), "the model has no dimension 'M'"),
    ],
)
def test_what_bounds_no_region(refused, tmp_path, skip, arguments, sentence):
    assert sentence in refused("extract", skip, *arguments, "-o", tmp_path / "part.onnx")
    assert not (tmp_path / "part.onnx").exists()


def test_what_is_missing_lies_near_the_cut(refused, tmp_path):
    """A value behind the branching, not the model's input."""
    assert "it needs 'r13' too; begin at r11,r13" in refused(
        "extract", RESNET, "--from", "r11", "--to", "r14", "-o", tmp_path / "p.onnx"
    )


def test_a_sequence_and_a_value_of_a_body_are_refused(refused, tmp_path):
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[6] x, bool k) => (float[A] y) {
        s = SplitToSequence(x) z = Constant<value=int64 {0}>() a = SequenceAt(s, z)
        i = If(k) <then_branch = t () => (float[B] p) { p = Exp(a) }, else_branch = e () => (float[C] q) { q = Neg(a) }>
        y = Neg(i) }"""
    path = saved(tmp_path / "odd.onnx", parser.parse_model(text))
    assert "value 's' is not a tensor" in refused(
        "extract", path, "--from", "s", "--to", "a", "-o", tmp_path / "p.onnx"
    )
    assert "value 's' is not a tensor" in refused("extract", path, "--to", "s", "-o", tmp_path / "p.onnx")
    assert "value 'p' is in a body" in refused("extract", path, "--to", "p", "-o", tmp_path / "p.onnx")


def test_captured_values_are_inputs(done, tmp_path):
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[4] x, bool k) => (float[4] y) {
        a = Exp(x) b = Neg(x)
        i = If(k) <then_branch = t () => (float[4] p) { p = Add(a, b) }, else_branch = e () => (float[4] q) { q = Sub(a, b) }>
        y = Neg(i) }"""
    path = saved(tmp_path / "captured.onnx", parser.parse_model(text))
    part = tmp_path / "part.onnx"
    done("extract", path, "--from", "a,b,k", "--to", "y", "-o", part)
    assert operators(part) == ["If", "Neg"] and set(loaded(tmp_path / "part.inputs.npz")) == {"a", "b", "k"}
    assert "Equal to the last bit" in done("verify", part, part, "--inputs", tmp_path / "part.inputs.npz")


# ---- putting back ------------------------------------------------------------------------------


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    ("path", "sources", "target"),
    [(RESNET, "r11,r13", "r35"), (OCR, None, "batch_norm_10.tmp_2")],
    ids=["resnet", "ocr"],
)
def test_an_optimized_part_goes_back(done, tmp_path, path, sources, target):
    """The files are of opset 9 and 11; the part was brought to a newer one, and its values have other names."""
    part, small, whole = (tmp_path / f"{name}.onnx" for name in ("part", "small", "whole"))
    between = (*(() if sources is None else ("--from", sources)), "--to", target)
    done("extract", path, *between, "-o", part)
    done("optimize", part, "-o", small, "--preset", "simplify", "--inputs", tmp_path / "part.inputs.npz")
    assert len(operators(small)) < len(operators(part))
    done("extract", path, *between, "--put-back", small, "-o", whole)
    norms = {file: operators(file).count("BatchNormalization") for file in (path, part, small, whole)}
    assert norms[small] < norms[part] and norms[whole] == norms[path] - norms[part] + norms[small]
    onnx.checker.check_model(onnx.load(whole), full_check=True)
    assert "Equal" in done("verify", path, whole)


def test_names_that_are_taken_get_others(done, tmp_path, skip):
    """Of values, of nodes, of weights, and in bodies; what others read of the region stays."""
    changed = parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
        g (float[N,4] a) => (float[N,4] c) <float[4,4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}, float d = {1.0}> {
            y = MatMul(a, w) yes = Constant<value=bool {1}>()
            c = If(yes) <then_branch = t () => (float[N,4] e) { e = Add(y, d) }, else_branch = s () => (float[N,4] z) { z = Neg(y) }>
        }""")
    whole = tmp_path / "whole.onnx"
    done(
        "extract",
        skip,
        "--from",
        "a",
        "--to",
        "c",
        "--put-back",
        saved(tmp_path / "changed.onnx", changed),
        "-o",
        whole,
    )
    assert operators(whole).count("MatMul") == 2  # `side` reads the first
    assert "Equal to the last bit" in done("verify", skip, whole)


def test_large_weights_of_both_files(done, tmp_path):
    """Inside the one and beside the other."""
    draw = np.random.default_rng(0)
    weights = [
        onnx.numpy_helper.from_array(draw.standard_normal((64, 64)).astype(np.float32), f"w{i}") for i in range(3)
    ]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", [value, f"w{i}"], [made])
            for i, (value, made) in enumerate((("x", "a"), ("a", "b"), ("b", "y")))
        ],
        "g",
        [helper.make_tensor_value_info("x", 1, [2, 64])],
        [helper.make_tensor_value_info("y", 1, [2, 64])],
        weights,
    )
    path, part, beside, whole = (tmp_path / f"{name}.onnx" for name in ("model", "part", "beside", "whole"))
    saved(path, helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    done("extract", path, "--from", "a", "--to", "b", "-o", part)
    onnx.save(onnx.load(part), beside, save_as_external_data=True, location="beside.bin", size_threshold=0)
    done("extract", path, "--from", "a", "--to", "b", "--put-back", beside, "-o", whole)
    assert "Equal to the last bit" in done("verify", path, whole)
    found = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(whole).graph.initializer}
    assert len(found) == 3 and all((found[t.name] == onnx.numpy_helper.to_array(t)).all() for t in weights)


PART = """<ir_version: 8, opset_import: ["": %d]> g (%s[N,4] %s) => (%s[N,4] %s) { %s = %s(%s) }"""


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        (
            PART % (17, "float", "b", "float", "c", "c", "Neg", "b"),
            "the part has an input 'b', which the region does not have; it has 'a'",
        ),
        (
            PART % (17, "float", "a", "float", "b", "b", "Neg", "a"),
            "the part has an output 'b', which the region does not have",
        ),
        (
            PART % (17, "double", "a", "double", "c", "c", "Neg", "a"),
            "'a' is float in the model and double in the part",
        ),
        ('<ir_version: 8, opset_import: ["": 17, "own": 2]> g (float[N,4] a) => (float[N,4] c) { c = Neg(a) }', None),
    ],
)
def test_a_part_that_does_not_fit(run, tmp_path, skip, part, sentence):
    path = saved(tmp_path / "part.onnx", parser.parse_model(part))
    code, _, said = run("extract", skip, "--from", "a", "--to", "c", "--put-back", path, "-o", tmp_path / "whole.onnx")
    assert (code, said) == (0, "") if sentence is None else (code == 2 and sentence in said)


def test_a_region_that_others_lie_between_cannot_be_replaced(refused, tmp_path):
    """The part would read what is computed from its own result."""
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[4] x) => (float[4] y) {
        a = Exp(x) b = Relu(a) c = Neg(b) y = Add(a, c) }"""
    path = saved(tmp_path / "model.onnx", parser.parse_model(text))
    part = """<ir_version: 8, opset_import: ["": 17]> g (float[4] x, float[4] c) => (float[4] a, float[4] y) {
        e = Exp(x) z = Sub(c, c) a = Add(e, z) y = Add(a, c) }"""
    back = saved(tmp_path / "part.onnx", parser.parse_model(part))
    sentence = refused(
        "extract", path, "--from", "x,c", "--to", "a,y", "--put-back", back, "-o", tmp_path / "whole.onnx"
    )
    assert "the part cannot be put back: graph 'g' has a cycle" in sentence


def test_real_functions_come_along(done, tmp_path):
    text = """<ir_version: 8, opset_import: ["": 17, "own": 1]> g (float[4] x) => (float[4] y) { a = Exp(x) b = own.f(a) y = Neg(b) }
        <domain: "own", opset_import: ["": 17]> f (p) => (q) { q = Relu(p) }"""
    path = saved(tmp_path / "functions.onnx", parser.parse_model(text))
    part, whole = tmp_path / "part.onnx", tmp_path / "whole.onnx"
    done("extract", path, "--from", "a", "--to", "y", "-o", part)
    assert [function.name for function in onnx.load(part).functions] == ["f"]
    done("extract", path, "--from", "a", "--to", "y", "--put-back", part, "-o", whole)
    assert [function.name for function in onnx.load(whole).functions] == ["f"]
    assert "Equal to the last bit" in done("verify", path, whole)


@pytest.mark.slow
def test_the_speech_model(done, tmp_path):
    """Its two branches compute at two sample rates; a part of all has the state too."""
    part = tmp_path / "part.onnx"
    done("extract", SPEECH, "--to", "output", "-o", part)
    assert "Equal to the last bit" in done("verify", part, part, "--inputs", tmp_path / "part.inputs.npz")
