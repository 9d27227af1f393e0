"""What the checker runs, which functions it takes for kernels of a runtime, and which declared sizes it confirms."""

from pathlib import Path

import pytest
from onnx import TensorProto, helper, parser

from tests.forging import model_of
from workbench.checker.comparing import cast_to, narrower_types
from workbench.checker.declared_types import unconfirmed_type_statements
from workbench.checker.files import plain_model
from workbench.checker.kernels import LayoutKernel, layout_kernels
from workbench.checker.outcome import DoesNotHold
from workbench.checker.output import Output
from workbench.checker.running import compared_runs

FLOAT, HALF = TensorProto.FLOAT, TensorProto.FLOAT16


def plain(text, functions=""):
    header = '<ir_version: 8, opset_import: ["": 17, "d": 1, "workbench": 1]> main '
    return plain_model(parser.parse_model(header + text + functions), Path(), "m.onnx")


def ran(model, output, runs=2, mode="ieee", dims=None, hinted=False):
    one, other = (plain(text) if isinstance(text, str) else text for text in (model, output))
    return compared_runs(one, other, dims or {}, runs, mode, hinted)


# ---- runs --------------------------------------------------------------------------------------

SAME = "(float[4, 8] x) => (float[4, 8] y) { y = Neg(x) }"


def test_equal_results_are_equal_to_the_last_bit():
    found = ran(SAME, SAME)
    assert found.equal and str(found).startswith("equal to the last bit on 2 random inputs in ONNX Runtime without opt")
    assert "on 1 random input in" in ran(SAME, SAME, runs=1).sentence
    assert "without optimizations, and with them (seed" in ran(SAME, SAME, hinted=True).sentence


def test_what_differs_by_rounding_is_said_and_is_not_exact():
    other = "(float[4, 8] x) => (float[4, 8] y) { a = Exp(x) b = Log(a) y = Neg(b) }"
    found = ran(SAME, other)
    assert (
        found.equal and "up to rounding: by " in found.sentence and "of the largest element at most" in found.sentence
    )
    one, two = ("(float[4, 8] x) => (float[4, 8] y) { k = Constant <value_float = 1.1> () y = %s(x, k) }" % op for op in ("Mul", "Div"))  # fmt: skip  # noqa: UP031
    with pytest.raises(DoesNotHold, match=r"run on random inputs \(seed \d+\), the output's 'y' differs by"):
        ran(one, two)


def test_narrower_types_are_close():
    half = """(float[4, 8] x) => (float[4, 8] y, float[4, 8] z) {
        h = Cast <to = 10> (x) k = Cast <to = 1> (h) y = Neg(k) z = Abs(x)
    }"""
    wide = "(float[4, 8] x) => (float[4, 8] y, float[4, 8] z) { y = Neg(x) z = Abs(x) }"
    found = ran(wide, half)
    assert found.equal and found.sentence.startswith("close on 2 random inputs in ONNX Runtime without optimizations")
    assert "'y', computed in a narrower element type, off by " in found.sentence
    assert found.sentence.endswith("of the largest element at most, all other outputs by 0.0e+00")
    alone = ran(*(text.replace(", float[4, 8] z)", ")").replace("z = Abs(x)", "") for text in (wide, half)))
    assert alone.sentence.endswith("of the largest element at most")
    with pytest.raises(DoesNotHold, match="'y' differs"):  # of the largest numbers, which a narrower type has not
        ran(wide, half, mode="exact")
    with pytest.raises(DoesNotHold, match="'y' differs"):
        ran(wide, half.replace("y = Neg(k)", "y = Sign(k)"))


def test_a_model_that_draws_numbers_is_not_compared():
    for scale in (1.0, 1e-3):
        text = f"(float[4, 8] x) => (float[4, 8] y) {{ r = RandomNormalLike <scale = {scale}> (x) y = Add(x, r) }}"
        assert ran(text, text).sentence == "not compared, since the model gives different results in each run"


def test_models_for_other_callers_are_not_compared():
    for text in (SAME.replace("float[4, 8] x", "int64[4, 8] x"), SAME.replace("4, 8] x", "8, 4] x")):
        found = ran(SAME, text)
        assert not found.equal and "the input 'x' has another type or shape in each model" in found.sentence


