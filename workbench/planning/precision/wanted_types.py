"""In which type an operator is wanted: the lists of torch's autocast, and what a target profile says instead.

Source: https://docs.pytorch.org/docs/stable/amp.html, "CUDA Ops that can autocast to float16" and "to float32", by the
names of ONNX's operators; RMSNormalization is listed as its neighbours are. What neither list has runs in the type of
its operands.
"""

from __future__ import annotations

from workbench.ir import Node
from workbench.ops.channels_last import plain_op
from workbench.planning.layout.profile import Profile

NARROW, WIDE_ONLY = "narrow", "float32"
_NARROW_OPERATORS = (
    *("Conv", "ConvTranspose", "MatMul", "Gemm", "Einsum", "PRelu"),
    *("RNN", "GRU", "LSTM", "Attention"),
)
_FLOAT32_OPERATORS = (
    *("Acos", "Asin", "Cosh", "Sinh", "Tan", "Exp", "Log", "Pow", "Reciprocal", "Softplus"),
    *("Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization", "GroupNormalization"),
    *("LpNormalization", "CumSum", "ReduceSum", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum"),
    *("ReduceLogSumExp", "ReduceSumSquare", "SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"),
)
AUTOCAST = {**dict.fromkeys(_NARROW_OPERATORS, NARROW), **dict.fromkeys(_FLOAT32_OPERATORS, WIDE_ONLY)}


def is_demanded(node: Node, target: Profile | None) -> bool:
    """Whether the target itself says in which type the operator runs."""
    return target is not None and plain_op(node) in target.precision


def wanted_type(node: Node, target: Profile | None) -> tuple[str | None, str]:
    """NARROW, WIDE_ONLY or None for a node, and who wants it, as a subject: "torch's autocast"."""
    op = plain_op(node)
    if target is not None and is_demanded(node, target):
        return WIDE_ONLY if target.precision[op] == WIDE_ONLY else NARROW, f"the target '{target.name}'"
    return AUTOCAST.get(op), "torch's autocast"
