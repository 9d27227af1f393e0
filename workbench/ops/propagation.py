"""How many numbers ONNX's shape inference would carry along, before it is asked to.

Its data propagation holds the numbers of every small integer value and knows no
bound: Concat of a value with itself, 40 times over, fills any memory.
"""

from __future__ import annotations

import math
from itertools import chain

from onnx import GraphProto, ModelProto, NodeProto, TensorProto

LIMIT = 1_000_000  # numbers over all values; real models have thousands
_RANK = 16  # numbers of a Shape whose operand is not known yet
# the operators with a data propagation function in ONNX 1.23 (`schema.has_data_propagation_function`)
_FOLLOWED = frozenset("Add Cast Concat Gather Mul Shape Size Slice Squeeze Sub Unsqueeze".split())  # noqa: SIM905


def is_bounded(model: ModelProto) -> bool:
    """Would data propagation over the model hold at most `LIMIT` numbers? Functions must be inlined."""
    total = 0
    counts: dict[str, int] = {}
    waiting = [model.graph]
    while waiting:
        graph = waiting.pop()
        counts.update((tensor.name, _numbers(tensor)) for tensor in graph.initializer)
        for node in graph.node:
            count = _count(node, counts)
            counts.update((value, count) for value in node.output)
            total += count
            if total > LIMIT:
                return False
            waiting.extend(_bodies(node))
    return True


def _count(node: NodeProto, counts: dict[str, int]) -> int:
    """The numbers of the node's result that are carried along, at most."""
    if node.op_type == "Constant":
        return max((_numbers(a.t) if a.HasField("t") else len(a.ints) for a in node.attribute), default=0)
    if node.op_type not in _FOLLOWED:
        return 0
    if node.op_type == "Shape":
        return _RANK
    operands = [counts.get(value, 0) for value in node.input]
    if node.op_type == "Concat":
        return sum(operands)
    return max(operands[1:] if node.op_type == "Gather" else operands, default=0)


def _numbers(tensor: TensorProto) -> int:
    is_followed = len(tensor.dims) <= 1 and tensor.data_type in (TensorProto.INT32, TensorProto.INT64)
    return math.prod(tensor.dims) if is_followed else 0


def _bodies(node: NodeProto) -> list[GraphProto]:
    return list(chain.from_iterable((*([a.g] if a.HasField("g") else ()), *a.graphs) for a in node.attribute))
