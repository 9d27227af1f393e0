"""Contracts on attributes and operands that ONNX's own cases (test_conformance.py) leave out."""

import itertools

import numpy as np
import pytest
from onnx.reference.ops.op_attention import _compute_attention

from tests.running import outputs, typed
from workbench.backends.torch.executor.executor import TorchExecutor
from workbench.errors import UserError
from workbench.ir import from_text


def native(graph, inputs):
    """What torch alone computes."""
    executor = TorchExecutor(graph)
    results = executor.run({name: np.asarray(value) for name, value in inputs.items()})
    assert executor.fallbacks == {}
    return results


def drawn(*seed):
    return np.random.default_rng(seed)


def floats(random, *shape):
    return random.standard_normal(shape).astype(np.float32)


def assert_as_onnxruntime(text, inputs, tolerance=0.0):
    graph = typed(text)
    inputs = {name: np.asarray(value) for name, value in inputs.items()}
    ours, wanted = native(graph, inputs), outputs(graph, inputs)
    for name, expected in wanted.items():
        assert ours[name].shape == expected.shape
        np.testing.assert_allclose(ours[name].astype(np.float64), expected.astype(np.float64), tolerance, tolerance)


# ---- integers: exact, halves to even ----------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
@pytest.mark.parametrize("scale", [0.5, 1.0, 0.1, 0.037])
def test_quantize_linear_rounds_halves_to_even(seed, dtype, scale):
    random = drawn(seed, 1)
    limits = np.iinfo(dtype)
    x = np.round(random.standard_normal((4, 32)) * 20) / 2 * 0.5  # many quotients end in a half
    text = f"g (float[4,32] x, float s, {dtype} z) => ({dtype}[4,32] y) {{ y = QuantizeLinear (x, s, z) }}"
    zero = random.integers(limits.min, limits.max, (), dtype, endpoint=True)
    assert_as_onnxruntime(text, {"x": x.astype(np.float32), "s": np.float32(scale), "z": zero})


def test_quantize_linear_of_float16_reaches_every_zero_point():
    text = "g (float16[2] x, float16 s, uint16 z) => (uint16[2] y) { y = QuantizeLinear (x, s, z) }"
    x, scale = np.array([1001, -3], np.float16), np.array(1, np.float16)
    assert native(typed(text), {"x": x, "s": scale, "z": np.uint16(32768)})["y"].tolist() == [33769, 32765]


def test_dequantize_linear_of_float16_multiplies_integers_that_float16_has_not():
    text = "g (int32[2] x, float16 s) => (float16[2] y) { y = DequantizeLinear (x, s) }"
    x = np.array([70_001, -200_000], np.int32)
    assert_as_onnxruntime(text, {"x": x, "s": np.float16(0.01)})


@pytest.mark.parametrize("seed", range(8))
def test_dynamic_quantize_linear(seed):
    text = "g (float[4,32] x) => (uint8[4,32] y, float s, uint8 z) { y, s, z = DynamicQuantizeLinear (x) }"
    assert_as_onnxruntime(text, {"x": floats(drawn(seed, 2), 4, 32) * 10 + seed - 4})


def eight_bits(random, *shape, dtype=np.uint8, largest=255):
    return random.integers(-largest - 1 if dtype == np.int8 else 0, largest, shape, dtype, endpoint=True)


def test_integer_products_are_exact():
    """ONNX Runtime is no witness here: without VNNI it cuts sums of two products of uint8 and int8 off at 16 bits."""
    random = drawn(3)
    a, b = eight_bits(random, 5, 40), eight_bits(random, 40, 7, dtype=np.int8, largest=127)
    text = "g (uint8[5,40] a, int8[40,7] b, uint8 z) => (int32[5,7] y) { y = MatMulInteger (a, b, z) }"
    ours = native(typed(text), {"a": a, "b": b, "z": np.uint8(100)})["y"]
    np.testing.assert_array_equal(ours, (a.astype(np.int64) - 100) @ b.astype(np.int64))


@pytest.mark.parametrize("seed", range(8))
def test_quantized_matmul(seed):
    random = drawn(seed, 4)
    text = """g (uint8[5,40] a, float sa, uint8 za, int8[40,7] b, float sb, int8 zb, float sy, uint8 zy) => (uint8[5,7] y) {
        y = QLinearMatMul (a, sa, za, b, sb, zb, sy, zy)
    }"""
    scales = (random.random(3) * 0.05 + 0.001).astype(np.float32)
    values = {
        "a": eight_bits(random, 5, 40),
        "b": eight_bits(random, 40, 7, dtype=np.int8, largest=60),
        "za": eight_bits(random),
        "zb": np.int8(0),
        "zy": eight_bits(random),
        "sa": scales[0],
        "sb": scales[1],
        "sy": scales[2] * np.float32(40),
    }
    assert_as_onnxruntime(text, values)


