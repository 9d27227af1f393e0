"""Standard operators from their decomposed forms: the variants that the passes' own examples do not show."""

import numpy as np
import pytest

import passes
from tests.running import outputs, random_inputs, typed
from workbench.ir import Graph
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import PassContext, run_pass

PASSES = dict(passes.all_passes())
LAYER = "<int64[1] a = {-1}, float two = {2}, float e = {0.5}, float[3] s = {1, 2, -1}, float[3] b = {0, 1, -1}>"
CENTERED = "m = ReduceMean(x, a)  d = Sub(x, m)"
VARIANCE = "v = ReduceMean(p, a)  w = Add(v, e)"
GELU = "<float r = {1.41421356}, float i = {0.70710678}, float one = {1}, float half = {0.5}, float two = {2}>"
CUBE = "<float k = {0.044715}, float s = {0.7978845608}, float one = {1}, float half = {0.5}, float three = {3}>"
SWISH = "<float three = {3}, float zero = {0}, float six = {6}, float sixth = {0.16666667}>"
GROUPS = "<int64[3] g = {0, 2, -1}, int64[3] h = {1, 4, 3}, float[2] i = {1, 1}, float[2] j = {0, 0}"


def recomposed(text: str, name: str, mode: str = "ieee") -> list[str]:
    """The operators that the pass leaves; what they compute is what the text computes."""
    before, after = typed(text), typed(text)
    run_pass(PASSES[name](), after, PassContext(load_profile("npu"), mode=mode), check_each=True)
    assert_same(before, after)
    return [node.op for node in after.nodes]


def assert_same(before: Graph, after: Graph) -> None:
    inputs = random_inputs(before)
    expected = outputs(before, inputs)
    for name, array in outputs(after, inputs).items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-6)


def rows(constants: str, body: str) -> str:
    return f"g (float[N,3] x) => (float[N,3] y) {constants} {{ {body} }}"


@pytest.mark.parametrize("square", ["Pow(d, two)", "Mul(d, d)"])
@pytest.mark.parametrize(
    "division", ["n = Div(d, r)", "q = Reciprocal(r)  n = Mul(q, d)", "q = Div(one, r)  n = Mul(d, q)"]
)
def test_layer_normalization_in_every_spelling(square, division):
    constants = LAYER.replace("<", "<float one = {1}, ")
    body = f"{CENTERED}  p = {square}  {VARIANCE}  r = Sqrt(w)  {division}  t = Mul(s, n)  y = Add(b, t)"
    assert recomposed(rows(constants, body), "recompose_layer_norm") == ["LayerNormalization"]


def test_layer_normalization_over_two_axes():
    text = """g (float[N,2,3] x) => (float[N,2,3] y)
        <int64[2] a = {-1, 1}, float e = {0.5}, float[2,3] s = {1, 2, 3, 4, 5, 6}, float[2,3] b = {0, 1, 2, 3, 4, 5}> {
        m = ReduceMean(x, a)  d = Sub(x, m)  p = Mul(d, d)  v = ReduceMean(p, a)  w = Add(v, e)  r = Sqrt(w)
        n = Div(d, r)  t = Mul(n, s)  y = Add(t, b)
    }"""
    assert recomposed(text, "recompose_layer_norm") == ["LayerNormalization"]


def test_layer_normalization_of_an_older_opset_has_axes_as_attribute():
    body = "m = ReduceMean<axes=[-1]>(x)  d = Sub(x, m)  p = Mul(d, d)  v = ReduceMean<axes=[-1]>(p)"
    body = f"{body}  w = Add(v, e)  r = Sqrt(w)  n = Div(d, r)  y = Add(n, b)"
    text = '<ir_version: 8, opset_import: ["": 17]> ' + rows(LAYER, body)
    assert recomposed(text, "recompose_layer_norm") == ["LayerNormalization"]
    assert "LayerNormalization" not in recomposed(text.replace("17", "16"), "recompose_layer_norm")


def test_a_scale_of_another_shape_stays_behind():
    body = f"{CENTERED}  p = Mul(d, d)  {VARIANCE}  r = Sqrt(w)  n = Div(d, r)  y = Mul(n, e)"
    assert recomposed(rows(LAYER, body), "recompose_layer_norm", "fast") == ["LayerNormalization", "Mul"]
    assert "LayerNormalization" not in recomposed(rows(LAYER, body), "recompose_layer_norm")


def test_a_row_times_itself_is_not_a_scale():
    body = f"{CENTERED}  p = Mul(d, d)  {VARIANCE}  r = Sqrt(w)  n = Div(d, r)  y = Mul(n, n)"
    text = rows(LAYER, body).replace("[N,3]", "[3]")
    assert recomposed(text, "recompose_layer_norm", "fast") == ["LayerNormalization", "Mul"]


@pytest.mark.parametrize("read", ["m", "d", "w", "r", "n"])
def test_layer_normalization_with_another_reader_stays(read):
    body = f"{CENTERED}  p = Mul(d, d)  {VARIANCE}  r = Sqrt(w)  n = Div(d, r)  t = Mul(n, s)  y = Add(t, b)"
    text = rows(LAYER, f"{body}  z = Neg({read})").replace("float[N,3] y", "float[N,3] y, float z")
    assert "LayerNormalization" not in recomposed(text.replace("float z", "float[?,?] z"), "recompose_layer_norm")