def test_who_does_not_load_or_run():
    foreign = "(float[4, 8] x) => (float[4, 8] y) { y = d.Hide(x) }"
    assert "ONNX Runtime does not load the model" in ran(foreign, foreign).sentence
    with pytest.raises(DoesNotHold, match="ONNX Runtime loads the model, but not the output"):
        ran(SAME, foreign)
    fails = "(float[4, 8] x) => (float[4, 8] y) { s = Shape(x) k = Constant <value_ints = [3]> () t = Mul(s, k) y = Reshape(x, t) }"
    assert "not compared, since ONNX Runtime does not run the model" in ran(fails, fails).sentence
    with pytest.raises(DoesNotHold, match="ONNX Runtime runs the model, but not the output"):
        ran(SAME, fails)


def test_integers_are_drawn_small_enough_for_the_model_to_run():
    text = "(int64[4] i) => (float[4] y) { w = Constant <value_floats = [1.0, 2.0]> () y = Gather(w, i) }"
    assert ran(text, text).equal


def test_inputs_with_a_default_are_fed_in_every_second_run():
    text = "(float[4] x, float[4] w) => (float[4] y) <float[4] w = {1, 1, 1, 1}> { y = %s }"
    assert ran(text % "Mul(x, w)", text % "Identity(x)", runs=1).equal
    with pytest.raises(DoesNotHold, match="'y' differs"):
        ran(text % "Mul(x, w)", text % "Identity(x)", runs=10)  # in a single one all of x may be zeros
    fixed = (text % "Mul(x, w)").replace(", float[4] w)", ")")
    assert ran(text % "Mul(x, w)", fixed, runs=2).equal  # which takes none


def test_an_output_in_a_narrower_type_takes_narrower_inputs():
    text = "({0}[4, 8] x) => ({0}[4, 8] y) {{ y = Neg(x) }}"
    assert ran(text.format("float"), text.format("float16")).equal


def test_types_to_which_something_is_cast():
    model = plain("(float[2] x) => (float[2] y) { h = Cast <to = 10> (x) y = CastLike(h, x) }")
    assert [cast_to(call) for call in model.graph.nodes.values()] == [[HALF], []]
    body = """(float[2] x, bool c) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] p) { h = Cast <to = 10> (x) p = Cast <to = 1> (h) }, else_branch = e () => (float[2] q) { q = Neg(x) }>
    }"""
    wide = plain("(float[2] x, bool c) => (float[2] y) { y = Neg(x) }")
    assert narrower_types(wide, plain(body), "y") == {HALF} and narrower_types(plain(body), wide, "y") == set()
    given = plain("(float16[2] x) => (float[2] y) { y = Cast <to = 1> (x) }")
    assert narrower_types(wide, given, "y") == {HALF}


def test_what_a_value_depends_on_is_looked_at_once_on_however_many_ways():
    rungs = "".join(f"a{i + 1} = Add(a{i}, b{i}) b{i + 1} = Mul(a{i}, b{i}) " for i in range(60))
    graph = f"(float[4] x) => (float[4] y) {{ a0 = Neg(x) b0 = Abs(x) {rungs} y = Add(a60, b60) }}"
    assert narrower_types(plain(graph), plain(graph), "y") == set()


# ---- kernels -----------------------------------------------------------------------------------

NHWC = "x1 = Transpose <perm = [0, 3, 1, 2]> (x) r = Conv(x1, w) y = Transpose <perm = [0, 2, 3, 1]> (r)"
HWIO = "x1 = Transpose <perm = [0, 3, 1, 2]> (x) w1 = Transpose <perm = [3, 2, 0, 1]> (w) r = Conv(x1, w1) y = Transpose <perm = [0, 2, 3, 1]> (r)"


