"""`check --run`: which inputs both files run on, and what counts as equal."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from workbench.checker.checking import _read
from workbench.checker.outcome import DoesNotHold
from workbench.checker.running import RunsCompared, compared_runs

HEAD = '<ir_version: 8, opset_import: ["": 18]> '


@pytest.fixture
def ran(tmp_path):
    def run(model: str, output: str, runs: int = 2, mode: str = "ieee", dims=None) -> RunsCompared:
        for name, text in (("model", model), ("output", output)):
            onnx.save(parser.parse_model(HEAD + text), tmp_path / f"{name}.onnx")
        read = [_read(tmp_path / f"{name}.onnx") for name in ("model", "output")]
        return compared_runs(*read, dims or {}, runs, mode, hinted=False)

    return run


TWO_ROWS = "g (float[2,64] x) => (float[2,64] y) {{ {} }}"
SAME = TWO_ROWS.format("y = Identity(x)")


@pytest.mark.parametrize(
    "nodes",
    [
        "e = Equal(x, x)  zero = Constant<value = float {0}>()  y = Where(e, x, zero)",  # NaN
        "big = Constant<value = float {1e30}>()  i = Greater(x, big)  y = Where(i, big, x)",  # infinity, large numbers
        "two = Constant<value = float {2}>()  d = Mul(x, two)  y = Div(d, two)",  # numbers that overflow
    ],
)
def test_what_differs_only_at_corner_values_is_found_in_mode_exact(ran, nodes):
    assert ran(SAME, TWO_ROWS.format(nodes), runs=4).equal
    with pytest.raises(DoesNotHold, match="the output's 'y' differs"):
        ran(SAME, TWO_ROWS.format(nodes), runs=4, mode="exact")


def test_corner_values_are_said_and_equal_results_are_equal(ran):
    found = ran(SAME, SAME, runs=3, mode="exact")
    assert found.equal and "on 3 random inputs, and 6 with NaN, infinities or the largest numbers," in found.sentence


def test_a_zero_of_another_sign_is_not_exact(ran):
    nodes = "zero = Constant<value = float {0}>()  y = Add(x, zero)"
    found = ran(SAME, TWO_ROWS.format(nodes), runs=4, mode="exact")
    assert not found.equal and found.sentence.endswith("up to the signs of zeros; its mode exact allows none")


def test_inputs_with_which_the_model_does_not_run_are_left_out_among_corner_values(ran):
    """NaN as an index."""
    nodes = "n = Cast<to = 7>(x)  w = Constant<value = float[3] {1, 2, 3}>()  m = Constant<value = int64 {3}>()  i = Clip(n)"
    text = f"g (float[4] x) => (float[4] y) {{ {nodes}  r = Mod(i, m)  y = Gather(w, r) }}"
    assert ran(text, text, runs=2, mode="exact").equal


def test_elements_that_are_no_numbers_do_not_count_in_mode_fast(ran):
    text = "g (float[3,40] a, float[3,40] b) => (float[3,40] y) {{ {} }}"
    before = text.format("n = Log(a)  m = Log(b)  y = Add(n, m)")
    after, wrong = (text.format(f"p = {operator}(a, b)  y = Log(p)") for operator in ("Mul", "Div"))
    found = ran(before, after, mode="fast")
    assert found.equal and " elements that are no numbers in the model, as mode fast allows" in found.sentence
    with pytest.raises(DoesNotHold, match=r"the output's 'y' differs in -?[0-9.a-z]+ in place of nan"):
        ran(before, after)
    with pytest.raises(DoesNotHold, match="the output's 'y' differs by"):
        ran(before, wrong, mode="fast")


def test_a_small_element_beside_a_large_one_counts(ran):
    text = "g (float[5,3] x) => (float[5,3] y) {{ w = Constant<value = float[3] {{ 10000, {}, 1 }}>()  y = Mul(x, w) }}"
    assert ran(text.format("1"), text.format("1")).equal
    with pytest.raises(DoesNotHold, match=r"differs by .* of its largest element: .* in place of .* at \[\d, 1\]"):
        ran(text.format("1"), text.format("1.5"))


@pytest.mark.parametrize("opset", [13, 21, 23])
@pytest.mark.parametrize("size", [8, 64, 3000])
def test_other_orders_of_a_sum_are_rounding_and_a_weight_that_is_off_is_not(tmp_path, size, opset):
    """One of all weights is off by 1 %."""
    weights = np.random.default_rng(0).standard_normal((size, 8)).astype(np.float32)
    off = weights.copy()
    off[size // 2, 3] *= 1.01

    def saved(name: str, array: np.ndarray, halves: bool) -> None:
        head = HEAD.replace("18", str(opset)).replace("8, opset", "10, opset")
        model = parser.parse_model(head + f"g (float[4,{size}] x) => (float[4,8] y) {{ {_product(halves, size)} }}")
        parts = [array[: size // 2], array[size // 2 :]] if halves else [array]
        model.graph.initializer.extend(numpy_helper.from_array(part, f"w{n}") for n, part in enumerate(parts))
        onnx.save(model, tmp_path / name)

    saved("whole", weights, halves=False)
    saved("halves", weights, halves=True)
    saved("off", off, halves=True)
    whole, halves, wrong = (_read(tmp_path / name) for name in ("whole", "halves", "off"))
    found = compared_runs(whole, halves, {}, 4, "ieee", hinted=False)
    assert found.equal
    with pytest.raises(DoesNotHold, match="the output's 'y' differs by"):
        compared_runs(whole, wrong, {}, 4, "ieee", hinted=False)


def _product(halves: bool, size: int) -> str:
    if not halves:
        return "y = MatMul(x, w0)"
    return f"""a = Constant<value = int64[2] {{ {size // 2}, {size - size // 2} }}>()
        l, r = Split<axis = 1>(x, a)  p = MatMul(l, w0)  q = MatMul(r, w1)  y = Add(q, p)"""


def test_what_is_right_at_one_size_only_is_found(ran):
    text = "g (float[N,3] x) => (float[N,3] y) {{ {} }}"
    two = "b = Constant<value = int64[1] {0}>()  e = Constant<value = int64[1] {2}>()  y = Slice(x, b, e)"
    assert ran(text.format("y = Identity(x)"), text.format(two), runs=1).equal
    with pytest.raises(DoesNotHold, match=r"with N=\d+, the output's 'y' differs in shape or type: float32\[2, 3\]"):
        ran(text.format("y = Identity(x)"), text.format(two), runs=12)
    found = ran(text.format("y = Identity(x)"), text.format("y = Identity(x)"), runs=12, dims={"N": 7})
    assert found.equal and "with N=7 or " in found.sentence


def test_a_model_that_runs_at_one_size_only_is_compared_at_that(ran):
    text = "g (float[N,3] x) => (float[2,3] y) { s = Constant<value = int64[2] {2, 3}>()  y = Reshape(x, s) }"
    assert "with N=2 in ONNX" in ran(text, text, runs=3).sentence


def test_a_shape_that_the_output_declares_and_has_not_is_a_difference(ran):
    text = "g (float[1,5] x) => ({} y) {{ y = Relu(x) }}"
    with pytest.raises(DoesNotHold, match=r"'y' has the shape \[1, 5\], and it declares float\[1, 3\]"):
        ran(text.format("float[1,5]"), text.format("float[1,3]"))
    with pytest.raises(DoesNotHold, match=r"'y' has the shape \[1, 5\], and it declares float\[1\]"):
        ran(text.format("float[1,5]"), text.format("float[1]"))
    for declared in ("float[1,5]", "float[1,M]", "float[A,B]"):
        assert ran(text.format("float[1,5]"), text.format(declared)).equal


def test_each_element_of_a_sequence_is_compared(ran):
    text = "g (float[4,6] x) => (seq(float[4,3]) y) {{ a = {}(x)  y = SplitToSequence<axis = 1>(a, n) }}"
    text = text.replace("y) {{", "y) <int64 n = {{3}}> {{")
    assert ran(text.format("Relu"), text.format("Relu")).equal
    with pytest.raises(DoesNotHold, match="the output's 'y' differs by"):
        ran(text.format("Relu"), text.format("Softplus"))


BEHIND_8_BITS = """g (float[1,3,8,8] x) => (float[1,2,8,8] y)
    <float[2,3,1,1] w = {{{}, 1, 1, 1, 1, -1}}, float s = {{0.05}}, uint8 z = {{128}}> {{
    c = Conv(x, w)  q = QuantizeLinear(c, s, z)  d = DequantizeLinear(q, s, z)  y = {}(d)
}}"""


@pytest.mark.parametrize("operator", ["Relu", "Tanh"])
@pytest.mark.parametrize("weight", ["1.04", "1.02", "0.98"])
def test_a_weight_in_front_of_8_bits_is_compared(ran, weight, operator):
    """Each element is off by a step at most, as rounding may be; so many elements it does not move."""
    with pytest.raises(DoesNotHold, match="the output's 'y' differs"):
        ran(BEHIND_8_BITS.format("1", operator), BEHIND_8_BITS.format(weight, operator))


def test_another_order_of_a_sum_in_front_of_8_bits_is_equal(ran):
    summands = "a = Conv(x, w)  b = Add(a, k)  c = Sub(b, k)"
    text = BEHIND_8_BITS.format("1.3", "Relu").replace("uint8 z", "float k = {1}, uint8 z")
    assert ran(text, text.replace("c = Conv(x, w)", summands)).equal
