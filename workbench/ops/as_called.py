"""Functions of the domain "workbench" with the attributes and operands that their calls give, and no others.

ONNX lets a call omit an attribute of a function, or its last operands, and ONNX Runtime then omits them in the body;
onnx.reference and other runtimes stop there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from workbench.ir import AttrRef, Function, Graph, Node
from workbench.ir.attribute_defaults import defaults_at
from workbench.ir.function_calls import Key, function_key, graphs_within
from workbench.ops.channels_last import DOMAIN

_FILLED_WITH = {"dilations": 1, "strides": 1, "pads": 0, "output_padding": 0}  # where a call gives no list
_SAID_TWICE = "kernel_shape"  # a convolution's weight has it too
_Calls = dict[Key, list[Node]]


def with_functions_as_called(graph: Graph) -> Graph:
    """The graph with such functions; a call that lacks what others give gets the value that it has by default.

    An attribute that has none is declared as it was; a last operand that a call lacks is named as omitted.
    """
    while True:  # what a function no longer takes, it no longer gives to the functions that it calls
        calls: _Calls = {}
        for part in graphs_within(graph, graph.functions):
            for node in part.nodes:
                calls.setdefault(function_key(node), []).append(node)
        changed = {key: new for key, old in graph.functions.items() if (new := _given(old, calls.get(key, []))) != old}
        added = {key: _missing(function, calls[key]) for key, function in graph.functions.items() if key in calls}
        if not changed and not any(added.values()):
            return _rebuilt(graph, graph.functions, {})
        graph = _rebuilt(graph, {**graph.functions, **changed}, added)


def _given(function: Function, calls: list[Node]) -> Function:
    """The function without the attributes that no call gives; those that all give have no default."""
    if function.domain != DOMAIN or not calls:
        return function
    given = {name for call in calls for name in call.attributes} - _never(function, calls)
    removed = {name: value for name, value in function.attributes.items() if name not in given}
    everywhere = {name for name in given if all(name in call.attributes for call in calls)}
    left = {name: None if name in everywhere else v for name, v in function.attributes.items() if name in given}
    most = max(len(_without_last_omitted(call.inputs)) for call in calls)
    if left == dict(function.attributes) and most == len(function.graph.inputs):
        return function
    body = _without_references(function.graph, removed, dict.fromkeys(function.graph.inputs[most:], ""))
    body.inputs = body.inputs[:most]
    return dataclasses.replace(function, graph=body, attributes=left)


def _without_last_omitted(values: tuple[str, ...]) -> tuple[str, ...]:
    while values and not values[-1]:
        values = values[:-1]
    return values


def _never(function: Function, calls: list[Node]) -> set[str]:
    """A kernel's shape, where a call lacks it and a convolution reads it."""
    reads = [op for op, _ in _readers(function.graph, _SAID_TWICE)]
    lacking = any(_SAID_TWICE not in call.attributes for call in calls)
    return {_SAID_TWICE} if lacking and set(reads) <= {"Conv", "ConvTranspose"} else set()


def _missing(function: Function, calls: list[Node]) -> dict[str, Any]:
    """The value of each attribute that some calls give, for those that do not."""
    if function.domain != DOMAIN:
        return {}
    results: dict[str, Any] = {}
    for name, default in function.attributes.items():
        example = next((call.attributes[name] for call in calls if name in call.attributes), None)
        if example is None or all(name in call.attributes for call in calls):
            continue
        value = _default(function, name, example) if default is None else default
        if value is not None:
            results[name] = value
    return results


def _default(function: Function, name: str, example: Any) -> Any:
    if name in _FILLED_WITH and isinstance(example, tuple):
        return (_FILLED_WITH[name],) * len(example)
    for op_type, key in _readers(function.graph, name):
        default = defaults_at(op_type, function.graph.opset_imports.get("", 1)).get(key)
        if default is not None:
            return default
    return None


def _readers(graph: Graph, name: str) -> Iterator[tuple[str, str]]:
    """ONNX's operators, and their attributes, that refer to the function's attribute."""
    for node in graph.nodes:
        for key, value in node.attributes.items():
            if isinstance(value, AttrRef) and value.name == name and not node.domain:
                yield node.op_type, key


def _without_references(graph: Graph, removed: Mapping[str, Any], omitted: Mapping[str, str]) -> Graph:
    """The body with the defaults of these attributes in place of references; those without one are omitted.

    omitted: operands, as names that become "".
    """

    def changed(node: Node) -> Node:
        values = {
            key: removed.get(value.name, value) if isinstance(value, AttrRef) else value
            for key, value in node.attributes.items()
        }
        kept = {key: value for key, value in values.items() if value is not None}
        inputs = _without_last_omitted(tuple(omitted.get(value, value) for value in node.inputs))
        return node.replace(attributes=kept, inputs=inputs)

    return graph.with_nodes(map(changed, graph.nodes))


def _rebuilt(graph: Graph, functions: Mapping[Key, Function], added: Mapping[Key, Mapping[str, Any]]) -> Graph:
    def body(part: Graph) -> Graph:
        return part.with_nodes(map(changed, part.nodes))

    def changed(node: Node) -> Node:
        function, call = functions.get(function_key(node)), node
        if function is not None and function.domain == DOMAIN:
            whole = {**added.get(function.key, {}), **node.attributes}
            call = node.replace(
                attributes={key: value for key, value in whole.items() if key in function.attributes},
                inputs=(*node.inputs, *("",) * len(function.graph.inputs))[: len(function.graph.inputs)],
            )
        return call.with_bodies({key: body(inner) for key, inner in call.bodies.items()}) if call.bodies else call

    result = body(graph)
    result.functions = {key: dataclasses.replace(f, graph=body(f.graph)) for key, f in functions.items()}
    return result