@pytest.mark.parametrize("seed", range(8))
def test_quantized_convolution(seed):
    random = drawn(seed, 5)
    text = """g (uint8[2,4,9,9] x, float sx, uint8 zx, int8[6,2,3,3] w, float[6] sw, int8[6] zw, float sy, uint8 zy,
                 int32[6] b) => (uint8[2,6,5,5] y) {
        y = QLinearConv <group = 2, pads = [1, 1, 1, 1], strides = [2, 2]> (x, sx, zx, w, sw, zw, sy, zy, b)
    }"""
    values = {
        "x": eight_bits(random, 2, 4, 9, 9),
        "sx": np.float32(0.02),
        "zx": eight_bits(random),
        "w": eight_bits(random, 6, 2, 3, 3, dtype=np.int8, largest=60),
        "sw": (random.random(6) * 0.05 + 0.001).astype(np.float32),
        "zw": np.zeros(6, np.int8),
        "sy": np.float32(random.random() + 0.05),
        "zy": eight_bits(random),
        "b": random.integers(-500, 500, 6, np.int32),
    }
    assert_as_onnxruntime(text, values)


# ---- attention --------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize(("left", "right"), [(-1, -1), (2, -1), (-1, 1), (1, 2), (0, 0)])
@pytest.mark.parametrize("cache", ["none", "past", "filled"])
@pytest.mark.parametrize("masked", ["none", "bool", "float"])
def test_attention_with_windows_masks_and_caches(causal, left, right, cache, masked):
    random = drawn(causal, left + 1, right + 1, len(cache), len(masked))
    q, k, v = floats(random, 2, 4, 3, 8), floats(random, 2, 2, 5, 8), floats(random, 2, 2, 5, 6)
    options = {"is_causal": causal, "left_window_size": left, "right_window_size": right, "softcap": 2.0}
    values, named = {"q": q, "k": k, "v": v}, {}
    if masked != "none":
        mask = random.random((2, 1, 3, 7 if cache == "past" else 5)) > 0.3
        values["m"] = named["attn_mask"] = mask if masked == "bool" else mask.astype(np.float32)
    if cache == "past":
        values["pk"], values["pv"] = floats(random, 2, 2, 2, 8), floats(random, 2, 2, 2, 6)
        named |= {"past_key": values["pk"], "past_value": values["pv"]}
    if cache == "filled":
        values["n"] = named["nonpad_kv_seqlen"] = np.array([5, 3])
    kinds = {"m": "bool" if masked == "bool" else "float", "n": "int64"}
    inputs = ", ".join(f"{kinds.get(n, 'float')}[{','.join(map(str, x.shape))}] {n}" for n, x in values.items())
    operands = ", ".join(n if n in values else "" for n in ("q", "k", "v", "m", "pk", "pv", "n"))
    attributes = ", ".join(f"{name} = {value}" for name, value in options.items())
    text = f'<ir_version: 10, opset_import: ["": 25]> g ({inputs}) => (float[2,4,3,6] y) {{ y = Attention <{attributes}> ({operands}) }}'
    wanted = _compute_attention(q, k, v, **named, **options)[0]
    np.testing.assert_allclose(native(from_text(text), values)["y"], wanted, 1e-4, 1e-5)


# ---- convolution ------------------------------------------------------------------------------


