"""What the checker knows of operators. Its lists are its own, so that it trusts no name in a certificate.

An operator is known by its domain, its type and the version of its domain. One that a function of the file defines is
not known by its name.
"""

from __future__ import annotations

from onnx import NodeProto, defs


def names_in(text: str) -> frozenset[str]:
    """The names in a text."""
    return frozenset(text.split())


# The result has the shape of one operand, in another form, and all its elements in the same order.
VIEW_OPERATORS = frozenset(("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"))
# One result; each of its elements depends on one element of each operand, which are broadcast to its shape. The sizes
# that Expand and Trilu take are read before anything is written.
ELEMENTWISE_OPERATORS = names_in(
    """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast
    CastLike Ceil Celu Clip Cos Cosh DequantizeLinear Div Elu Equal Erf Exp Expand Floor Gelu Greater GreaterOrEqual
    HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow
    QuantizeLinear Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum SwiGLU
    Swish Tan Tanh ThresholdedRelu Trilu Where Xor com.microsoft.BiasGelu com.microsoft.FastGelu com.microsoft.Gelu
    com.microsoft.QuickGelu
    """
)
# The first result may be written over the first operand, unless they train.
OVER_FIRST = frozenset(("BatchNormalization", "Dropout"))
# Results that have the axes of the first operand; those of a Concat, of all operands.
SAME_AXES = names_in(
    """
    AveragePool BatchNormalization Bernoulli CenterCropPad Compress Concat Conv ConvInteger ConvTranspose CumProd
    CumSum DepthToSpace Dropout DynamicQuantizeLinear EyeLike GatherElements GlobalAveragePool GlobalLpPool
    GlobalMaxPool GridSample GroupNormalization Hardmax InstanceNormalization LRN LayerNormalization LogSoftmax
    LpNormalization LpPool MaxPool MaxUnpool MeanVarianceNormalization Pad QLinearConv RMSNormalization
    RandomNormalLike RandomUniformLike Resize ReverseSequence ScatterElements Slice Softmax SpaceToDepth Split Tile
    TopK Upsample
    """
)
# Those of them whose order of axes a target may fix; all others run in any order that their operands have.
IMAGE_OPERATORS = names_in(
    """
    AveragePool BatchNormalization Concat Conv ConvInteger ConvTranspose DepthToSpace GlobalAveragePool GlobalLpPool
    GlobalMaxPool GridSample GroupNormalization InstanceNormalization LRN LpPool MaxPool MaxUnpool
    MeanVarianceNormalization Pad QLinearConv Resize SpaceToDepth Upsample
    """
)
REDUCTIONS = names_in(
    """
    ArgMax ArgMin ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare
    """
)
# Each run gives other results, so that what they compute of constants is no constant.
RANDOM_OPERATORS = names_in(
    """
    Bernoulli Dropout Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike
    """
)
# Of ONNX Runtime's own domain.
_LARGEST_VERSION = 2**31 - 1  # that onnx can be asked for
_RUNTIME_DOMAIN = "com.microsoft"
_RUNTIME_OPERATORS = names_in(
    """
    Attention BiasGelu DequantizeLinear DynamicQuantizeLSTM DynamicQuantizeMatMul EmbedLayerNormalization FastGelu
    FusedConv FusedGemm FusedMatMul Gelu GroupQueryAttention MatMulIntegerToFloat MatMulNBits MultiHeadAttention
    NhwcMaxPool QAttention QGemm QLinearAdd QLinearAveragePool QLinearConcat QLinearConv QLinearGlobalAveragePool
    QLinearLeakyRelu QLinearMul QLinearSigmoid QLinearSoftmax QLinearWhere QuantizeLinear QuickGelu RotaryEmbedding
    SkipLayerNormalization SkipSimplifiedLayerNormalization TransposeMatMul
    """
)
_SINCE = {"Hardmax": 13, "LogSoftmax": 13, "Softmax": 13}  # where the meaning that is known is not that of _OLDEST
_OLDEST = 7  # broadcasting had an attribute before


def operator_name(node: NodeProto) -> str:
    """Type of the operator, with its domain if that is not ONNX's own, and with its overload."""
    return full_name(node.domain, node.op_type, node.overload)


def full_name(domain: str, op_type: str, overload: str = "") -> str:
    """As `operator_name`. A type with a dot, which could be taken for a domain, gets a colon."""
    own = f"{':' if '.' in op_type else ''}{op_type}{':' if overload else ''}{overload}"
    return own if domain in ("", "ai.onnx") else f"{domain}.{own}"


def has_schema(domain: str, op_type: str, version: int) -> bool:
    """Whether ONNX has the operator in this version of the domain, deprecated or not."""
    return abs(version) <= _LARGEST_VERSION and bool(defs.has(op_type, version, domain))


def is_defined(domain: str, op_type: str, version: int) -> bool:
    """Whether ONNX has the operator in this version of the domain, or ONNX Runtime has it."""
    if domain == _RUNTIME_DOMAIN:
        return op_type in _RUNTIME_OPERATORS
    if not has_schema(domain, op_type, version):
        return False
    deprecated: bool = defs.get_schema(op_type, version, domain).deprecated
    return not deprecated


def is_known(operator: str, version: int) -> bool:
    """Whether the lists of this file hold for the operator. version: of ONNX's own operators in the file."""
    return version >= _SINCE.get(operator, _OLDEST)
