"""The torch executor against ONNX Runtime: a corner value in one place of each operand, attributes at their ends, empty axes.

What moves elements or computes with integers is in test_executor_places.py.
"""

import itertools

import numpy as np
import pytest

from tests.running import outputs, typed
from tests.test_executor_corners import assert_same
from workbench.backends.torch.executor.executor import TorchExecutor

inf, nan = np.inf, np.nan
ENDS = np.array([nan, inf, -inf, -0.0, 1e-45, 1e-40, 3.4e38, -3.4e38, 1], np.float32)
KINDS = {"float32": "float", "float64": "double"}


def kind(dtype):
    return KINDS.get(np.dtype(dtype).name, np.dtype(dtype).name)


def graph_of(call, results="float", **inputs):
    """One call on `inputs`; `results`: the element type of each result, of which the first is `y`."""
    given = ", ".join(f"{kind(x.dtype)}[{','.join(map(str, x.shape))}] {name}" for name, x in inputs.items())
    names = dict(zip("yzu", results.split(), strict=False))
    declared = ", ".join(f"{type_} {name}" for name, type_ in names.items())
    return typed(f"g ({given}) => ({declared}) {{ {', '.join(names)} = {call} }}")


def hold(call, results="float", rtol=1e-5, atol=0.0, **inputs):
    """Every result of ours is ONNX Runtime's."""
    inputs = {name: np.asarray(x) for name, x in inputs.items()}
    graph = graph_of(call, results, **inputs)
    executor = TorchExecutor(graph)
    ours, written_out = executor.run(inputs), executor.run(inputs)
    assert executor.fallbacks == {}, call
    for name, ones in ours.items():
        np.testing.assert_array_equal(written_out[name], ones, err_msg=call)
    for name, theirs in outputs(graph, inputs).items():
        assert_same(ours[name], theirs, f"{name} = {call}", rtol, atol)


