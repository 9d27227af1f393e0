"""The torch executor against ONNX Runtime where numbers end: NaN, infinities, -0.0, denormals, extremes, empty axes."""

import itertools

import numpy as np
import pytest

from tests.running import outputs, typed
from workbench.backends.torch.executor.executor import TorchExecutor

ENDS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1.17549435e-38, 3.4e38, -3.4e38)
CORNERS = np.array([*ENDS, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 7, -7, 100, -100], np.float32)

SMALLEST_NORMAL = 1.17549435e-38

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
    text = f"g (float[{CORNERS.size},3] x) => (float[M,K] y) {axes} {{ y = {op}({given}) }}"
    assert_same(*both(text, x=x), atol=SMALLEST_NORMAL)  # on AVX2 ONNX Runtime's Softmax has no smaller numbers but 0


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


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize(("shape", "axis"), [((3, 2), 1), ((3, 17), 1), ((9, 3), 0), ((2, 33, 5), 1)])
def test_a_nan_is_the_place_of_the_largest_only_where_it_is_first(op, last, shape, axis):
    random = np.random.default_rng(axis)
    dims = ",".join(map(str, shape))
    text = f"g (float[{dims}] x) => (y) {{ y = {op}<axis={axis}, select_last_index={last}>(x) }}"
    for _ in range(8):
        x = random.integers(-2, 3, shape).astype(np.float32)
        x[random.random(shape) < 0.3] = np.nan
        assert_same(*both(text, x=x))


def test_hardmax_of_nan():
    text = "g (float[4,3] x) => (y) { y = Hardmax(x) }"
    nan = np.nan
    assert_same(*both(text, x=np.array([[1, nan, 3], [nan, 2, nan], [nan, nan, nan], [5, nan, nan]], np.float32)))


@pytest.mark.parametrize("kind", ["uint8", "int8", "uint16", "int16"])
def test_quantized_nan_and_infinity(kind):
    text = f"g (float[13] x) => (y) <float s = {{0.3}}, {kind} z = {{3}}> {{ y = QuantizeLinear(x, s, z) }}"
    x = [np.nan, np.inf, -np.inf, 300, -300, 1e10, -1e10, 3.4e38, 0.5, 1.5, 2.5, -0.5, np.nan]
    assert_same(*both(text, x=np.array(x, np.float32)))


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("aligned", [0, 1])
def test_grid_coordinates_that_are_no_numbers(mode, aligned):
    text = f"""g (float[1,1,4,4] x, float[1,2,3,2] c) => (y) {{
        y = GridSample<mode="{mode}", padding_mode="zeros", align_corners={aligned}>(x, c)
    }}"""
    nan, inf = np.nan, np.inf
    c = [[[0, nan], [nan, 0], [inf, 0]], [[0.5, -inf], [1e30, 0], [3e9, -3e9]]]
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    assert_same(*both(text, x=x, c=np.array([c], np.float32)), atol=1e-6)


@pytest.mark.parametrize("turns", [0, 2])
@pytest.mark.parametrize("goes", [False, True])
def test_a_loop_of_no_turns_gives_empty_results_of_the_bodys_rank_and_type(turns, goes):
    graph = typed("""g (float[N,2] x, int64 n, bool c) => (s, y, k) {
        s, y, k = Loop(n, c, x) <body = b (int64 i, bool go, float[N,2] a) => (bool more, float[N,2] z, float[N,2] o, int64 t) {
            more = Identity(go)  z = Add(a, a)  o = Relu(z)  t = Identity(i)
        }>
    }""")
    inputs = {"x": np.ones((3, 2), np.float32), "n": np.array(turns, np.int64), "c": np.array(goes)}
    ours, theirs = TorchExecutor(graph).run(inputs), outputs(graph, inputs)
    for name, array in theirs.items():
        assert_same(ours[name], array, name)


@pytest.mark.parametrize("mode", ["", '<mode="bilinear">', '<mode="bicubic">', '<mode="nearest">'])
def test_the_modes_of_a_grid_sample_before_opset_20(mode):
    text = f"""<ir_version: 8, opset_import: ["": 16]> g (float[1,1,4,4] x, float[1,3,3,2] c) => (float[1,1,3,3] y) {{
        y = GridSample{mode}(x, c)
    }}"""
    random = np.random.default_rng(0)
    x, c = (random.uniform(-1, 1, size).astype(np.float32) for size in ((1, 1, 4, 4), (1, 3, 3, 2)))
    assert_same(*both(text, x=x, c=c), atol=1e-6)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
def test_the_index_of_an_extremum_beside_nan_and_infinities(op, last):
    """Every triple of them: ONNX Runtime's running extremum ignores a NaN that does not come first."""
    x = np.array([*itertools.product((np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0), repeat=3)], np.float32)
    text = f"g (float[{len(x)},3] x) => (int64[{len(x)},1] y) {{ y = {op}<axis=1, select_last_index={last}>(x) }}"
    assert_same(*both(text, x=x))
