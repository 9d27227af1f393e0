"""Whether a call of an operator stays valid, with the same meaning, in another opset."""

from __future__ import annotations

from functools import cache

import onnx

# Operators whose semantics changed while attributes and inputs did not.
_CHANGED_SEMANTICS = {"GroupNormalization": 21, "RoiAlign": 16, "Split": 18, "Upsample": 10}


@cache
def is_valid_unchanged(op_type: str, old: int, new: int) -> bool:
    """Whether a call written for opset `old` is valid unchanged in opset `new`, and means the same there."""
    try:
        before, after = onnx.defs.get_schema(op_type, old, ""), onnx.defs.get_schema(op_type, new, "")
    except onnx.defs.SchemaError:
        return False
    if before.since_version == after.since_version:
        return True
    if old < _CHANGED_SEMANTICS.get(op_type, 0) <= new or after.deprecated:
        return False
    inputs = [i.name for i in before.inputs], [i.name for i in after.inputs]
    attributes_kept = all(
        name in after.attributes
        and after.attributes[name].type == attribute.type
        and after.attributes[name].default_value == attribute.default_value
        for name, attribute in before.attributes.items()
    )
    added = [a for name, a in after.attributes.items() if name not in before.attributes]
    return (
        attributes_kept
        and not any(a.required for a in added)
        and inputs[1][: len(inputs[0])] == inputs[0]
        and after.min_input <= before.min_input
        and len(after.outputs) >= len(before.outputs)
    )