@pytest.mark.parametrize("masked", ["", ", b, m"])
@pytest.mark.parametrize(("group", "parts"), [(1, 1), (2, 1), (1, 2), (2, 4)])
def test_deformed_convolution(group, parts, masked):
    random = drawn(group, parts)
    text = f"""g (float[2,4,7,6] x, float[6,{4 // group},3,2] w, float[2,{parts * 12},3,6] o, float[6] b,
                 float[2,{parts * 6},3,6] m) => (float[2,6,3,6] y) {{
        y = DeformConv <group = {group}, offset_group = {parts}, pads = [1, 0, 0, 1], strides = [2, 1], dilations = [1, 1]> (
            x, w, o{masked})
    }}"""
    values = {"x": floats(random, 2, 4, 7, 6), "w": floats(random, 6, 4 // group, 3, 2), "b": floats(random, 6)}
    values |= {"o": floats(random, 2, parts * 12, 3, 6) * 2, "m": floats(random, 2, parts * 6, 3, 6)}
    assert_as_onnxruntime(text, values, 1e-4)


# ---- boxes, sets, signals -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_non_max_suppression_with_equal_scores_and_thresholds(seed):
    random = drawn(seed, 6)
    count = int(random.integers(1, 30))
    text = f"""g (float[2,{count},4] b, float[2,3,{count}] s, int64 m, float i, float t) => (int64[N,3] y) {{
        y = NonMaxSuppression <center_point_box = {seed % 2}> (b, s, m, i, t)
    }}"""
    values = {
        "b": random.random((2, count, 4)).astype(np.float32),
        "s": (np.round(random.random((2, 3, count)) * 8) / 8).astype(np.float32),
        "m": random.integers(0, 12),
        "i": np.float32(random.choice([0, 0.3, 0.5, 1])),
        "t": np.float32(random.choice([0, 0.25, 0.5])),
    }
    assert_as_onnxruntime(text, values)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("ratio", [0, 1, 2])
@pytest.mark.parametrize("places", ["half_pixel", "output_half_pixel"])
def test_roi_align(mode, ratio, places):
    random = drawn(ratio, len(mode), len(places))
    text = f"""<ir_version: 10, opset_import: ["": 21]>
    g (float[2,3,9,7] x, float[5,4] b, int64[5] i) => (float[5,3,3,2] y) {{
        y = RoiAlign <mode = "{mode}", sampling_ratio = {ratio}, output_height = 3, output_width = 2, spatial_scale = 0.7,
                      coordinate_transformation_mode = "{places}"> (x, b, i)
    }}"""
    corner = random.random((5, 2)) * 14 - 2
    boxes = np.concatenate([corner, corner + random.random((5, 2)) * 12 + 0.1], 1).astype(np.float32)
    assert_as_onnxruntime(text, {"x": floats(random, 2, 3, 9, 7), "b": boxes, "i": random.integers(0, 2, 5)}, 1e-5)


@pytest.mark.parametrize("ordered", [0, 1])
@pytest.mark.parametrize("axis", ["", "axis = 0, ", "axis = -1, "])
def test_unique(axis, ordered):
    text = f"""g (float[5,4] x) => (float y, int64 first, int64 which, int64 count) {{
        y, first, which, count = Unique <{axis}sorted = {ordered}> (x)
    }}"""
    for seed in range(6):
        assert_as_onnxruntime(text, {"x": drawn(seed, 7).integers(0, 2, (5, 4)).astype(np.float32)})


@pytest.mark.parametrize("axis", [1, 2, -2])
@pytest.mark.parametrize("attributes", ["", "inverse = 1", "onesided = 1"])
@pytest.mark.parametrize("length", [4, 9])
def test_transform_along_any_axis_cut_or_filled_up(axis, attributes, length):
    parts = 1 if "onesided" in attributes else 2
    text = f"""g (float[2,6,5,{parts}] x, int64 n, int64 a) => (float[?,?,?,2] y) {{
        y = DFT {f"<{attributes}>" if attributes else ""} (x, n, a)
    }}"""
    values = {"x": floats(drawn(axis + 2, length), 2, 6, 5, parts), "n": np.int64(length), "a": np.int64(axis)}
    assert_as_onnxruntime(text, values, 1e-4)


@pytest.mark.parametrize("ignored", ["", "ignore_index = 1, "])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weights", [", w", ""])
def test_cross_entropy(ignored, reduction, weights):
    text = f"""g (float[3,4,2,2] x, int64[3,2,2] t, float[4] w) => (float y, float p) {{
        y, p = SoftmaxCrossEntropyLoss <{ignored}reduction = "{reduction}"> (x, t{weights})
    }}"""
    random = drawn(len(reduction), len(weights))
    values = {
        "x": floats(random, 3, 4, 2, 2),
        "t": random.integers(0, 4, (3, 2, 2)),
        "w": np.abs(floats(random, 4)) + 1,
    }
    assert_as_onnxruntime(text, values, 1e-5)


def test_windows_have_the_type_that_is_asked_for():
    text = "g (int64 n) => (double[9] y) { y = BlackmanWindow <periodic = 0, output_datatype = 11> (n) }"
    ours = native(from_text(text), {"n": np.int64(9)})["y"]
    assert ours.dtype == np.float64
    np.testing.assert_allclose(ours, np.blackman(9), atol=1e-15)


def test_range_of_doubles_is_computed_in_doubles():
    text = "g (double a, double b, double c) => (double[N] y) { y = Range (a, b, c) }"
    ours = native(from_text(text), {"a": np.float64(0.1), "b": np.float64(1), "c": np.float64(0.1)})["y"]
    np.testing.assert_allclose(ours, 0.1 + 0.1 * np.arange(9), rtol=1e-15)


# ---- narrow floats ------------------------------------------------------------------------------


def test_cast_to_four_bits_takes_the_nearest_and_the_even_one():
    text = '<ir_version: 13, opset_import: ["": 25]> g (float[9] x) => (float4e2m1[9] y) { y = Cast <to = 23> (x) }'
    x = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 100, -0.8], np.float32)
    assert native(from_text(text), {"x": x})["y"].tolist() == [0, 1, 1, 2, 2, 4, 4, 6, -1]