def drawn(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def placed(x, value, place):
    """A copy of `x` with `value` in one place."""
    x = x.copy()
    x[place] = value
    return x


def images(*shape, place=(0, 0, 0), ends=ENDS):
    """One image for each of `ends`, which stands in one place of it."""
    return np.stack([placed(drawn(*shape), value, place) for value in ends])


# Where ONNX leaves it open or ONNX Runtime is wrong: the call, its operands, what ours gives, and why it stands.
NUMBERS = np.array([[1, nan, 0, -inf, -inf]], np.float32)
DIFFERS = {
    "the largest beside a NaN is NaN, which ONNX Runtime keeps or loses by its place": (
        ("MaxPool <kernel_shape = [2]> (x)", {"x": NUMBERS[None]}, [[[nan, nan, 0, -inf]]]),
    ),
    "-inf is the largest of what is -inf: ONNX Runtime begins with -3.4e38": (
        ("MaxPool <kernel_shape = [2], pads = [0, 1]> (x)", {"x": NUMBERS[None, :, 3:]}, [[[-inf, -inf]]]),
    ),
    "ONNX's function body and reference let infinities pass a bound that is not given": (
        ("Clip (x, , h)", {"x": NUMBERS, "h": np.float32(0.5)}, [[0.5, nan, 0, -inf, -inf]]),
    ),
    "ONNX's function body passes a bound of NaN by, its reference makes NaN of all": (
        ("Clip (x, h, h)", {"x": NUMBERS, "h": np.float32(nan)}, [[nan] * 5]),
    ),
    "NaN is the largest, as in NumPy; ONNX Runtime's order of it depends on the length": (
        ("TopK (x, k)", {"x": NUMBERS, "k": np.array([2])}, [[nan, 1]]),
    ),
    "the larger of a number and NaN is NaN, as by Max": (
        (
            'ScatterElements <axis = 1, reduction = "max"> (x, i, u)',
            {"x": NUMBERS, "i": np.array([[1]]), "u": np.array([[7]], np.float32)},
            [[1, nan, 0, -inf, -inf]],
        ),
    ),
    "ONNX Runtime loses the sign of zero": (
        ("Where (c, x, x)", {"c": np.array([True]), "x": np.array([-0.0], np.float32)}, [-0.0]),
        (
            'Einsum <equation = "i,j->ij"> (x, x)',
            {"x": np.array([-0.0, 1], np.float32)},
            [[0.0, -0.0], [-0.0, 1.0]],
        ),
    ),
    "torch's running sum begins with 0, so that -0.0 loses its sign": (
        ("CumSum (x, a)", {"x": np.array([-0.0], np.float32), "a": np.int64(0)}, [0.0]),
    ),
    "torch sums up in float64, where 6e38 does not overflow on the way": (
        ("CumSum (x, a)", {"x": np.array([3e38, 3e38, -3e38], np.float32), "a": np.int64(0)}, [3e38, inf, 3e38]),
    ),
    "torch shifts what it has scaled, so that an infinite scale leaves NaN of a number but 0": (
        (
            "GroupNormalization <num_groups = 1> (x, s, b)",
            {
                "x": np.array([[[0], [1]]], np.float32),
                "s": np.array([inf, 1], np.float32),
                "b": np.zeros(2, np.float32),
            },
            [[[nan], [0.99998]]],
        ),
    ),
    "ONNX Runtime forgets the batch of the second operand": (
        ("MatMul (x, w)", {"x": drawn(1, 3, 0), "w": drawn(2, 0, 2)}, np.zeros((2, 3, 2))),
    ),
    "ONNX Runtime forgets beta over an empty axis": (
        (
            "Gemm <beta = -2.0> (x, w, c)",
            {"x": drawn(1, 0), "w": drawn(0, 2), "c": np.array([1, 2], np.float32)},
            [[-2, -4]],
        ),
    ),
    "in ONNX Runtime a NaN of one channel stays in the running sum for those behind it": (
        (
            "LRN <size = 1, alpha = 1e-09> (x)",
            {"x": placed(np.ones((1, 2, 1, 1), np.float32), nan, (0, 0))},
            [[[[nan]], [[1]]]],
        ),
    ),
    "integers that overflow wrap round, as in NumPy, or are exact where ONNX Runtime goes through float64": (
        ("ReduceSum (x)", {"x": np.array([2**31 - 1, 2], np.int32)}, [-(2**31) + 1]),
        ("Pow (x, x)", {"x": np.array([17], np.int64)}, [17**17 % 2**64 - 2**64 * (17**17 >> 63 & 1)]),
        ("Mod <fmod = 1> (x, w)", {"x": np.array([2**62 + 1]), "w": np.array([2**62])}, [1]),
    ),
    "ONNX Runtime copies where the shape stays, whatever the scale": (
        (
            'Resize <mode = "linear", coordinate_transformation_mode = "asymmetric"> (x, , s)',
            {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "s": np.array([1, 1.25], np.float32)},
            [[0, 0.8, 1.6], [3, 3.8, 4.6]],
        ),
    ),
    "ONNX's cases count with 0.7 * 5 = 3.5 elements, ONNX Runtime with 3, as ONNX's text may be read too": (
        (
            'Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (x, , s)',
            {"x": np.arange(10, dtype=np.float32).reshape(2, 5), "s": np.array([1, 0.7], np.float32)},
            [[0, 1.6, 3.2], [5, 6.6, 8.2]],
        ),
    ),
    "ONNX does not say whether taps of weight zero are read, which make NaN of infinities": (
        (
            'Resize <mode = "linear"> (x, , , s)',
            {"x": np.array([[[[inf, 1], [1, 1]]]], np.float32), "s": np.array([1, 1, 4, 2])},
            [[[[nan, 1], [nan, 1], [nan, 1], [1, 1]]]],
        ),
    ),
}


@pytest.mark.parametrize("why", DIFFERS)
def test_where_they_differ_ours_stays(why):
    for call, inputs, wanted in DIFFERS[why]:
        inputs = {name: np.asarray(x) for name, x in inputs.items()}
        results = {"TopK": "float int64", "ArgMax": "int64", "ArgMin": "int64"}.get(
            call.split()[0], kind(inputs["x"].dtype)
        )
        graph = graph_of(call, results, **inputs)
        ours, theirs = TorchExecutor(graph).run(inputs)["y"], outputs(graph, inputs)["y"]
        assert_same(ours, np.array(wanted, ours.dtype), call)
        with pytest.raises(AssertionError):
            assert_same(ours, theirs)


# ---- convolutions ----------------------------------------------------------------------

CONVOLUTIONS = (
    *("kernel_shape = [3, 3]", "pads = [1, 0, 2, 1]", "strides = [2, 1], pads = [1, 1, 1, 1]", "group = 2"),
    *("dilations = [2, 1], pads = [2, 1, 2, 1]", 'auto_pad = "SAME_UPPER", strides = [2, 2]'),
    *('auto_pad = "SAME_LOWER", strides = [2, 3]', 'auto_pad = "VALID"'),
)
NEAR = {"rtol": 1e-4, "atol": 1e-5}  # sums in another order


@pytest.mark.parametrize("attributes", CONVOLUTIONS)
@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
def test_convolutions(op, attributes):
    groups = 2 if "group" in attributes else 1
    channels = (8, 4 // groups) if op == "Conv" else (4, 8 // groups)
    weight, bias, call = drawn(*channels, 3, 3), drawn(8), f"{op} <{attributes}> (x, w, b)"
    for place in ((0, 0, 0), (3, 4, 5), (1, 2, 3)):
        hold(call, **NEAR, x=images(4, 5, 6, place=place), w=weight, b=bias)
    for i, value in enumerate(ENDS[:8]):
        weight[(i % channels[0], i % channels[1], 0, 2)] = value
    hold(call, **NEAR, x=drawn(1, 4, 5, 6), w=weight, b=placed(bias, nan, 7))
    hold(call, x=drawn(0, 4, 5, 6), w=weight, b=bias)


@pytest.mark.parametrize(
    "attributes",
    [
        "output_padding = [1, 0], strides = [2, 2]",
        "output_shape = [11, 12], strides = [2, 2]",
        'output_shape = [9, 13], strides = [2, 2], auto_pad = "SAME_UPPER"',
        "pads = [0, 1, 1, 0], output_padding = [1, 1], strides = [2, 2], dilations = [2, 2]",
    ],
)
def test_transposed_convolutions_of_a_given_size(attributes):
    x = images(4, 5, 6)
    hold(f"ConvTranspose <{attributes}> (x, w, b)", **NEAR, x=x, w=drawn(4, 2, 3, 3), b=drawn(2))


# ---- products --------------------------------------------------------------------------

OPERANDS = (
    *(((3, 4), (4, 5)), ((4,), (4,)), ((4,), (4, 5)), ((3, 4), (4,)), ((2, 3, 4), (4, 5)), ((1, 4), (4, 1))),
    *(((2, 1, 3, 4), (1, 5, 4, 2)), ((3, 4), (2, 4, 5)), ((4,), (2, 4, 5)), ((2, 3, 4), (4,)), ((16, 32), (32, 16))),
)
EMPTY = (
    *(((3, 0), (0, 5)), ((0, 4), (4, 5)), ((3, 4), (4, 0)), ((0,), (0,)), ((2, 3, 0), (0, 5)), ((0,), (0, 4))),
    *(((0, 3, 4), (4, 5)), ((2, 3, 0), (2, 0, 4)), ((2, 0, 4), (4, 3))),
)


@pytest.mark.parametrize("shapes", OPERANDS, ids=str)
def test_matrix_products(shapes):
    a, b = (drawn(*shape) for shape in shapes)
    for value in ENDS:
        hold("MatMul (a, b)", **NEAR, a=placed(a, value, (0,) * a.ndim), b=b)
        hold("MatMul (a, b)", **NEAR, a=a, b=placed(b, value, (-1,) * b.ndim))


@pytest.mark.parametrize("shapes", EMPTY, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_matrix_products_of_nothing(shapes, dtype):
    a, b = (np.ones(shape, dtype) for shape in shapes)
    hold("MatMul (a, b)", kind(dtype), a=a, b=b)


@pytest.mark.parametrize(("alpha", "beta"), list(itertools.product([0.0, 1.0, 0.5], [0.0, 1.0, -2.0])))
def test_gemm(alpha, beta):
    operands = {"a": drawn(3, 4), "b": drawn(4, 5), "c": drawn(5)}
    call = f"Gemm <alpha = {alpha}, beta = {beta}> (a, b, c)"
    for name, value in itertools.product(operands, (nan, inf, -inf, 1e-40)):
        x = operands[name]
        hold(call, **NEAR, **{**operands, name: placed(x, value, (0,) * x.ndim)})
    hold(call.replace(", c)", ")"), **NEAR, a=placed(operands["a"], inf, (0, 0)), b=operands["b"])
    hold(call, a=drawn(0, 4), b=operands["b"], c=operands["c"])


@pytest.mark.parametrize("shape", [(), (1,), (5,), (1, 5), (3, 1), (3, 5)])
def test_gemm_adds_any_shape_that_fits(shape):
    hold("Gemm <transA = 1, transB = 1> (a, b, c)", **NEAR, a=drawn(4, 3), b=drawn(5, 4), c=drawn(*shape))
    hold("Gemm <transB = 1> (a, b, c)", a=drawn(3, 0), b=drawn(5, 0), c=drawn(*shape))


EQUATIONS = {  # with the shapes of their operands
    **dict.fromkeys(("ij,jk->ik", "ij,jk", " i j , j k -> i k"), "34,45"),
    **dict.fromkeys(("ii->i", "ii"), "44"),
    **dict.fromkeys(("ij->ji", "ij->", "...->...", "i...->..."), "34"),
    "i,i->": "3,3",
    "ij,ij->i": "34,34",
    "iij->ij": "332",
    "ij->j": "03",
    "bij,bjk->bik": "234,245",
    "ij,jk,kl->il": "23,34,42",
    "b...,b->b...": "234,2",
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(equation, dtype):
    operands = {
        n: (drawn(*map(int, s)) * 9).astype(dtype) for n, s in zip("abc", EQUATIONS[equation].split(","), strict=False)
    }
    call = f'Einsum <equation = "{equation}"> ({", ".join(operands)})'
    hold(call, kind(dtype), **NEAR, **operands)
    if dtype == "float32" and operands["a"].size:
        for value in (nan, inf):
            hold(call, **NEAR, **{**operands, "a": placed(operands["a"], value, (0,) * operands["a"].ndim)})


# ---- normalizations --------------------------------------------------------------------

SMALL = ENDS[:6]  # squares of larger numbers overflow on the way, in each runtime elsewhere
ROWS = np.stack([*(placed(drawn(6), value, 0) for value in SMALL), *(np.full(6, v, np.float32) for v in (3, 0, -7))])
# A constant is what is left when x * scale less mean * scale is rounded, and the scale is 1 / sqrt(epsilon).
NORMAL = {"rtol": 1e-4, "atol": 1e-4}


@pytest.mark.parametrize("epsilon", [1e-5, 0.0])
@pytest.mark.parametrize(
    ("call", "shape"),
    [
        ("LayerNormalization <epsilon = {}> (x, s, b)", (9, 6)),
        ("LayerNormalization <epsilon = {}> (x, s)", (9, 6)),
        ("RMSNormalization <epsilon = {}> (x, s)", (9, 6)),
        ("InstanceNormalization <epsilon = {}> (x, s, b)", (3, 6, 3)),
        *((f"GroupNormalization <num_groups = {n}, epsilon = {{}}> (x, s, b)", (9, 6, 1, 1)) for n in (1, 2, 6)),
    ],
)
def test_normalizations_of_rows_with_a_corner_value(call, shape, epsilon):
    operands = {"x": ROWS.reshape(shape), "s": np.abs(drawn(6)) + 1, "b": drawn(6)}
    operands = {name: x for name, x in operands.items() if name in call[call.index("> (") :]}
    hold(call.format(epsilon), **NORMAL, **operands)
    hold(call.format(epsilon), **NORMAL, **{**operands, "s": placed(operands["s"], nan, 0)})


@pytest.mark.parametrize("operand", ["x", "s", "b", "m", "v"])
@pytest.mark.parametrize("training", [0, 1])
def test_batch_normalization(operand, training):
    operands = {"x": drawn(2, 3, 4), "s": drawn(3), "b": drawn(3) + 1, "m": drawn(3), "v": np.abs(drawn(3))}
    call, results = (
        f"BatchNormalization <training_mode = {training}> (x, s, b, m, v)",
        "float float float" if training else "float",
    )
    for value in (*SMALL, 0, 3.4e38, -1):
        if operand in ("x", "s") and value == ENDS[6]:
            continue  # what it is multiplied with overflows on the way
        x = operands[operand]
        hold(call, results, **NORMAL, **{**operands, operand: placed(x, value, (0,) * x.ndim)})


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [0, 1])
def test_norms_of_length_one(p, axis):
    hold(f"LpNormalization <p = {p}, axis = {axis}> (x)", **NORMAL, x=ROWS)
    hold(f"LpNormalization <p = {p}> (x)", x=drawn(3, 0))


@pytest.mark.parametrize("shape", [(0, 4, 3), (2, 4, 0), (2, 0, 3)])
def test_normalizations_of_nothing(shape):
    one = {name: np.ones(shape[1], np.float32) for name in "sbmv"}
    hold("InstanceNormalization (x, s, b)", x=drawn(*shape), s=one["s"], b=one["b"])
    hold("BatchNormalization (x, s, b, m, v)", x=drawn(*shape), **one)
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        hold(f"{op} (x)", x=drawn(*shape))


# ---- pools -----------------------------------------------------------------------------

POOLS = (
    *(
        "kernel_shape = [3, 3]",
        "kernel_shape = [3, 3], pads = [1, 1, 1, 1]",
        "kernel_shape = [3, 3], pads = [0, 1, 2, 1]",
    ),
    *("kernel_shape = [2, 3], strides = [2, 2]", "kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1"),
    *(
        "kernel_shape = [3, 3], strides = [3, 3], ceil_mode = 1, pads = [1, 1, 1, 1]",
        "kernel_shape = [3, 3], pads = [2, 2, 2, 2]",
    ),
    *(
        "kernel_shape = [2, 2], strides = [3, 3], ceil_mode = 1, pads = [1, 0, 1, 1]",
        "kernel_shape = [1, 1], strides = [2, 2]",
    ),
    *(
        'kernel_shape = [3, 3], strides = [2, 2], auto_pad = "SAME_UPPER"',
        'kernel_shape = [2, 2], auto_pad = "SAME_LOWER"',
    ),
    *(
        "kernel_shape = [2, 2], dilations = [2, 3]",
        "kernel_shape = [2, 2], dilations = [2, 3], pads = [1, 1, 1, 1], strides = [2, 2]",
    ),
)


@pytest.mark.parametrize("attributes", POOLS)
@pytest.mark.parametrize("size", [(5, 6), (7, 7)])
def test_pools(attributes, size):
    for place in ((0, 0, 0), (1, size[0] - 1, size[1] - 1), (0, 2, 3)):
        x = images(2, *size, place=place)
        for call in (
            f"LpPool <{attributes}> (x)",
            *(f"AveragePool <{attributes}, count_include_pad = {n}> (x)" for n in (0, 1)),
        ):
            hold(call, rtol=1e-4, atol=1e-6, x=x)
        numbers = x[1:] if place == (0, 2, 3) else x[3:]  # of NaN, and of -inf beside a padding, see DIFFERS
        hold(f"MaxPool <{attributes}> (x)", x=numbers)
        for order in (0, 1):
            hold(f"MaxPool <{attributes}, storage_order = {order}> (x)", "float int64", x=numbers)
            hold(f"MaxPool <{attributes}, storage_order = {order}> (x)", "float int64", x=np.zeros_like(numbers))
    for dtype in ("int8", "uint8"):
        hold(f"MaxPool <{attributes}> (x)", dtype, x=(drawn(1, 2, *size) * 50).astype(np.int8).astype(dtype))


@pytest.mark.parametrize("attributes", POOLS)
def test_places_of_the_largest_lie_in_the_image_where_all_is_as_small_as_what_is_padded(attributes):
    x = np.full((1, 1, 5, 6), -inf, np.float32)
    graph = graph_of(f"MaxPool <{attributes}> (x)", "float int64", x=x)
    np.testing.assert_array_equal(TorchExecutor(graph).run({"x": x})["z"], outputs(graph, {"x": x})["z"])


@pytest.mark.parametrize("op", ["GlobalMaxPool", "GlobalAveragePool"])
def test_pools_of_whole_images(op):
    hold(f"{op} (x)", atol=1e-6, x=images(2, 3, 4)[op == "GlobalMaxPool" :])
    hold(f"{op} (x)", x=drawn(0, 2, 3, 4))