def test_rms_normalization_over_two_axes_without_scale():
    text = """g (float[N,2,3] x) => (float[N,2,3] y) <int64[2] a = {1, 2}, float e = {0.5}> {
        p = Mul(x, x)  v = ReduceMean(p, a)  w = Add(v, e)  r = Sqrt(w)  y = Div(x, r)
    }"""
    assert recomposed(text, "recompose_layer_norm") == ["RMSNormalization"]


@pytest.mark.parametrize("argument", ["Div(x, r)", "Mul(i, x)"])
@pytest.mark.parametrize(
    "product",
    [
        "h = Mul(x, half)  y = Mul(h, c)",
        "h = Mul(c, half)  y = Mul(x, h)",
        "h = Mul(c, x)  y = Mul(half, h)",
        "h = Mul(x, c)  y = Div(h, two)",
    ],
)
def test_gelu_in_every_spelling(argument, product):
    body = f"a = {argument}  f = Erf(a)  c = Add(one, f)  {product}"
    assert recomposed(rows(GELU, body), "recompose_gelu") == ["Gelu"]


@pytest.mark.parametrize(
    "inner",
    [
        "p = Pow(x, three)  q = Mul(p, k)  t = Add(x, q)  u = Mul(t, s)",
        "p = Mul(x, x)  o = Mul(p, x)  q = Mul(k, o)  t = Add(q, x)  u = Mul(s, t)",
        "p = Mul(x, x)  q = Mul(k, p)  t = Add(one, q)  o = Mul(x, s)  u = Mul(o, t)",
    ],
)
def test_gelu_of_the_tanh_form_in_every_spelling(inner):
    body = f"{inner}  f = Tanh(u)  c = Add(f, one)  h = Mul(x, half)  y = Mul(h, c)"
    assert recomposed(rows(CUBE, body), "recompose_gelu") == ["Gelu"]


@pytest.mark.parametrize(
    "product",
    [
        "c = Mul(x, b)  y = Mul(c, sixth)",
        "c = Mul(b, x)  y = Div(c, six)",
        "c = Div(x, six)  y = Mul(b, c)",
        "c = Div(b, six)  y = Mul(x, c)",
    ],
)
def test_hard_swish_in_every_spelling(product):
    assert recomposed(
        rows(SWISH, f"a = Add(three, x)  b = Clip(a, zero, six)  {product}"), "recompose_activations"
    ) == ["HardSwish"]


def test_hard_sigmoid_leaves_a_product_that_is_read_elsewhere():
    text = """g (float[N,3] x) => (float[N,3] y, float[N,3] a)
        <float k = {0.25}, float h = {0.5}, float zero = {0}, float one = {1}> {
        a = Mul(x, k)  c = Add(a, h)  y = Clip(c, zero, one)
    }"""
    assert recomposed(text, "recompose_activations") == ["Mul", "HardSigmoid"]


def test_swish_with_a_factor_inside():
    text = '<ir_version: 10, opset_import: ["": 24]> ' + rows(
        "<float k = {1.5}>", "a = Mul(x, k)  b = Sigmoid(a)  y = Mul(b, x)"
    )
    assert recomposed(text, "recompose_activations") == ["Swish"]


def test_softmax_along_a_middle_axis():
    text = """g (float[N,3,2] x) => (float[N,3,2] y) <int64[1] a = {1}, int64[1] b = {-2}> {
        m = ReduceMax(x, a)  d = Sub(x, m)  e = Exp(d)  s = ReduceSum(e, b)  y = Div(e, s)
    }"""
    assert recomposed(text, "recompose_softmax") == ["Softmax"]


def test_group_normalization_without_a_scale():
    text = f"""g (float[1,4,3] x) => (float[1,4,3] y) {GROUPS}, float[4,1] b = {{0, 1, 2, 3}}> {{
        p = Reshape(x, g)  n = InstanceNormalization(p, i, j)  r = Reshape(n, h)  y = Add(r, b)
    }}"""
    assert recomposed(text, "recompose_norms", "fast") == ["GroupNormalization"]
    assert len(recomposed(text.replace("{0, 1, 2, 3}", "{-0.0, 1, 2, 3}"), "recompose_norms")) == 4


def test_attention_keeps_a_transpose_that_does_more():
    text = """g (float[2,1,3,4] q, float[2,5,1,4] k, float[2,1,5,6] v) => (float[2,1,3,6] y) <float e = {2}> {
        t = Transpose<perm=[0,2,3,1]>(k)  c = MatMul(q, t)  d = Div(c, e)  p = Softmax<axis=-1>(d)  y = MatMul(p, v)
    }"""
    assert recomposed(text, "recompose_attention") == ["Transpose", "Attention"]


def test_attention_with_batch_and_heads_as_one_axis_meanwhile():
    text = """g (float[2,3,3,4] q, float[2,3,5,4] k, float[2,3,5,6] v) => (float[2,3,3,6] y)
        <int64[3] a = {-1, 5, 4}, int64[4] b = {2, 3, 4, 5}> {
        r = Reshape(k, a)  t = Transpose<perm=[0,2,1]>(r)  u = Reshape(t, b)  c = MatMul(q, u)
        p = Softmax<axis=-1>(c)  y = MatMul(p, v)
    }"""
    assert recomposed(text, "recompose_attention") == ["Attention"]
