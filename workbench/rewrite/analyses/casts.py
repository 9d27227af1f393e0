"""Which element types represent every number of which others; the types of Casts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import defs

from workbench.ir import DataType, Graph, Node
from workbench.rewrite.core.rule import NoMatch

# Digits of the significand.
_DIGITS = {DataType.BFLOAT16: 8, DataType.FLOAT16: 11, DataType.FLOAT: 24, DataType.DOUBLE: 53}
_WIDER = {
    DataType.BFLOAT16: (DataType.FLOAT, DataType.DOUBLE),
    DataType.FLOAT16: (DataType.FLOAT, DataType.DOUBLE),
    DataType.FLOAT: (DataType.DOUBLE,),
}
_SIGNED = (DataType.INT8, DataType.INT16, DataType.INT32, DataType.INT64)
_INTEGERS = (*_SIGNED, DataType.UINT8, DataType.UINT16, DataType.UINT32, DataType.UINT64)
_WHOLE = (DataType.BOOL, *_INTEGERS)
CASTABLE = frozenset({*_DIGITS, *_WHOLE})  # few operators take other floats and integers


def element_type(graph: Graph, value: str) -> DataType | None:
    """The element type; None if unknown.

    If none was inferred, as after most ai.onnx.ml operators, it is the only type that the schema allows.
    """
    known = graph.tensor_type(value)
    node = graph.producer(value)
    if known is not None or node is None:
        return None if known is None else known.dtype
    version = graph.opset_imports.get(node.domain, 0)
    if not defs.has(node.op_type, version, node.domain):
        return None
    outputs = defs.get_schema(node.op_type, version, node.domain).outputs
    index = node.outputs.index(value)
    allowed = outputs[index].types if index < len(outputs) else set()
    names = [name.removeprefix("tensor(").removesuffix(")").upper() for name in allowed]
    return DataType.__members__.get(names[0]) if len(names) == 1 else None


def keeps_numbers(source: DataType, target: DataType) -> bool:
    """Whether a cast from one to the other and back is the identity."""
    if source == target:
        return True
    if source == DataType.BOOL:
        return target in _DIGITS or target in _INTEGERS
    if source in _DIGITS:
        return target in _WIDER.get(source, ())
    if source not in _INTEGERS:
        return False
    range_ = np.iinfo(source.numpy())
    if target in _DIGITS:
        return int(range_.max).bit_length() <= _DIGITS[target]
    return (
        target in _INTEGERS
        and np.iinfo(target.numpy()).min <= range_.min
        and range_.max <= np.iinfo(target.numpy()).max
    )


def is_one_cast(source: DataType, between: DataType, target: DataType) -> bool:
    """Whether a cast through `between` equals a direct cast.

    False if a number may not fit an integer type: casts of floats out of range are undefined.
    """
    if not keeps_numbers(source, between):
        return False
    alike = all(t in _DIGITS for t in (source, target)) or all(t in _WHOLE for t in (source, between, target))
    return alike or keeps_numbers(source, target)


def require_plain(graph: Graph, value: str) -> DataType:
    """The element type. Raises NoMatch unless it is a float, an integer or a boolean of 8 bits or more."""
    dtype = element_type(graph, value)
    if dtype is None or dtype not in CASTABLE:
        raise NoMatch(f"'{value}' is not known to hold floats, integers or booleans")
    return dtype


def common_source(graph: Graph, node: Node, casts: Sequence[Node]) -> DataType:
    """The type from which all these Casts around the node cast. Raises NoMatch if there are two."""
    first, *others = dict.fromkeys(require_plain(graph, cast.inputs[0]) for cast in casts)
    if others:
        raise NoMatch(f"the Casts before {node} are from {type_name(first)} and {type_name(others[0])}")
    return first


def require_change(cast: Node, source: DataType) -> None:
    """Raises NoMatch if the Cast is from this type to itself: another pass removes it."""
    if target_of(cast) == source:
        raise NoMatch(f"{cast} casts {type_name(source)} to itself")


def target_of(cast: Node) -> DataType:
    return DataType(cast.attr("to"))


def type_name(dtype: DataType) -> str:
    return dtype.name.lower()
