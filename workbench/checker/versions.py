"""Whether rewrites read and write ONNX's operators in the form for which passes are written.

An operator may mean something else at another opset: before opset 13 a Softmax is over its axis and all after it. So
between loading and exporting a log has calls in the form of one opset. A call that has none there is in a domain of its
own, "ai.onnx.opset11", and no pass may change it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from onnx import defs

from workbench.checker.operators import has_schema
from workbench.checker.outcome import DoesNotHold, escaped, in_quotes
from workbench.checker.plain import PlainNode
from workbench.checker.replay import LoggedEdit

OPSET_OF_PASSES = 23
_OWN_DOMAIN = "ai.onnx.opset"
# Operators whose meaning changed, at this opset, without a change of their signature.
_CHANGED_MEANINGS = {
    "GroupNormalization": 21,
    "RoiAlign": 16,
    "Split": 18,
    "Upsample": 10,
}


def check_versions(edit: LoggedEdit, opset: int, where: str) -> None:
    """Raises DoesNotHold for a call of another version that the rewrite removes, changes or inserts.

    opset: the version of ONNX's operators in the graph.
    """
    for call in (*edit.remove, *edit.insert):
        if call.domain in ("", "ai.onnx") and not is_of_passes(call.op_type, opset):
            raise DoesNotHold(
                f"{where} is about the {call}, whose form in opset {opset} is not that of opset {OPSET_OF_PASSES}, for"
                " which passes are written"
            )
    for call in edit.insert:
        fault = _fault(call, opset)
        if fault:
            raise DoesNotHold(f"{where} inserts the {call}, which opset {opset} does not have in this form: {fault}")
    removed = {call.key: call for call in edit.remove}
    for call in edit.insert:
        before = removed.get(call.key)
        if call.domain.startswith(_OWN_DOMAIN) and (before is None or _computed(before) != _computed(call)):
            raise DoesNotHold(f"{where} changes the {call}, which is of another opset, and which no pass may change")
    for _, bodies in edit.inside:
        for body, inner in bodies:
            check_versions(inner, opset, f"{where}, in {escaped(body)}")


def check_own_calls(edit: LoggedEdit, before: int, after: int, name: str) -> None:
    """Raises DoesNotHold if loading or exporting changes a call while it gives it, or takes from it, its own domain.

    before, after: the version of ONNX's operators in the graph. name: of the step.
    """
    sides = ((edit.insert, edit.remove, before), (edit.remove, edit.insert, after))
    for calls, others, opset in sides:
        plain = {call.key: call for call in others if call.domain in ("", "ai.onnx")}
        for call in calls:
            other = plain.get(call.key)
            if not call.domain.startswith(_OWN_DOMAIN):
                continue
            same = other is not None and _in_onnx_domain(call) == _in_onnx_domain(other)
            if call.domain != f"{_OWN_DOMAIN}{opset}" or not same:
                raise DoesNotHold(f"{name} has the {call} for what is no such call of opset {opset}")


def _in_onnx_domain(call: PlainNode) -> tuple[object, ...]:
    """The call without its domain; of bodies, whose calls are converted, only that there are some."""
    kinds = {name: entry if not entry[0].startswith("graph") else entry[0] for name, entry in call.attributes.items()}
    return call.op_type, call.overload, call.inputs, call.outputs, kinds


def _computed(call: PlainNode) -> tuple[object, ...]:
    """What a call computes, but for the names of its operands."""
    return call.operator, call.overload, len(call.inputs), call.outputs, call.attributes


@cache
def is_of_passes(op_type: str, opset: int) -> bool:
    """Whether a call of this opset is valid in that of passes, and means the same there."""
    if opset >= OPSET_OF_PASSES or not defs.has(op_type, opset, ""):
        return True
    before, after = defs.get_schema(op_type, opset, ""), defs.get_schema(op_type, OPSET_OF_PASSES, "")
    if before.since_version == after.since_version:
        return True
    if opset < _CHANGED_MEANINGS.get(op_type, 0) or after.deprecated:
        return False
    attributes = all(
        name in after.attributes and after.attributes[name].default_value == attribute.default_value
        for name, attribute in before.attributes.items()
    )
    older, newer = ([formal.name for formal in schema.inputs] for schema in (before, after))
    operands = newer[: len(older)] == older
    return attributes and operands and after.min_input <= before.min_input and len(after.outputs) >= len(before.outputs)


def _fault(call: PlainNode, opset: int) -> str:
    """Why the call is not valid at the opset; "" if it is, or if ONNX does not define the operator."""
    if call.domain not in ("", "ai.onnx") or not defs.has(call.op_type):
        return ""
    if not has_schema("", call.op_type, opset):
        return "it came later"
    schema = defs.get_schema(call.op_type, opset, "")
    unknown = next(_unknown_attributes(call, schema), None)
    if unknown is not None:
        return f"it has no attribute {in_quotes(unknown)}"
    if not schema.min_input <= len(call.inputs) <= schema.max_input:
        return f"it takes {schema.min_input:,} to {schema.max_input:,} operands"
    return ""


def _unknown_attributes(call: PlainNode, schema: defs.OpSchema) -> Iterator[str]:
    return (name for name in call.attributes if name not in schema.attributes)