@pytest.mark.parametrize(
    ("mode", "wanted"), [("up", [1, 2, 4, 2.0**127]), ("down", [1, 1, 2, 2.0**127]), ("nearest", [1, 2, 2, 2.0**127])]
)
def test_cast_to_powers_of_two(mode, wanted):
    text = f"""<ir_version: 13, opset_import: ["": 25]> g (float[4] x) => (float[4] y) {{
        p = Cast <to = 24, round_mode = "{mode}"> (x)
        y = Cast <to = 1> (p)
    }}"""
    x = np.array([1, 1.5, 2.9, 3e38], np.float32)
    assert native(from_text(text), {"x": x})["y"].tolist() == wanted


@pytest.mark.parametrize("dtype", ["float", "double", "uint8", "uint16", "int32", "int64"])
def test_cast_to_eight_bits_without_saturation(dtype):
    """448 is the largest number; 464, half-way to the next, is the last that rounds to it."""
    text = f"g ({dtype}[N] x) => (float8e4m3fn[N] y) {{ y = Cast <to = 17, saturate = 0> (x) }}"
    kind = {"float": np.float32, "double": np.float64}.get(dtype, dtype)
    x, wanted = np.array([0, 3, 255, 448, 464, 465, 60000]), [0, 3, 256, 448, 448, np.nan, np.nan]
    count = 3 if dtype == "uint8" else 7
    np.testing.assert_array_equal(native(from_text(text), {"x": x[:count].astype(kind)})["y"], wanted[:count])


# ---- element types --------------------------------------------------------------------------------


def test_bit_cast_to_another_width_is_refused():
    graph = from_text('<opset_import: ["": 26]> g (int16[2] x) => (int32[2] y) { y = BitCast <to = 6> (x) }')
    with pytest.raises(UserError, match="BitCast needs elements of equal width, not of 16 and 32 bits"):
        TorchExecutor(graph).run({"x": np.array([1, 2], np.int16)})


LARGE = np.array([2**63 + 5, 3, 2**64 - 1, 7], np.uint64)


@pytest.mark.parametrize(
    "op", ["Max", "Min", "Div", "Mod", "Less", "GreaterOrEqual", "Clip", 'BitShift <direction = "RIGHT">']
)
def test_numbers_of_uint64_that_torch_cannot_compute_with_are_left_to_onnxruntime(op):
    result = "bool" if op in ("Less", "GreaterOrEqual") else "uint64"
    y = "uint64 y" if op == "Clip" else "uint64[N] y"
    graph = typed(f"g (uint64[N] x, {y}) => ({result}[N] z) {{ z = {op} (x, y) }}")
    executor = TorchExecutor(graph)
    for x in (LARGE[1::2], LARGE):
        values = {"x": x, "y": np.array(2 if op == "Clip" else [2, 1, 9, 3][: len(x)], np.uint64)}
        np.testing.assert_array_equal(executor.run(values)["z"], outputs(graph, values)["z"])
        assert len(executor.fallbacks) == (x is LARGE)
    assert set(executor.fallbacks.values()) == {"torch cannot compute with uint64 numbers of 2^63 or more"}


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Equal", "BitwiseXor"])
def test_low_bits_of_uint64_are_right(op):
    result = "bool" if op == "Equal" else "uint64"
    text = f"g (uint64[4] x, uint64[4] y) => ({result}[4] z) {{ z = {op} (x, y) }}"
    y = np.array([2, 2**63, 2**64 - 1, 9], np.uint64)
    graph = typed(text)
    np.testing.assert_array_equal(native(graph, {"x": LARGE, "y": y})["z"], outputs(graph, {"x": LARGE, "y": y})["z"])


