"""Defaults of attributes, from ONNX's schemas."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from onnx import AttributeProto, defs, helper

# Of (operator, attribute): what an omitted one means was something else in an opset that graphs may still have, since a
# model that cannot be converted stays at its own. Whoever reads one of these says which default is meant. (The Resize
# of opset 10 has other operands too.)
DEPENDS_ON_OPSET = frozenset(
    {
        ("GridSample", "mode"),  # "bilinear" before 20, "linear" since
        ("Hardmax", "axis"),  # 1 before 13, -1 since
        ("LogSoftmax", "axis"),
        ("Softmax", "axis"),
        ("RoiAlign", "coordinate_transformation_mode"),  # since 16; "output_half_pixel" is what was meant before
    }
)
_DEPENDS = object()


def default_of(op: str, attribute: str) -> Any:
    """What it means to omit the attribute; None if ONNX names no value, or does not define the operator.

    Raises LookupError if that depends on the opset.
    """
    result = _newest_defaults(op).get(attribute)
    if result is _DEPENDS:
        raise LookupError(f"the default of {op}'s {attribute} depends on the opset")
    return result


def with_defaults(op: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a call with those that it omits, as far as they have one default."""
    defaults = {name: value for name, value in _newest_defaults(op).items() if value is not _DEPENDS}
    return {**defaults, **attributes}


@cache
def _newest_defaults(op: str) -> Mapping[str, Any]:
    domain, _, op_type = op.rpartition(".")
    result = defaults_at(op_type, defs.onnx_opset_version(), domain)
    return {name: _DEPENDS if (op, name) in DEPENDS_ON_OPSET else value for name, value in result.items()}


@cache
def defaults_at(op_type: str, opset: int, domain: str = "") -> Mapping[str, Any]:
    """Defaults by name, in this version of the domain; empty for an operator that ONNX does not define."""
    if not defs.has(op_type, opset, domain):
        return {}
    attributes = defs.get_schema(op_type, opset, domain).attributes
    values = {name: plain_default(attribute) for name, attribute in attributes.items()}
    return {name: value for name, value in values.items() if value is not None}


def plain_default(attribute: defs.OpSchema.Attribute) -> Any:
    """The default as a graph holds it; None if there is none."""
    if attribute.default_value.type == AttributeProto.UNDEFINED:
        return None
    value = helper.get_attribute_value(attribute.default_value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return tuple(v.decode() if isinstance(v, bytes) else v for v in value)
    return value
