"""Brings a call into the form that its operator had before, according to ONNX's schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from onnx import defs

from workbench.formats.opsets.scope import NoOlderForm, Scope
from workbench.ir import Node
from workbench.ir.attribute_defaults import plain_default
from workbench.ir.node import AttrRef

_NEUTRAL_NUMBERS = {"dilations": 1}  # attributes that change nothing if all their numbers are this one
_VARIADIC = defs.OpSchema.FormalParameterOption.Variadic


@dataclass(frozen=True)
class _Parameter:
    """A formal parameter. variable: its type variable if other parameters may share it, else ""."""

    types: frozenset[str]
    variable: str


@dataclass(frozen=True)
class _Form:
    """An operator's form before a version, compared with that version.

    removed:    attributes that the version added, with their defaults.
    attributes: those of the older form.
    defaults:   defaults of the newer form that differ from those of the older one.
    required:   the indices of inputs that a call must have.
    variadic:   whether the last parameter is variadic, for inputs and for outputs.
    """

    removed: Mapping[str, Any]
    attributes: frozenset[str]
    defaults: Mapping[str, Any]
    required: frozenset[int]
    inputs: Sequence[_Parameter]
    outputs: Sequence[_Parameter]
    variadic: tuple[bool, bool]


@cache
def since_version(op_type: str, opset: int) -> int:
    """The opset that introduced the form that ONNX's operator has in `opset`; 0 if it does not exist there."""
    return int(defs.get_schema(op_type, opset, "").since_version) if defs.has(op_type, opset, "") else 0


def in_form_before(node: Node, scope: Scope, since: int) -> Node:
    """The call in the form that was valid before opset `since`. Raises NoOlderForm."""
    form = _form_before(node.op_type, since)
    if form is None:
        raise NoOlderForm
    _check_operands(node.inputs, form.inputs, form.variadic[0], scope)
    _check_operands(node.outputs, form.outputs, form.variadic[1], scope)
    if not form.required.issubset(index for index, value in enumerate(node.inputs) if value):
        raise NoOlderForm
    attributes = dict(_kept_attributes(node, form))
    attributes.update((key, value) for key, value in form.defaults.items() if key not in attributes)
    return node if attributes == dict(node.attributes) else node.replace(attributes=attributes)


def _kept_attributes(node: Node, form: _Form) -> Iterator[tuple[str, Any]]:
    for key, value in node.attributes.items():
        if key in form.attributes:
            yield key, value
        elif isinstance(value, AttrRef) or not _is_neutral(key, value, form.removed):
            raise NoOlderForm


def _is_neutral(key: str, value: Any, removed: Mapping[str, Any]) -> bool:
    if key in removed and value == removed[key]:
        return True
    return key in _NEUTRAL_NUMBERS and all(number == _NEUTRAL_NUMBERS[key] for number in value)


def _check_operands(values: Sequence[str], parameters: Sequence[_Parameter], variadic: bool, scope: Scope) -> None:
    """Raises NoOlderForm for more operands than parameters, and for a type that a parameter does not take."""
    bound: dict[str, str] = {}
    for index, value in enumerate(values):
        if not value:
            continue
        if index >= len(parameters) and not variadic:
            raise NoOlderForm
        parameter = parameters[min(index, len(parameters) - 1)]
        type_ = scope.type(value)
        if type_ is None:
            continue
        name = f"tensor({type_.dtype.name.lower()})"
        if name not in parameter.types or bound.setdefault(parameter.variable or value, name) != name:
            raise NoOlderForm


@cache
def _form_before(op_type: str, since: int) -> _Form | None:
    if not defs.has(op_type, since - 1, "") or defs.get_schema(op_type, since - 1, "").deprecated:
        return None
    new, old = defs.get_schema(op_type, since, ""), defs.get_schema(op_type, since - 1, "")
    defaults = {key: plain_default(attribute) for key, attribute in new.attributes.items()}
    changed = {
        key: defaults[key]
        for key, attribute in old.attributes.items()
        if defaults.get(key) is not None and defaults[key] != plain_default(attribute)
    }
    return _Form(
        removed={key: value for key, value in defaults.items() if key not in old.attributes and value is not None},
        attributes=frozenset(old.attributes),
        defaults=changed,
        required=frozenset(_required(old)),
        inputs=[_parameter(p) for p in old.inputs],
        outputs=[_parameter(p) for p in old.outputs],
        variadic=(_is_variadic(old.inputs), _is_variadic(old.outputs)),
    )


def _parameter(parameter: defs.OpSchema.FormalParameter) -> _Parameter:
    shared = parameter.is_homogeneous and "(" not in parameter.type_str
    return _Parameter(frozenset(parameter.types), parameter.type_str if shared else "")


def _required(schema: defs.OpSchema) -> Iterator[int]:
    """Loop's number and condition, each of which may be left out, stand before its state: `min_input` counts them."""
    for index in range(schema.min_input):
        if schema.inputs[min(index, len(schema.inputs) - 1)].option != defs.OpSchema.FormalParameterOption.Optional:
            yield index


def _is_variadic(parameters: Sequence[defs.OpSchema.FormalParameter]) -> bool:
    return bool(parameters) and parameters[-1].option == _VARIADIC