def test_fallback_reads_uint64_of_onnxruntime():
    text = "g (uint64[3] x, int64[2] i, uint64[2] u) => (uint64[3] y) { y = ScatterElements (x, i, u) }"
    values = {"x": LARGE[:3], "i": np.array([0, 2]), "u": LARGE[1:3]}
    executor = TorchExecutor(from_text(text))
    np.testing.assert_array_equal(executor.run(values)["y"], [3, 3, 2**64 - 1])
    assert list(executor.fallbacks) == ["ScatterElements"]


@pytest.mark.parametrize("training", [0, 1])
@pytest.mark.parametrize("types", list(itertools.product(["float", "float16"], repeat=3)))
def test_batch_normalization_of_mixed_types(types, training):
    image, scales, statistics = types
    more, names = (f", {statistics} m, {statistics} v", ", m, v") if training else ("", "")
    text = f"""g ({image}[2,3,4,5] x, {scales}[3] s, {scales}[3] b, {statistics}[3] a, {statistics}[3] d) => ({image} y{more}) {{
        y{names} = BatchNormalization <training_mode = {training}> (x, s, b, a, d)
    }}"""
    random, kinds = drawn(8), {"float": np.float32, "float16": np.float16}
    values = {"x": floats(random, 2, 3, 4, 5).astype(kinds[image])}
    values |= {name: np.abs(floats(random, 3) + 2).astype(kinds[scales]) for name in "sb"}
    values |= {name: np.abs(floats(random, 3) + 2).astype(kinds[statistics]) for name in "ad"}
    assert_as_onnxruntime(text, values, 5e-3)


def test_grid_of_another_type_than_the_image():
    text = "g (float16[1,2,4,4] x, float[1,3,3,2] grid) => (float16[1,2,3,3] y) { y = GridSample (x, grid) }"
    random = drawn(9)
    x, grid = floats(random, 1, 2, 4, 4).astype(np.float16), floats(random, 1, 3, 3, 2) / 2
    wide = native(from_text(text.replace("float16", "float")), {"x": x.astype(np.float32), "grid": grid})["y"]
    np.testing.assert_allclose(native(from_text(text), {"x": x, "grid": grid})["y"], wide, rtol=1e-3, atol=1e-3)


def test_statistics_of_a_layer_normalization_have_the_type_of_its_stash():
    text = "g (double[2,5] x, double[5] s) => (double[2,5] y, float[2,1] m, float[2,1] i) { y, m, i = LayerNormalization (x, s) }"
    ours = native(from_text(text), {"x": drawn(10).random((2, 5)), "s": np.ones(5)})
    assert [ours[name].dtype for name in "ymi"] == [np.float64, np.float32, np.float32]


def test_group_normalization_is_computed_in_the_type_of_its_stash():
    """The spread of numbers near 1e6 that differ by hundredths of a unit needs more than float32 has."""
    text = "g (float[1,2,64] x, float[2] s, float[2] b) => (float[1,2,64] y) { y = GroupNormalization <num_groups = 1, stash_type = 11> (x, s, b) }"
    x = (1e6 + drawn(14).integers(0, 3, (1, 2, 64)) / 16).astype(np.float32)
    ours = native(from_text(text), {"x": x, "s": np.ones(2, np.float32), "b": np.zeros(2, np.float32)})["y"]
    wide = x.astype(np.float64)
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, (wide - wide.mean()) / np.sqrt(wide.var() + 1e-5), rtol=1e-5)


def test_mean_variance_normalization_of_equal_numbers_is_no_nan():
    """The mean of the squares less the square of the mean may come out below zero."""
    text = "g (float[1,1,1,7] x) => (float[1,1,1,7] y) { y = MeanVarianceNormalization <axes = [3]> (x) }"
    ours = native(from_text(text), {"x": np.full((1, 1, 1, 7), 123.456, np.float32)})["y"]
    assert not np.isnan(ours).any()


def test_resized_integers_are_rounded_and_kept_in_range():
    """As ONNX's reference does; ONNX Runtime cuts them towards zero."""
    text = """g (uint8[1,1,1,4] x) => (uint8[1,1,1,8] y) <float[4] s = {1, 1, 1, 2}> {
        y = Resize <mode = "cubic"> (x, , s)
    }"""
    x = np.array([0, 255, 255, 0], np.uint8)
    wide = native(from_text(text.replace("uint8", "float")), {"x": x.reshape(1, 1, 1, 4).astype(np.float32)})["y"]
    assert wide.min() < 0 and wide.max() > 255
    ours = native(from_text(text), {"x": x.reshape(1, 1, 1, 4)})["y"]
    np.testing.assert_array_equal(ours, np.round(wide).clip(0, 255))
