"""Defaults of attributes, from ONNX's schemas."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from onnx import AttributeProto, defs, helper

# (operator, attribute): attributes whose default differs in an opset that graphs may have, since a model that cannot be
# converted stays at its opset. Code that reads such an attribute names the default. (The Resize of opset 10 has other
# operands too.)
DEPENDS_ON_OPSET = frozenset(
    {
        ("GridSample", "mode"),  # "bilinear" before 20, "linear" since
        ("Hardmax", "axis"),  # 1 before 13, -1 since
        ("LogSoftmax", "axis"),
        ("Softmax", "axis"),
        ("RoiAlign", "coordinate_transformation_mode"),  # since 16; before it was always "output_half_pixel"
    }
)
_DEPENDS = object()


def default_of(op: str, attribute: str) -> Any:
    """The value of an omitted attribute; None if ONNX has no default, or does not define the operator.

    Raises LookupError if the value depends on the opset.
    """
    default = _newest_defaults(op).get(attribute)
    if default is _DEPENDS:
        raise LookupError(f"the default of {op}'s {attribute} depends on the opset")
    return default


def with_defaults(op: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a call with defaults for those that it omits, unless a default depends on the opset."""
    defaults = {name: value for name, value in _newest_defaults(op).items() if value is not _DEPENDS}
    return {**defaults, **attributes}


@cache
def _newest_defaults(op: str) -> Mapping[str, Any]:
    domain, _, op_type = op.rpartition(".")
    defaults = defaults_at(op_type, defs.onnx_opset_version(), domain)
    return {name: _DEPENDS if (op, name) in DEPENDS_ON_OPSET else value for name, value in defaults.items()}


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
