"""A bound on the memory of ONNX's data propagation, computed before it runs.

Data propagation stores every element of integer values of rank 0 or 1, without a limit:
a value concatenated with itself 40 times fills any memory. For a value of rank 1 with
unknown elements, of any type, it stores as many unknown ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from workbench.ir.from_proto import bodies

LIMIT = 1_000_000  # elements over all values; real models have thousands
_RANK = 16  # elements of a Shape whose operand has an unknown rank
# The operators with a data propagation function in ONNX 1.23 (`schema.has_data_propagation_function`)
_FOLLOWED = frozenset("Add Cast Concat Gather Mul Shape Size Slice Squeeze Sub Unsqueeze".split())  # noqa: SIM905
_WITHOUT_BODIES = _FOLLOWED | {"Constant"}
Functions = Mapping[tuple[str, str, str], FunctionProto]


def is_bounded(model: ModelProto, lengths: Mapping[str, int]) -> bool:
    """Whether data propagation stores at most `LIMIT` elements for the model, with functions counted at each call.

    lengths: the result of `lengths_of` for the model with types from an inference without propagation.
    """
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    return _stored_elements(model.graph, dict(lengths), functions) <= LIMIT


def lengths_of(graph: GraphProto, nested: bool = True) -> dict[str, int]:
    """The known lengths of values of rank 1, by name. nested: whether the graph has bodies, which are then included."""
    results = {}
    for info in (*graph.input, *graph.value_info, *graph.output):
        dims = info.type.tensor_type.shape.dim
        if len(dims) == 1 and (length := dims[0].dim_value) > 0:
            results[info.name] = length
    for node in graph.node if nested else ():
        for attribute in node.attribute:
            for body in bodies(attribute):
                results.update(lengths_of(body))
    return results


def _stored_elements(owner: GraphProto | FunctionProto, counts: dict[str, int], functions: Functions) -> int:
    """The number of stored elements; counting stops above the limit. counts: by value, its stored elements."""
    if isinstance(owner, GraphProto):
        counts.update((tensor.name, _numbers(tensor)) for tensor in owner.initializer)
    total = 0
    for node in owner.node:
        op_type = node.op_type
        called = functions.get((node.domain, op_type, node.overload)) if functions else None
        if called is not None:
            inner_counts = dict(zip(called.input, (counts.get(value, 0) for value in node.input), strict=False))
            total += _stored_elements(called, inner_counts, functions)
            counts.update(zip(node.output, (inner_counts.get(value, 0) for value in called.output), strict=False))
        elif op_type in _FOLLOWED:
            operands = [counts.get(value, 0) for value in node.input if value]
            count = counts[node.output[0]] = max(_count(node, operands), counts.get(node.output[0], 0))
            total += max([count, *(number for number in operands if number > LIMIT)])
        elif op_type == "Constant":
            numbers = (_numbers(a.t) if a.HasField("t") else len(a.ints) for a in node.attribute)
            counts[node.output[0]] = max(numbers, default=0)
        for attribute in node.attribute if called is not None or op_type not in _WITHOUT_BODIES else ():
            for body in bodies(attribute):
                total += _stored_elements(body, counts, functions)
        if total > LIMIT:
            break
    return total


def _count(node: NodeProto, operands: list[int]) -> int:
    """An upper bound on the elements of the result. operands: the stored elements of each operand."""
    op_type = node.op_type
    if op_type in ("Shape", "Size"):
        return _RANK
    if 0 in operands[: 1 if op_type in ("Slice", "Squeeze", "Unsqueeze", "Gather") else None]:
        return 0
    if op_type == "Concat":
        return sum(operands)
    return max(operands[1:] if op_type == "Gather" else operands, default=0)


def _numbers(tensor: TensorProto) -> int:
    """The stored elements of a tensor; elements of floats are stored as unknown ones."""
    dims = tensor.dims
    return math.prod(dims) if len(dims) <= 1 else 0
