"""Random calls of ONNX Runtime's own operators, in the table of `tests/test_ort_operators.py`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.carrying import Case, Draw, Fixed
from workbench.backends.onnxruntime.eight_bit_sums import in_7_bits, saturates_here

NATIVE: dict[str, Callable[[Draw], Case]] = {}
FALLING_BACK: dict[str, Callable[[Draw], Case]] = {}


def own(*operators: str, into: dict[str, Callable[[Draw], Case]] = NATIVE) -> Callable:
    def enter(make: Callable[[Draw], Case]) -> Callable[[Draw], Case]:
        into.update((f"com.microsoft.{op}", make) for op in operators)
        return make

    return enter


def _scale(number: float) -> Fixed:
    return Fixed(np.array(number, np.float32))


def _zero(number: int, dtype: type) -> Fixed:
    return Fixed(np.array(number, dtype))


def _whole(draw: Draw, *shape: int, dtype: type = np.uint8) -> np.ndarray:
    limits = np.iinfo(dtype)
    return draw.integers(limits.min, limits.max + 1, *shape, dtype=dtype)


def _weights(draw: Draw, *shape: int) -> Fixed:
    """int8 within the bits with which sums of products are exact on this CPU."""
    weights = {"w": _whole(draw, *shape, dtype=np.int8)}
    return Fixed((in_7_bits(weights) if saturates_here() else weights)["w"])


@own("Gelu")
def gelu(draw: Draw) -> Case:
    return Case([3 * draw.normal(*draw.dims())])


@own("QuickGelu")
def quick_gelu(draw: Draw) -> Case:
    return Case([3 * draw.normal(*draw.dims())], draw.one_of({}, {"alpha": 1.0}))


@own("BiasGelu")
def bias_gelu(draw: Draw) -> Case:
    dims = draw.dims(2, 4)
    return Case([3 * draw.normal(*dims), draw.normal(dims[-1])])


@own("FastGelu")
def fast_gelu(draw: Draw) -> Case:
    dims = draw.dims(2, 4)
    return Case([3 * draw.normal(*dims), *draw.one_of([], [draw.normal(dims[-1])])])


_ACTIVATIONS = (
    {},
    {"activation": "Relu"},
    {"activation": "Tanh"},
    {"activation": "Sigmoid"},
)


@own("FusedConv")
def fused_conv(draw: Draw) -> Case:
    attributes = draw.one_of(
        *_ACTIVATIONS,
        {"activation": "LeakyRelu", "activation_params": [0.2]},
        {"activation": "Clip", "activation_params": [-0.5, 0.75]},
        {"activation": "HardSigmoid", "activation_params": [0.2, 0.4]},
    )
    operands = [draw.normal(2, 4, 5, 6), draw.normal(6, 2, 3, 3)]
    rest = draw.one_of([], [draw.normal(6)], [draw.normal(6), draw.normal(2, 6, 5, 6)])
    return Case([*operands, *rest], {**attributes, "group": 2, "pads": [1, 1, 1, 1]})


@own("FusedGemm")
def fused_gemm(draw: Draw) -> Case:
    across, down = draw.one_of(0, 1), draw.one_of(0, 1)
    a, b = draw.normal(*((4, 3) if across else (3, 4))), draw.normal(*((5, 4) if down else (4, 5)))
    parameters = {"activation": "LeakyRelu", "activation_alpha": 0.2}
    attributes = draw.one_of(*_ACTIVATIONS[1:], parameters)
    return Case([a, b, draw.normal(5)], {**attributes, "transA": across, "transB": down, "alpha": 0.5})


@own("FusedMatMul", "TransposeMatMul")
def fused_matmul(draw: Draw) -> Case:
    across, down = draw.one_of(0, 1), draw.one_of(0, 1)
    a, b = (4, 3) if across else (3, 4), (5, 4) if down else (4, 5)
    batch = draw.one_of(((), ()), ((2,), (2,)), ((2, 3), (1, 3)), ((2,), ()))
    operands = [draw.normal(*batch[0], *a), draw.normal(*batch[1], *b)]
    return Case(operands, {"transA": across, "transB": down, "alpha": draw.one_of(1.0, 0.25)})


@own("SkipLayerNormalization")
def skip_layer_normalization(draw: Draw) -> Case:
    rest = draw.one_of([], [draw.normal(8)], [draw.normal(8), draw.normal(8)])
    return Case([draw.normal(2, 3, 8), draw.normal(2, 3, 8), draw.normal(8), *rest], {"epsilon": 1e-5})


@own("SkipSimplifiedLayerNormalization")
def skip_simplified(draw: Draw) -> Case:
    rest = draw.one_of([], [draw.normal(8)])
    return Case([draw.normal(2, 3, 8), draw.normal(2, 3, 8), draw.normal(8), *rest], {"epsilon": 1e-5})


@own("EmbedLayerNormalization")
def embed_layer_normalization(draw: Draw) -> Case:
    tokens, segments = (Fixed(draw.integers(0, n, 2, 3, dtype=np.int32)) for n in (9, 2))
    tables = [draw.normal(9, 8), draw.normal(5, 8), draw.normal(2, 8)]
    scale, bias = draw.normal(8), draw.normal(8)
    mask = Fixed(np.array([[1, 1, 0], [1, 1, 1]], np.int32))
    return Case([tokens, segments, *tables, scale, bias, mask], {"epsilon": 1e-5}, outputs=2)


@own("QLinearAdd", "QLinearMul")
def qlinear_add(draw: Draw) -> Case:
    dtype = draw.one_of(np.uint8, np.int8)
    b = draw.one_of((2, 3, 4), (4,), (3, 1))
    a, b = _whole(draw, 2, 3, 4, dtype=dtype), _whole(draw, *b, dtype=dtype)
    y = [_scale(1.7), _zero(5, dtype)]
    return Case([a, _scale(0.5), _zero(3, dtype), b, _scale(0.25), _zero(7, dtype), *y])


@own("QLinearSigmoid")
def qlinear_sigmoid(draw: Draw) -> Case:
    dtype = draw.one_of(np.uint8, np.int8)
    y = [_scale(1 / 256), _zero(0, dtype)]
    return Case([_whole(draw, 3, 4, dtype=dtype), _scale(0.05), _zero(10, dtype), *y])


@own("QLinearLeakyRelu")
def qlinear_leaky_relu(draw: Draw) -> Case:
    dtype = draw.one_of(np.uint8, np.int8)
    y = [_scale(0.04), _zero(20, dtype)]
    return Case([_whole(draw, 3, 4, dtype=dtype), _scale(0.05), _zero(10, dtype), *y], {"alpha": 0.1})


@own("QLinearConcat")
def qlinear_concat(draw: Draw) -> Case:
    parts = [[_whole(draw, 2, n, 4), _scale(s), _zero(z, np.uint8)] for n, s, z in ((2, 0.5, 3), (3, 0.25, 9))]
    return Case([_scale(0.5), _zero(4, np.uint8), *parts[0], *parts[1]], {"axis": 1})


@own("QLinearWhere")
def qlinear_where(draw: Draw) -> Case:
    x, y = ([_whole(draw, 3, 4), _scale(s), _zero(z, np.uint8)] for s, z in ((0.5, 3), (0.25, 9)))
    return Case([draw.flags(3, 4), *x, *y, _scale(0.5), _zero(4, np.uint8)])


@own("QLinearAveragePool")
def qlinear_average_pool(draw: Draw) -> Case:
    x = [_whole(draw, 1, 3, 6, 6), _scale(0.5), _zero(3, np.uint8), _scale(0.4), _zero(9, np.uint8)]
    return Case(x, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": draw.one_of([0, 0, 0, 0], [1, 1, 1, 1])})


@own("QLinearGlobalAveragePool")
def qlinear_global_average_pool(draw: Draw) -> Case:
    return Case([_whole(draw, 1, 3, 6, 6), _scale(0.5), _zero(3, np.uint8), _scale(0.4), _zero(9, np.uint8)])


@own("QGemm")
def qgemm(draw: Draw) -> Case:
    down = draw.one_of(0, 1)
    a = [_whole(draw, 3, 4), _scale(0.02), _zero(100, np.uint8)]
    weights = _weights(draw, *((5, 4) if down else (4, 5)))
    one = [_scale(0.01), _zero(0, np.int8)]
    many = [Fixed(draw.between(0.01, 0.02, 5)), Fixed(np.zeros(5, np.int8))]
    rest = draw.one_of([], [_scale(0.2), _zero(9, np.uint8)])
    bias = Fixed(draw.integers(-999, 999, 5, dtype=np.int32))
    return Case([*a, weights, *draw.one_of(one, many), bias, *rest], {"transB": down, "alpha": 1.0})


@own("MatMulIntegerToFloat")
def matmul_integer_to_float(draw: Draw) -> Case:
    weights = _weights(draw, 4, 5)
    scale, zero = draw.one_of((_scale(0.02), _zero(3, np.int8)), (Fixed(draw.between(0.1, 0.2, 5)), None))
    return Case([_whole(draw, 3, 4), weights, _scale(0.1), scale, _zero(100, np.uint8), zero, draw.normal(5)])


@own("DynamicQuantizeMatMul")
def dynamic_quantize_matmul(draw: Draw) -> Case:
    weights = _weights(draw, 4, 5)
    return Case([draw.normal(3, 4), weights, _scale(0.02), _zero(0, np.int8), draw.normal(5)])


@own("Attention", into=FALLING_BACK)
def attention(draw: Draw) -> Case:
    return Case([draw.normal(2, 3, 8), draw.normal(8, 24), draw.normal(24)], {"num_heads": 2})


@own("MultiHeadAttention", into=FALLING_BACK)
def multi_head_attention(draw: Draw) -> Case:
    return Case([draw.normal(2, 3, 8), draw.normal(2, 5, 8), draw.normal(2, 5, 8)], {"num_heads": 2})


@own("RotaryEmbedding", into=FALLING_BACK)
def rotary_embedding(draw: Draw) -> Case:
    positions = Fixed(np.array([0], np.int64))
    return Case([draw.normal(2, 2, 3, 8), positions, draw.normal(9, 4), draw.normal(9, 4)])


@own("MatMulNBits", into=FALLING_BACK)
def matmul_nbits(draw: Draw) -> Case:
    weights, scales = Fixed(_whole(draw, 6, 1, 16)), Fixed(draw.between(0.1, 0.2, 6))
    return Case([draw.normal(2, 3, 32), weights, scales], {"K": 32, "N": 6, "bits": 4, "block_size": 32})


@own("QLinearSoftmax", into=FALLING_BACK)
def qlinear_softmax(draw: Draw) -> Case:
    y = [_scale(1 / 256), _zero(0, np.uint8)]
    return Case([_whole(draw, 3, 4), _scale(0.05), _zero(10, np.uint8), *y], {"axis": -1, "opset": 13})


@own("QLinearConv", into=FALLING_BACK)
def qlinear_conv(draw: Draw) -> Case:
    x = [_whole(draw, 1, 6, 5, 4), _scale(0.05), _zero(10, np.uint8)]
    w = [_weights(draw, 3, 4, 3, 3), _scale(0.1), _zero(0, np.int8)]
    return Case([*x, *w, _scale(0.9), _zero(9, np.uint8)], {"channels_last": 1, "kernel_shape": [3, 3]})


@own("NhwcMaxPool", into=FALLING_BACK)
def nhwc_max_pool(draw: Draw) -> Case:
    return Case([_whole(draw, 1, 6, 5, 4)], {"kernel_shape": [3, 3], "strides": [2, 2]})


@own("QuantizeLinear", into=FALLING_BACK)
def quantize_linear(draw: Draw) -> Case:
    return Case([draw.normal(3, 4), _scale(0.01), _zero(9, np.uint16)])


@own("DequantizeLinear", into=FALLING_BACK)
def dequantize_linear(draw: Draw) -> Case:
    return Case([_whole(draw, 3, 4, dtype=np.int16), _scale(0.01), _zero(9, np.int16)])


@own("QAttention", into=FALLING_BACK)
def qattention(draw: Draw) -> Case:
    weights = [_weights(draw, 8, 24), draw.normal(24)]
    scales = [_scale(0.05), _scale(0.01), None, _zero(9, np.uint8), _zero(0, np.int8)]
    return Case([_whole(draw, 2, 3, 8), *weights, *scales], {"num_heads": 2})


@own("GroupQueryAttention", into=FALLING_BACK)
def group_query_attention(draw: Draw) -> Case:
    lengths, total = Fixed(np.array([2], np.int32)), Fixed(np.array(3, np.int32))
    operands = [draw.normal(1, 3, 16), draw.normal(1, 3, 8), draw.normal(1, 3, 8), None, None, lengths, total]
    return Case(operands, {"num_heads": 2, "kv_num_heads": 1}, outputs=3)


@own("DynamicQuantizeLSTM", into=FALLING_BACK)
def dynamic_quantize_lstm(draw: Draw) -> Case:
    w, r = (_weights(draw, 1, n, 16) for n in (3, 4))
    scales = [Fixed(np.array([0.01], np.float32)), Fixed(np.zeros(1, np.int8))] * 2
    return Case([draw.normal(5, 2, 3), w, r, *[None] * 5, *scales], {"hidden_size": 4}, outputs=3)
