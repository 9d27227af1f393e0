"""Keys of constants and attributes; two keys are equal exactly if the contents are equal."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from typing import Any

import onnx_ir

from workbench.ir import Constant, DataType, Graph, TensorType, ValueType, constant_shape
from workbench.ir.text import to_text

_SHORT = 32  # bytes; as many as a digest has
_PLAIN = (int, float, str)


def elements_key(tensor: Constant) -> Hashable:
    """The key of a constant: its element type, shape and elements."""
    return tensor.dtype, constant_shape(tensor), _elements(tensor)


def _elements(tensor: Constant) -> Hashable:
    if tensor.dtype == DataType.STRING:  # strings have no fixed size in bytes
        return tuple(tensor.numpy().ravel().tolist())
    data = tensor.tobytes()
    return data if len(data) <= _SHORT else hashlib.sha256(data).digest()


def attribute_key(attribute: Any) -> Hashable:
    """The key of an attribute: of a body its text, of a tensor its elements."""
    if isinstance(attribute, tuple) and attribute and not isinstance(attribute[0], _PLAIN):
        return tuple(map(attribute_key, attribute))
    if isinstance(attribute, Graph):
        return _body_text(attribute)
    if not isinstance(attribute, (*_PLAIN, tuple)) and isinstance(attribute, onnx_ir.TensorProtocol):
        return elements_key(attribute)
    return type(attribute), repr(attribute)  # as text: -0.0 and 0.0 differ, NaN and NaN do not


def _body_text(body: Graph) -> str:
    """The text of a body without the names of sizes, which shape inference makes up anew in each graph."""
    types = {value: _without_symbols(type_) for value, type_ in body.types.items()}
    return to_text(Graph(**body.constructor_arguments | {"nodes": body.nodes, "types": types}))


def _without_symbols(type_: ValueType) -> ValueType:
    if not isinstance(type_, TensorType) or type_.shape is None:
        return type_
    return TensorType(type_.dtype, tuple(dim if isinstance(dim, int) else None for dim in type_.shape))