@pytest.mark.parametrize(
    ("name", "body", "kernel"),
    [
        ("Conv_NHWC", NHWC, ("Conv", "NHWC")),
        ("Conv_NHWC__pads", NHWC, ("Conv", "NHWC")),
        ("Conv_NHWC_HWIO", HWIO, ("Conv", "NHWC")),
        ("Conv_NHWC", HWIO, None),
        ("Conv_NHWC_OHWI", HWIO, None),
        ("Conv_NHWC_HWIO", NHWC, None),
        ("Conv_NWC", NHWC, None),
        ("ConvTranspose_NHWC", NHWC, None),
        ("Conv_NHWC", NHWC.replace("Conv(", "Gemm("), None),
        ("Relu_NHWC", NHWC.replace("Conv(x1, w)", "Relu(x1)"), None),
        ("Conv_NHWC", NHWC.replace("0, 3, 1, 2", "0, 3, 2, 1"), None),
        ("Conv_NHWC", NHWC.replace("0, 2, 3, 1", "0, 3, 2, 1"), None),
        ("Conv_NHWC", NHWC.replace("Conv(x1", "Conv(x"), None),
        ("Conv_NHWC", "y = Conv(x, w)", None),
        ("Conv_NHWC", NHWC.replace("r = Conv(x1, w)", "q = Conv(x1, w) r = Relu(q)"), None),
        ("Conv_NHWC", NHWC.replace("y = T", "z = T") + " y = Identity(z)", None),
        ("Conv_NHWC", NHWC + " unread = Transpose <perm = [0, 2, 3, 1]> (x)", None),
        ("Conv_NHWC", "k = Constant <value_float = 1.0> () " + NHWC.replace("(x1, w)", "(x1, k)"), None),
        ("MaxPool_NHWC", NHWC.replace("Conv(x1, w)", "MaxPool(x1)"), ("MaxPool", "NHWC")),
        ("GridSample_NHWC", NHWC.replace("Conv(", "GridSample("), ("GridSample", "NHWC")),
        ("Conv_NCHW8c", NHWC, None),
        ("Conv_NCHW8c", "image = Identity(x) result = Conv(image, w) y = Identity(result)", None),
    ],
)
def test_a_function_is_a_kernel_by_its_body(name, body, kernel):
    function = f'\n<domain: "workbench", opset_import: ["": 17]> {name} (x, w) => (y) {{ {body} }}'
    found = layout_kernels(plain("(float[2] x) => (float[2] y) { y = Neg(x) }", function))
    assert found == ({} if kernel is None else {("workbench", name, ""): LayoutKernel(*kernel)})


def test_a_function_of_another_domain_is_no_kernel():
    function = f'\n<domain: "d", opset_import: ["": 17]> Conv_NHWC (x, w) => (y) {{ {NHWC} }}'
    assert layout_kernels(plain("(float[2] x) => (float[2] y) { y = Neg(x) }", function)) == {}


# ---- declared sizes ------------------------------------------------------------------------------


def declared(text, value, type_, before=(), dims=None):
    model = model_of("g " + text)
    model.graph.value_info.append(helper.make_tensor_value_info(value, *type_))
    output = Output(plain_model(model, Path(), "m.onnx"), dims or {}, "'m.onnx'")
    return [statement.sentence for statement in unconfirmed_type_statements(before, output)]


def test_declared_sizes_are_confirmed_by_nodes_or_named_or_refused():
    text = "(float[N,3] x) => (float[N,3] y) { a = Neg(x) y = Exp(a) }"
    assert declared(text, "a", (FLOAT, ["N", 3])) == [] == declared(text, "a", (FLOAT, None))
    assert declared(text, "a", (FLOAT, [2, 3]), dims={"N": 2}) == []
    for type_ in ((FLOAT, ["N", 4]), (HALF, ["N", 3]), (FLOAT, ["N"])):
        with pytest.raises(DoesNotHold, match=r"the output declares 'a' to be .*; it is float\[N, 3\]"):
            declared(text, "a", type_)
    with pytest.raises(DoesNotHold, match=r"'a' to be float\[3, 3\]; it is float\[2, 3\] with N=2"):
        declared(text, "a", (FLOAT, [3, 3]), dims={"N": 2})
    with_body = """(float[2] x, bool c) => (float[2] y) { y = If (c) <
        then_branch = t () => (float[2] p) { n = Neg(x) p = Exp(n) },
        else_branch = e () => (float[2] q) { q = If (c) <
            then_branch = u () => (float[2] r) { m = Neg(x) r = Abs(m) },
            else_branch = v () => (float[3] s) { s = Abs(x) }> }> }"""
    with pytest.raises(DoesNotHold, match=r"'s' in q.else_branch to be float\[3\]; it is float\[2\]"):
        declared(with_body, "y", (FLOAT, [2]))
    assert declared(with_body.replace("float[3] s", "float[2] s"), "y", (FLOAT, [2])) == []
    unknown = "(float[4] x) => (int64[M,K] y) { i = NonZero(x) y = Neg(i) }"
    said = "that 'i' have the sizes that the output declares does not follow from its nodes"
    assert declared(unknown, "i", (TensorProto.INT64, [1, 2])) == [said]
    same = [("", "i", (TensorProto.INT64, (1, 2)))]
    assert declared(unknown, "i", (TensorProto.INT64, [1, 2]), same) == []
