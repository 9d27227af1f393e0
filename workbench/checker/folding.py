"""Evaluates shape arithmetic that onnx's shape inference does not follow, by onnx's reference evaluator."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from workbench.checker.types import PlainType, sizes_of

FOLDED = "workbench.checker: folded"  # the name of a Constant node in place of a computation of the file
_SMALL = 1_024  # elements of an operand or a result
_ALIKE = 2**31  # numbers from here on, infinity and NaN become other integers in each runtime
_LARGEST = 65_536  # elements of a result, if no two operands shared an axis
# Operators whose results are at most as large as their operands, broadcast.
_ARITHMETIC = """
Abs Add And Cast CastLike Ceil Concat Div Equal Floor Gather Greater GreaterOrEqual Identity Less LessOrEqual Max Min
Mod Mul Neg Not Or ReduceMax ReduceMin ReduceProd ReduceSum Reshape Slice Sqrt Squeeze Sub Transpose Unsqueeze Where
"""
_OPERATORS = frozenset(_ARITHMETIC.split())
_Array = npt.NDArray[Any]


def fold_arithmetic(model: ModelProto, types: Mapping[str, PlainType]) -> bool:
    """Put constants in place of nodes of the main graph that compute numbers from constants and known shapes. Returns
    whether there were any. types: the inferred types, by value."""
    known = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer if _is_small(t)}
    versions = {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in model.opset_import}
    folded = False
    for node in model.graph.node:
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
            known |= _elements(node)
            continue
        result = _result(node, known, types, versions)
        if result is None or result.size > _SMALL:
            continue
        known[node.output[0]] = result
        if node.op_type == "Transpose":  # it stays, to be counted
            continue
        tensor = numpy_helper.from_array(result, node.output[0])
        node.CopyFrom(helper.make_node("Constant", [], [node.output[0]], name=FOLDED, value=tensor))
        folded = True
    return folded


def small_constants(graph: GraphProto | FunctionProto) -> dict[str, list[int]]:
    """The integers of small constants, by name."""
    tensors = graph.initializer if isinstance(graph, GraphProto) else ()
    known = {t.name: numpy_helper.to_array(t) for t in tensors if _is_small(t)}
    for node in graph.node:
        known |= _elements(node) if node.op_type == "Constant" and node.domain in ("", "ai.onnx") else {}
    return {name: array.ravel().tolist() for name, array in known.items() if array.dtype.kind == "i"}


def _is_small(tensor: TensorProto) -> bool:
    return math.prod(tensor.dims) <= _SMALL and tensor.data_type != TensorProto.STRING


def _elements(node: NodeProto) -> dict[str, _Array]:
    attribute = node.attribute[0] if len(node.attribute) == 1 else None
    if attribute is None or attribute.name not in ("value", "value_int", "value_ints", "value_float", "value_floats"):
        return {}
    if attribute.name == "value":
        return {node.output[0]: numpy_helper.to_array(attribute.t)} if _is_small(attribute.t) else {}
    elements = helper.get_attribute_value(attribute)
    dtype = np.int64 if attribute.name.startswith("value_int") else np.float32
    return {node.output[0]: np.array(elements, dtype)} if np.size(elements) <= _SMALL else {}


def _result(
    node: NodeProto, known: Mapping[str, _Array], types: Mapping[str, PlainType], versions: Mapping[str, int]
) -> _Array | None:
    """The result of the node; None if it is not known, or is not shape arithmetic."""
    if node.domain not in ("", "ai.onnx") or len(node.output) != 1 or not node.input:
        return None
    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    if node.op_type in ("Shape", "Size"):
        shape = sizes_of(types.get(node.input[0]))
        if shape is None:
            return None
        size = np.array(math.prod(shape), np.int64)
        return (
            size
            if node.op_type == "Size"
            else np.array(shape[attributes.get("start", 0) : attributes.get("end")], np.int64)
        )
    operands = [known[value] for value in node.input if value in known]
    if len(operands) < len([value for value in node.input if value]):
        return None
    if not _is_alike(node, operands):
        return None
    if node.op_type == "Range" and all(item.size == 1 for item in operands) and len(operands) == 3:
        begin, end, step = (float(item.item()) for item in operands)
        return _evaluated(node, known, versions) if step and (end - begin) / step <= _SMALL else None
    if node.op_type == "ConstantOfShape" and operands[0].size and 0 <= operands[0].prod() <= _SMALL:
        return _evaluated(node, known, versions)
    if node.op_type not in _OPERATORS or (
        node.op_type != "Concat" and math.prod(max(item.size, 1) for item in operands) > _LARGEST
    ):
        return None
    return _evaluated(node, known, versions)


def _is_alike(node: NodeProto, operands: Sequence[_Array]) -> bool:
    """Whether every runtime gives the same result. ONNX Runtime sums, multiplies and divides integers as float64."""
    if not all(item.dtype.kind in "iub" or item.dtype in (np.float32, np.float64) for item in operands):
        return False
    numbers, is_float = np.abs(operands[0].astype(np.float64)), operands[0].dtype.kind == "f"
    if node.op_type.startswith("Cast"):
        return not is_float or bool((numbers < _ALIKE).all())
    if node.op_type == "Slice" and len(node.input) == 5:
        return len(operands) == 5 and all(
            _is_inside(operands[0].shape, *part) for part in zip(*operands[1:], strict=True)
        )
    if node.op_type == "Range" or node.op_type.startswith("Reduce"):
        return not is_float and bool(max(numbers.sum(), np.maximum(numbers, 1).prod()) < _ALIKE)
    return node.op_type != "Mod" or is_float or bool((numbers < _ALIKE).all())


def _is_inside(shape: Sequence[int], start: int, end: int, axis: int, step: int) -> bool:
    """Whether a Slice that goes back does so from a place that is there, to one, or to the first: readers differ on
    others."""
    size = shape[axis] if -len(shape) <= axis < len(shape) else 0
    return step > 0 or (-size <= start < size and (-size <= end < size or end < -_ALIKE))


def _evaluated(node: NodeProto, known: Mapping[str, _Array], versions: Mapping[str, int]) -> _Array | None:
    from onnx.reference import ReferenceEvaluator

    graph = GraphProto(name="graph")
    graph.node.add().CopyFrom(node)
    names = list(dict.fromkeys(value for value in node.input if value))
    for value in names:
        element_type = helper.np_dtype_to_tensor_dtype(known[value].dtype)
        graph.input.append(helper.make_tensor_value_info(value, element_type, known[value].shape))
    graph.output.add().name = node.output[0]
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(*entry) for entry in versions.items()])
    try:
        (result,) = ReferenceEvaluator(model).run(None, {value: known[value] for value in names})
    except Exception:  # of any class; the result stays unknown
        return None
    return np.asarray(result) if isinstance(result, np.ndarray | np.generic) else None
