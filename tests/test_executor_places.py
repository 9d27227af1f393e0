"""The torch executor against ONNX Runtime: what moves, picks, orders and counts elements, and integers at their ends."""

import itertools

import numpy as np
import pytest

from tests.running import outputs, typed
from tests.test_executor_grid import graph_of, hold, inf, kind, nan
from workbench.backends.torch.executor.executor import TorchExecutor

X = np.arange(20, dtype=np.float32).reshape(4, 5)
TYPES = ("float32", "float64", "int32", "int64", "uint8", "int8", "bool")


def longs(*numbers):
    return np.array(numbers, np.int64)


# ---- what is padded, cut, repeated -----------------------------------------------------

PADS = (
    *((1, 2, 3, 4), (0, 0, 0, 0), (-1, 0, 0, -2), (-1, 2, 1, -1), (2, -3, -1, 0), (1, -2, 1, 2), (0, 4, 0, 3)),
    *((5, 6, 7, 8), (9, 0, 0, 9), (-2, 0, 5, 0), (3, 0, -2, 0)),
)


@pytest.mark.parametrize("mode", ["constant", "edge", "wrap", "reflect"])
def test_pads_positive_and_negative(mode):
    for pads in PADS[: 7 if mode == "reflect" else None]:  # ONNX Runtime reflects no further than the axis is long
        hold(f'Pad <mode = "{mode}"> (x, p)', x=X, p=longs(*pads))
    hold(f'Pad <mode = "{mode}"> (x, p, , a)', x=X, p=longs(2, 1), a=longs(-1))
    hold(f'Pad <mode = "{mode}"> (x, p, , a)', x=X, p=longs(2, 1, 1, 2), a=longs(1, 0))
    for dtype in TYPES:
        hold(f'Pad <mode = "{mode}"> (x, p)', kind(dtype), x=X.astype(dtype), p=longs(1, 1, 2, 2))


@pytest.mark.parametrize("value", [nan, -inf, -0.0, 1e-45])
def test_pads_with_a_corner_value(value):
    hold("Pad (x, p, v)", x=X, p=longs(1, -2, 0, 3), v=np.float32(value))


@pytest.mark.parametrize(
    ("dtype", "value"), [("int32", 2**31 - 1), ("int64", 2**62 + 1), ("int64", -(2**63)), ("bool", 1)]
)
def test_pads_with_every_digit(dtype, value):
    """With numbers that a float64 does not hold ONNX Runtime pads, which torch fills by way of float64."""
    x, filling = X.astype(dtype), np.array(value).astype(dtype)
    executor = TorchExecutor(graph_of("Pad (x, p, v)", dtype, x=x, p=longs(1, 0, 0, 2), v=filling))
    ours = executor.run({"x": x, "p": longs(1, 0, 0, 2), "v": filling})["y"]
    np.testing.assert_array_equal(ours, np.pad(x, ((1, 0), (0, 2)), constant_values=filling))
    assert list(executor.fallbacks) == (["Pad"] if value == 2**62 + 1 else [])


@pytest.mark.parametrize("repeats", [(0, 1), (1, 0), (2, 3), (0, 0)])
def test_tile(repeats):
    hold("Tile (x, r)", x=X, r=longs(*repeats))


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [((4, 5), (1,)), ((1, 5), (0, 5)), ((1,), (3, 0)), ((), (2, 2)), ((0, 5), (1, 1)), ((3, 1), (2, 1, 4)), ((1,), ())],
)
def test_expand(shape, wanted):
    hold("Expand (x, s)", x=np.ones(shape, np.float32), s=longs(*wanted))


@pytest.mark.parametrize("upper", [0, 1])
def test_triangles_whose_diagonal_lies_outside(upper):
    for k in (-9, -4, -3, -1, 0, 1, 4, 5, 9, 2**40, -(2**40)):
        hold(f"Trilu <upper = {upper}> (x, k)", x=np.full((2, 4, 5), nan, np.float32), k=np.int64(k))
    for shape in ((0, 3), (2, 3, 0)):
        hold(f"Trilu <upper = {upper}> (x)", "bool", x=np.ones(shape, bool))


@pytest.mark.parametrize("shape", [(2, 12, 2, 3), (0, 12, 2, 3), (1, 12, 0, 3), (1, 0, 2, 3)])
def test_depth_and_space(shape):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for mode in ("DCR", "CRD"):
        hold(f'DepthToSpace <blocksize = 2, mode = "{mode}"> (x)', x=x)
    hold("SpaceToDepth <blocksize = 2> (x)", x=x.repeat(2, axis=3))


