"""The torch executor against ONNX Runtime where numbers end: NaN, infinities, -0.0, denormals, extremes, empty axes."""

import itertools

import numpy as np
import pytest

from tests.running import outputs, typed
from workbench.run.torch.executor import TorchExecutor

ENDS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1.17549435e-38, 3.4e38, -3.4e38)
CORNERS = np.array([*ENDS, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 7, -7, 100, -100], np.float32)

# Numbers that ONNX Runtime gives otherwise, and why ours stand.
DIFFERS = {
    "Celu": [-0.0, -1e-45],  # ONNX Runtime makes a zero of it, with the sign lost
    "Selu": [-0.0, -1e-45],
    "Elu": [-1e-45],
    "Tanh": [1e-45, -1e-45],
    "Mish": [-100.0],
    "HardSwish": [3.4e38],  # x * 6 overflows in torch's one kernel; two would move more than twice the bytes
}

FUNCTIONS = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp"),
    *("Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log", "Mish", "Neg", "Reciprocal", "Relu"),
    *("Round", "Selu", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "ThresholdedRelu"),
)
WHOLE = (
    "Softmax",
    "LogSoftmax",
    *(f"Reduce{w}" for w in ("Max", "Min", "Sum", "Mean", "Prod", "L1", "L2", "LogSumExp")),
)
PAIRS = ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "PRelu")
COMPARED = ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")


def both(text, **inputs):
    graph = typed(text)
    return TorchExecutor(graph).run(inputs)["y"], outputs(graph, inputs)["y"]


def assert_same(ours, theirs, message="", rtol=1e-5, atol=0.0):
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, message
    if ours.dtype.kind != "f":  # a float64 does not hold every int64
        np.testing.assert_array_equal(ours, theirs, err_msg=message)
        return
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol, err_msg=message)
    zero = theirs == 0
    np.testing.assert_array_equal(np.signbit(ours[zero]), np.signbit(theirs[zero]), err_msg=message)


@pytest.mark.parametrize("op", FUNCTIONS)
def test_functions_of_corner_values(op):
    x = CORNERS[~np.isin(CORNERS, np.array(DIFFERS.get(op, []), np.float32))]
    assert_same(*both(f"g (float[{x.size}] x) => (float[{x.size}] y) {{ y = {op}(x) }}", x=x))


@pytest.mark.parametrize("op", WHOLE)
def test_reductions_with_each_corner_value_beside_ordinary_ones(op):
    x = np.ones((CORNERS.size, 3), np.float32)
    x[:, 0] = CORNERS
    axes, given = ("<int64[1] a = {1}>", "x, a") if op.startswith("Reduce") else ("", "x")
    assert_same(*both(f"g (float[{CORNERS.size},3] x) => (float[M,K] y) {axes} {{ y = {op}({given}) }}", x=x))


@pytest.mark.parametrize("op", WHOLE)
def test_reductions_of_an_empty_axis(op):
    axes, given = ("<int64[1] a = {1}>", "x, a") if op.startswith("Reduce") else ("", "x")
    text = f"g (float[2,0] x) => (float[M,K] y) {axes} {{ y = {op}({given}) }}"
    assert_same(*both(text, x=np.zeros((2, 0), np.float32)))


@pytest.mark.parametrize("op", [*PAIRS, *COMPARED])
def test_every_pair_of_corner_values(op):
    x, z = (grid.ravel() for grid in np.meshgrid(CORNERS, CORNERS))
    kind = "bool" if op in COMPARED else "float"
    assert_same(
        *both(f"g (float[{x.size}] x, float[{x.size}] z) => ({kind}[{x.size}] y) {{ y = {op}(x, z) }}", x=x, z=z)
    )


def test_gelu_of_infinities_and_sign_of_nan():
    x = np.array([np.inf, -np.inf, 3.4e38, np.nan], np.float32)
    ours, theirs = both("g (float[4] x) => (float[4] y) { y = Sign(x) }", x=x)
    np.testing.assert_array_equal(ours, [1, -1, 1, np.nan])
    np.testing.assert_array_equal(ours, theirs)
    assert both("g (float[4] x) => (float[4] y) { y = Gelu(x) }", x=x)[0][0] == np.inf


@pytest.mark.parametrize("length", [0, 1, 4])
@pytest.mark.parametrize("step", [1, 2, -1, -2, -7])
def test_slices_whose_ends_lie_outside(length, step):
    x = np.arange(length, dtype=np.float32)
    text = "g (float[L] x, int64[1] s, int64[1] e) => (float[M] y) <int64[1] a = {0}, int64[1] p = {%d}> { y = Slice(x, s, e, a, p) }"
    graph = typed(text % step)
    executor = TorchExecutor(graph)
    for start, end in itertools.product(
        (-9, -5, -4, -1, 0, 3, 4, 9), (-(2**63) + 1, -6, -1, 0, 4, 9, 2**31 - 1, 2**63 - 1)
    ):
        inputs = {"x": x, "s": np.array([start]), "e": np.array([end])}
        np.testing.assert_array_equal(executor.run(inputs)["y"], outputs(graph, inputs)["y"], err_msg=f"{start}:{end}")


@pytest.mark.parametrize("rounded", ["round_prefer_ceil", "round_prefer_floor", "floor", "ceil"])
@pytest.mark.parametrize("places", ["asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel"])
def test_resize_to_the_nearest(rounded, places):
    x = np.arange(70, dtype=np.float32).reshape(1, 2, 5, 7)
    for height, width in ((10, 4), (1, 2), (3, 8), (7, 16)):
        text = f"""g (float[1,2,5,7] x) => (float[1,2,{height},{width}] y) <int64[4] s = {{1, 2, {height}, {width}}}> {{
            y = Resize<mode="nearest", nearest_mode="{rounded}", coordinate_transformation_mode="{places}">(x, , , s)
        }}"""
        assert_same(*both(text, x=x), f"{height} x {width}")


def test_resize_by_a_scale_whose_product_is_whole_in_float32():
    x = np.arange(10, dtype=np.float32).reshape(1, 1, 1, 10)
    text = 'g (float[1,1,1,10] x) => (float[1,1,1,13] y) <float[4] s = {1, 1, 1, 1.3}> { y = Resize<mode="nearest">(x, , s) }'
    assert_same(*both(text, x=x))
