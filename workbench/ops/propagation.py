"""How many numbers ONNX's shape inference would carry along, before it is asked to.

Its data propagation holds the numbers of every small integer value and knows no
bound: Concat of a value with itself, 40 times over, fills any memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from workbench.ir.from_proto import bodies

LIMIT = 1_000_000  # numbers over all values; real models have thousands
_RANK = 16  # numbers of a Shape whose operand is not known yet
# the operators with a data propagation function in ONNX 1.23 (`schema.has_data_propagation_function`)
_FOLLOWED = frozenset("Add Cast Concat Gather Mul Shape Size Slice Squeeze Sub Unsqueeze".split())  # noqa: SIM905
Functions = Mapping[tuple[str, str, str], FunctionProto]


def is_bounded(model: ModelProto) -> bool:
    """Would data propagation over the model, functions at each of their calls, hold at most `LIMIT` numbers?"""
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    return _held(model.graph, {}, functions) <= LIMIT


def _held(owner: GraphProto | FunctionProto, counts: dict[str, int], functions: Functions) -> int:
    """How many numbers are held, as far as they are counted: not beyond the limit. `counts`: of each value."""
    if isinstance(owner, GraphProto):
        counts.update((tensor.name, _numbers(tensor)) for tensor in owner.initializer)
    total = 0
    for node in owner.node:
        called = functions.get((node.domain, node.op_type, node.overload))
        if called is not None:
            inside = dict(zip(called.input, (counts.get(value, 0) for value in node.input), strict=False))
            total += _held(called, inside, functions)
            made = [inside.get(value, 0) for value in called.output]
        else:
            made = [_count(node, counts)] * len(node.output)
        counts.update(zip(node.output, made, strict=False))
        total += sum(made)
        for attribute in node.attribute:
            total += sum(_held(body, counts, functions) for body in bodies(attribute))
        if total > LIMIT:
            break
    return total


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
