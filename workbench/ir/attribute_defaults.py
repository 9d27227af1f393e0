"""Defaults of attributes, from ONNX's schemas."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from onnx import AttributeProto, defs, helper


def default_of(op: str, attribute: str) -> Any:
    """The value of an omitted attribute; None if ONNX has no default, or does not define the operator.

    A call of an opset with another default is in a domain of its own (`versioned.py`).
    """
    return _newest_defaults(op).get(attribute)


def with_defaults(op: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a call with defaults for those that it omits."""
    return {**_newest_defaults(op), **attributes}


@cache
def _newest_defaults(op: str) -> Mapping[str, Any]:
    domain, _, op_type = op.rpartition(".")
    return defaults_at(op_type, defs.onnx_opset_version(), domain)


@cache
def defaults_at(op_type: str, opset: int, domain: str = "") -> Mapping[str, Any]:
    """Defaults by name, in this version of the domain; empty for an operator that ONNX does not define."""
    if not defs.has(op_type, opset, domain):
        return {}
    attributes = defs.get_schema(op_type, opset, domain).attributes
    values = {name: plain_default(attribute) for name, attribute in attributes.items()}
    return {name: value for name, value in values.items() if value is not None}


def plain_default(attribute: defs.OpSchema.Attribute) -> Any:
    """The default in the form of `Node.attributes`; None if there is none."""
    if attribute.default_value.type == AttributeProto.UNDEFINED:
        return None
    value = helper.get_attribute_value(attribute.default_value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return tuple(v.decode() if isinstance(v, bytes) else v for v in value)
    return value