# ---- what is picked and placed by index ------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("index_type", ["int64", "int32"])
def test_gather(axis, index_type):
    for indices in (-1, [0], [-1], [3, -4], [[0, -1], [2, -3]], [], [[], []]):
        hold(f"Gather <axis = {axis}> (x, i)", x=X, i=np.array(indices, index_type))
    hold(f"Gather <axis = {axis}> (x, i)", x=X[:0], i=np.array([], index_type))


REDUCED = ("none", "add", "mul", "max", "min")
ELEMENTS = (longs([0, 1], [2, -1]), longs([-4, 3]), longs().reshape(0, 5), longs().reshape(4, 0), longs([0, 0], [0, 0]))
COORDINATES = (
    longs([0, 1], [-1, -1]),
    longs([0], [-4]),
    longs(0, -1),
    longs([[0, 1]], [[-1, -2]]),
    longs().reshape(0, 1),
    longs().reshape(2, 0, 2),
)


def updates(shape, dtype):
    numbers = [inf, 6, -inf, 0, 1, -2, 3, 4, 5] if dtype == "float32" else [9, 1, 0, 250]
    with np.errstate(invalid="ignore"):
        return np.resize(np.array(numbers), shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8"])
@pytest.mark.parametrize("reduction", REDUCED)
def test_elements_are_picked_and_placed(reduction, dtype):
    x = (X * 14 - 30).astype(dtype) if dtype != "uint8" else (X * 13).astype(dtype)
    for indices, axis in itertools.product(ELEMENTS, (0, 1)):
        hold(f"GatherElements <axis = {axis}> (x, i)", kind(dtype), x=x, i=indices)
        if reduction == "none" and indices.size == 4 and not indices.any():
            continue  # which of several updates stays is open
        call = f'ScatterElements <axis = {axis}, reduction = "{reduction}"> (x, i, u)'
        hold(call, kind(dtype), x=x, i=indices, u=updates(indices.shape, dtype))
    for indices in COORDINATES:
        hold("GatherND (x, i)", kind(dtype), x=x, i=indices)
        call, shape = (
            f'ScatterND <reduction = "{reduction}"> (x, i, u)',
            indices.shape[:-1] + x.shape[indices.shape[-1] :],
        )
        hold(call, kind(dtype), x=x, i=indices, u=updates(shape, dtype))
        if reduction != "none":
            hold(call, kind(dtype), x=x, i=indices * 0, u=np.full(shape, 4, dtype))


@pytest.mark.parametrize("indices", [longs([0], [1], [-1], [-5]), longs(*[[[0], [1]]] * 4), longs().reshape(4, 0, 1)])
def test_gather_by_batch(indices):
    hold("GatherND <batch_dims = 1> (x, i)", x=X, i=indices)


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_one_hot_of_negative_indices_and_of_those_outside(axis, dtype):
    for indices in ([0, 2, -1, -3], [3, -4, 100], [[0, 1], [-1, 2]], []):
        operands = {"i": np.array(indices, dtype), "d": np.array(3, dtype), "v": np.array([nan, -0.0], np.float32)}
        hold(f"OneHot <axis = {axis}> (i, d, v)", **operands)


# ---- what is ordered, counted, summed up -----------------------------------------------

TIES = np.array(
    [[5, 5, 5, 5, 5], [1, 3, 3, 0, 2], [0, -0.0, 0, -0.0, 0], [-inf, -inf, -1, -inf, -inf], [inf, 1, inf, -1, inf]],
    np.float32,
)


@pytest.mark.parametrize("largest", [0, 1])
def test_first_of_equal_elements_comes_first(largest):
    for k, axis in itertools.product((0, 1, 2, 3, 5), (0, 1)):
        hold(f"TopK <largest = {largest}, axis = {axis}> (x, k)", "float int64", x=TIES, k=longs(k))
    for dtype in ("int8", "int32", "int64", "float64"):
        hold(
            f"TopK <largest = {largest}> (x, k)", f"{kind(dtype)} int64", x=np.array([3, 1, 3, 2, 1], dtype), k=longs(3)
        )
    hold("TopK (x, k)", "float int64", x=X[:, :0], k=longs(0))


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
def test_first_or_last_of_equal_elements_is_found(op, last):
    for axis, keep in itertools.product((0, 1), (0, 1)):
        hold(f"{op} <axis = {axis}, keepdims = {keep}, select_last_index = {last}> (x)", "int64", x=TIES)
    for dtype in ("int8", "uint8", "int32", "int64"):
        hold(f"{op} <select_last_index = {last}> (x)", "int64", x=np.array([3, 1, 3, 2, 1], dtype))


RISING = np.array(
    [[1, inf, 2, -inf, 3], [nan, 1, 2, 3, 4], [3e38, -3e38, 3e38, 1, 1], [1e-45, 1e-45, 1, -1, 0]], np.float32
)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_running_sums(exclusive, reverse):
    call = f"CumSum <exclusive = {exclusive}, reverse = {reverse}> (x, a)"
    for x in (RISING, RISING[:, :1], RISING[:, :0], RISING[:0]):
        hold(call, x=x, a=np.int64(-1))
    hold(call, x=TIES[3:], a=longs(0))
    for dtype in ("int32", "int64", "float64"):
        hold(call, kind(dtype), x=np.array([2**31 - 1, 5, 7, 2**31 - 1], dtype), a=np.int64(0))


@pytest.mark.parametrize("ends", [(5, 0, -2), (5, 0, -1), (0, 5, -1), (0, 5, 2), (0, 0, 1), (-3, 3, 2), (10, -7, -3)])
def test_ranges(ends):
    for dtype in ("int64", "int32", "int16", "float32", "float64"):
        hold(
            "Range (a, b, c)",
            kind(dtype),
            **{name: np.array(end, dtype) for name, end in zip("abc", ends, strict=True)},
        )


def test_mean_of_nothing_is_0():
    for dtype, axis in itertools.product(("float32", "float64", "int32", "int64"), (0, 1)):
        hold("ReduceMean (x, a)", kind(dtype), x=np.ones((0, 2), dtype), a=longs(axis))


# ---- bounds and choices ----------------------------------------------------------------

NUMBERS = np.array([nan, inf, -inf, -0.0, 0, 1, -1, -2, 5, 3.4e38, 1e-45], np.float32)


@pytest.mark.parametrize("low", [-1, 5, inf, -inf, -0.0, 0.0])
def test_clip_where_the_least_may_be_above_the_most(low):
    for high in (-2, 1, inf, -inf, -0.0, 0.0):
        hold("Clip (x, l, h)", x=NUMBERS, l=np.float32(low), h=np.float32(high))
    hold("Clip (x, l)", x=NUMBERS[2:], l=np.float32(low) if low < inf else np.float32(3))
    hold("Clip (x, , h)", x=np.delete(NUMBERS, 2), h=np.float32(low))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint32", "float64"])
def test_clip_of_integers(dtype):
    hold("Clip (x, l, h)", kind(dtype), x=np.array([1, 2, 3, 100], dtype), l=np.array(50, dtype), h=np.array(5, dtype))


def test_where_and_logic_with_broadcasting():
    condition, x, z = np.array([[True], [False]]), np.array([1e-45, nan, -inf], np.float32), np.float32(inf)
    hold("Where (c, x, z)", c=condition, x=x, z=z)
    for op in ("Max", "Min", "Sum", "Mean"):
        hold(f"{op} (x, z, w)", x=NUMBERS, z=np.roll(NUMBERS, 1)[:, None], w=np.float32(nan))
        hold(f"{op} (x, z)", x=NUMBERS[1:2], z=NUMBERS[5:])
        hold(f"{op} (x)", x=NUMBERS)
    for op in ("And", "Or", "Xor", "Equal"):
        hold(f"{op} (x, z)", "bool", x=np.array([[0], [1]], bool), z=np.array([0, 1], bool))
        hold(f"{op} (x, z)", "bool", x=np.ones((0, 1), bool), z=np.array([0, 1], bool))


# ---- integers --------------------------------------------------------------------------

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def pairs(dtype, of_division=False):
    """Every pair of the ends and some between; without those whose quotient ONNX leaves open."""
    ends = np.iinfo(dtype)
    few = [v for v in (-100, -7, -3, -2, -1, 0, 1, 2, 3, 7, 100) if v >= ends.min]
    x, z = (
        grid.ravel()
        for grid in np.meshgrid(*[np.array([ends.min, ends.min + 1, ends.max - 1, ends.max, *few], dtype)] * 2)
    )
    kept = (z != 0) & ~((x == ends.min) & (z.astype(float) == -1)) if of_division else z == z
    return {"x": x[kept], "z": z[kept]}


@pytest.mark.parametrize("dtype", INTEGERS[:-1])  # for uint64 see test_ops.py
def test_integers_at_their_ends(dtype):
    for op in ("Add", "Sub", "Mul", "Max", "Min", "BitwiseAnd", "BitwiseXor", "Equal", "Less", "GreaterOrEqual"):
        if op in ("Max", "Min") and dtype.endswith("16"):
            continue  # ONNX Runtime has no kernel
        hold(f"{op} (x, z)", "bool" if op in ("Equal", "Less", "GreaterOrEqual") else dtype, **pairs(dtype))
    for call in ("Div", "Mod", *(["Mod <fmod = 1>"] if dtype != "int64" else [])):
        hold(f"{call} (x, z)", dtype, **pairs(dtype, of_division=True))
    for op in ("Abs", "Sign", "BitwiseNot", *(["Neg"] if dtype.startswith("i") else [])):
        hold(f"{op} (x)", dtype, x=np.unique(pairs(dtype)["x"]))


@pytest.mark.parametrize("dtype", ["uint8", "uint32"])
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts_up_to_the_width_and_beyond(dtype, direction):
    width, x = np.iinfo(dtype).bits, np.unique(pairs(dtype)["x"])
    for count in (0, 1, width - 1, width, width + 1, 200):
        hold(f'BitShift <direction = "{direction}"> (x, z)', dtype, x=x, z=np.full(x.shape, count, dtype))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_powers_of_integers(dtype):
    x = np.array([0, 1, 2, 3, 7, -1, -2, -3], dtype)
    for exponent, other in itertools.product((0, 1, 2, 3, 5), ("int32", "int64", "float32")):
        hold("Pow (x, z)", dtype, x=x, z=np.array(exponent, other))
    hold("Pow (x, z)", dtype, x=x[1:], z=np.array([-1], dtype))


FMOD = np.array([nan, inf, -inf, 0.0, -0.0, 1e-45, -1e-45, 3e-39, 3.4e38, -3.4e38, 1, -1, 0.5, 7, -7, 1e20], np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_remainders_of_floats(dtype):
    with np.errstate(over="ignore"):
        x, z = (grid.ravel().astype(dtype) for grid in np.meshgrid(FMOD, FMOD))
    call = "r = Mod <fmod = 1> (x, z) y = Cast <to = 1> (r)" if dtype == "float16" else "y = Mod <fmod = 1> (x, z)"
    graph = typed(
        f"g ({kind(dtype)}[N] x, {kind(dtype)}[N] z) => ({'double' if dtype == 'float64' else 'float'}[N] y) {{ {call} }}"
    )
    inputs = {"x": x, "z": z}
    np.testing.assert_array_equal(TorchExecutor(graph).run(inputs)["y"], outputs(graph, inputs)["y"])


CAST = {"int8": 3, "int16": 5, "int32": 6, "int64": 7, "uint8": 2, "uint16": 4, "uint32": 12, "uint64": 13, "bool": 9}


@pytest.mark.parametrize("wanted", CAST)
def test_casts_to_integers(wanted):
    call = f"Cast <to = {CAST[wanted]}> (x)"
    for given in INTEGERS:
        ends = np.iinfo(given)
        hold(call, wanted, x=np.array([ends.min, ends.max, 0, 1, 7], given))
    for given in ("float32", "float64"):
        hold(call, wanted, x=np.array([0, -0.0, 0.5, 0.99, 1.5, 2.5, 100.9], given))
        for value in (
            nan,
            inf,
            -inf,
            3.4e38,
            300,
            -1.5,
            7e4,
            -3e9,
            1e19,
            2.0**31,
            2.0**63,
        ):  # beyond, C leaves it open, but x86 does not
            hold(call, wanted, x=np.full(3, value, given))


def test_casts_to_narrower_floats():
    half = np.array([nan, -inf, 65504, 65519, 65520, 1e-8, 6e-8, 1e-7, -0.0], np.float32)
    single = np.array([nan, 1e300, -1e300, 1e-46, 1e-45, 3.4028235e38, 3.4028236e38])
    text = "g (float[N] h, double[M] s) => (float[N] y, float[M] z) { n = Cast <to = 10> (h) y = Cast <to = 1> (n) z = Cast <to = 1> (s) }"
    graph, inputs = typed(text), {"h": half, "s": single}
    ours, theirs = TorchExecutor(graph).run(inputs), outputs(graph, inputs)
    for name in "yz":
        np.testing.assert_array_equal(ours[name], theirs[name])


# ---- resized images --------------------------------------------------------------------

IMAGE = (X[:3, :4] + np.random.default_rng(0).standard_normal((3, 4))).astype(np.float32)[None, None]


@pytest.mark.parametrize(
    "places", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"]
)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_resize_at_borders(mode, places):
    for size in ((6, 8), (1, 1), (2, 3), (5, 7), (9, 1), (1, 9)):
        for more in ("", "antialias = 1, ", *(["exclude_outside = 1, "] if mode == "cubic" else [])):
            call = f'Resize <{more}mode = "{mode}", coordinate_transformation_mode = "{places}"> (x, , , s)'
            hold(call, rtol=1e-4, atol=1e-4, x=IMAGE, s=longs(1, 1, *size))
    whole = f'Resize <mode = "{mode}", coordinate_transformation_mode = "{places}"> (x, , , s)'
    hold(whole, x=np.array([[[[inf, 1], [nan, 2]]]], np.float32), s=longs(1, 1, 2, 2))


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_resize_of_no_image(mode):
    hold(f'Resize <mode = "{mode}"> (x, , , s)', x=IMAGE[:0], s=longs(0, 1, 5, 2))
