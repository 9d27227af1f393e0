"""Values that hold no NaN and no infinity, unless something overflows: computed from finite constants and integers."""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakKeyDictionary

import numpy as np

from workbench.ir import Constant, Graph, Node
from workbench.support.reachability import reachable

# Operators whose results of finite numbers are finite, unless they overflow. Operators that divide belong here only if
# the divisor cannot be 0, as in Softmax, and in LayerNormalization with an epsilon.
_CLOSED = frozenset(
    (
        "Abs", "Add", "AveragePool", "Cast", "Ceil", "Clip", "Concat", "Conv", "Cos", "Elu", "Erf", "Exp", "Expand",
        "Flatten", "Floor", "Gather", "GatherElements", "GatherND", "Gelu", "Gemm", "GlobalAveragePool", "HardSigmoid",
        "HardSwish", "Identity", "LayerNormalization", "LeakyRelu", "LogSoftmax", "MatMul", "Max", "Min", "Mul", "Neg",
        "PRelu", "Pad", "RMSNormalization", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Relu", "Reshape",
        "Round", "Selu", "Sigmoid", "Sin", "Slice", "Softmax", "Softplus", "Split", "Squeeze", "Sub", "Sum", "Tanh",
        "Tile", "Transpose", "Trilu", "Unsqueeze", "Where",
    )
)  # fmt: skip
_DIVIDED = ("LayerNormalization", "RMSNormalization")
_known: WeakKeyDictionary[Constant, bool] = WeakKeyDictionary()


def why_not_finite(graph: Graph, value: str) -> str | None:
    """Why a value may hold NaN or an infinity though nothing overflows, as a sentence; None if it cannot."""

    def operands(value: str) -> Iterable[str]:
        node = None if _is_integer(graph, value) else graph.producer(value)
        return () if node is None else node.operands

    return next(filter(None, (_why_not_finite_itself(graph, one) for one in reachable([value], operands))), None)


def _why_not_finite_itself(graph: Graph, value: str) -> str | None:
    """The same of a value whose operands are finite."""
    tensor = graph.constant(value)
    if tensor is not None:
        return None if _is_finite(tensor) else f"constant '{value}' holds NaN or an infinity"
    if _is_integer(graph, value):
        return None
    node = graph.producer(value)
    if node is None:
        return f"'{value}' is an input, and may hold NaN or an infinity"
    if node.op not in _CLOSED or (node.op in _DIVIDED and not _epsilon(node) > 0):
        return f"{node} may make NaN or an infinity of finite numbers"
    return None


def _is_integer(graph: Graph, value: str) -> bool:
    type_ = graph.tensor_type(value)
    return type_ is not None and not type_.dtype.is_floating_point()


def _epsilon(node: Node) -> float:
    return float(node.attr("epsilon"))


def _is_finite(tensor: Constant) -> bool:
    if not tensor.dtype.is_floating_point():
        return True
    if tensor not in _known:
        _known[tensor] = bool(np.isfinite(tensor.numpy().astype(np.float32, copy=False)).all())
    return _known[tensor]
