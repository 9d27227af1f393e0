"""Removes attributes and trailing inputs of functions of the domain "workbench" that no call sets.

ONNX allows a call to omit an attribute of a function, or its trailing inputs. ONNX Runtime then omits them in the body;
onnx.reference and other runtimes fail.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from workbench.ir import AttrRef, Function, Graph, Node
from workbench.ir.attribute_defaults import defaults_at
from workbench.ir.function_calls import Key, function_key, graphs_within
from workbench.ops.channels_last import DOMAIN

_DEFAULT_LIST_ELEMENT = {"dilations": 1, "strides": 1, "pads": 0, "output_padding": 0}  # each element of the default
_KERNEL_SHAPE = "kernel_shape"  # a convolution can take it from its weight
_Calls = dict[Key, list[Node]]


def without_unused_parameters(graph: Graph) -> Graph:
    """A copy of the graph whose functions declare only the attributes and inputs that some call sets.

    If only some calls set an attribute, the other calls get its default explicitly; without a default it stays omitted.
    A trailing input that only other calls pass becomes "".
    """
    while True:  # removing a parameter of a function may leave parameters of the functions that it calls unused
        calls: _Calls = {}
        for part in graphs_within(graph, graph.functions):
            for node in part.nodes:
                calls.setdefault(function_key(node), []).append(node)
        changed = {key: new for key, old in graph.functions.items() if (new := _pruned(old, calls.get(key, []))) != old}
        added = {key: _defaults(function, calls[key]) for key, function in graph.functions.items() if key in calls}
        if not changed and not any(added.values()):
            return _rebuilt(graph, graph.functions, {})
        graph = _rebuilt(graph, {**graph.functions, **changed}, added)


def _pruned(function: Function, calls: list[Node]) -> Function:
    """The function without attributes and trailing inputs that no call sets.

    An attribute that every call sets loses its default.
    """
    if function.domain != DOMAIN or not calls:
        return function
    given = {name for call in calls for name in call.attributes} - _unneeded_attributes(function, calls)
    removed = {name: value for name, value in function.attributes.items() if name not in given}
    by_all = {name for name in given if all(name in call.attributes for call in calls)}
    attributes = {name: None if name in by_all else v for name, v in function.attributes.items() if name in given}
    count = max(len(_strip_trailing_empty(call.inputs)) for call in calls)
    if attributes == dict(function.attributes) and count == len(function.graph.inputs):
        return function
    body = _without_references(function.graph, removed, dict.fromkeys(function.graph.inputs[count:], ""))
    body.inputs = body.inputs[:count]
    return dataclasses.replace(function, graph=body, attributes=attributes)


def _strip_trailing_empty(values: tuple[str, ...]) -> tuple[str, ...]:
    while values and not values[-1]:
        values = values[:-1]
    return values


def _unneeded_attributes(function: Function, calls: list[Node]) -> set[str]:
    """A kernel's shape, if a call omits it and only convolutions read it."""
    readers = {op for op, _ in _readers(function.graph, _KERNEL_SHAPE)}
    is_omitted = any(_KERNEL_SHAPE not in call.attributes for call in calls)
    return {_KERNEL_SHAPE} if is_omitted and readers <= {"Conv", "ConvTranspose"} else set()


def _defaults(function: Function, calls: list[Node]) -> dict[str, Any]:
    """For each attribute that only some calls set: the value to add to the calls that omit it."""
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
    """The attribute's default, by the operator that reads it; None if there is none. example: another call's value."""
    if name in _DEFAULT_LIST_ELEMENT and isinstance(example, tuple):
        return (_DEFAULT_LIST_ELEMENT[name],) * len(example)
    for op_type, key in _readers(function.graph, name):
        default = defaults_at(op_type, function.graph.opset_imports.get("", 1)).get(key)
        if default is not None:
            return default
    return None


def _readers(graph: Graph, name: str) -> Iterator[tuple[str, str]]:
    """(operator, attribute) for each attribute of an ONNX operator in the body that refers to the function's `name`."""
    for node in graph.nodes:
        for key, value in node.attributes.items():
            if isinstance(value, AttrRef) and value.name == name and not node.domain:
                yield node.op_type, key


def _without_references(graph: Graph, removed: Mapping[str, Any], omitted: Mapping[str, str]) -> Graph:
    """The body with each reference to a removed attribute replaced by its default, or dropped if the default is None.

    omitted: maps each removed input of the function to "".
    """

    def changed(node: Node) -> Node:
        values = {
            key: removed.get(value.name, value) if isinstance(value, AttrRef) else value
            for key, value in node.attributes.items()
        }
        attributes = {key: value for key, value in values.items() if value is not None}
        inputs = _strip_trailing_empty(tuple(omitted.get(value, value) for value in node.inputs))
        return node.replace(attributes=attributes, inputs=inputs)

    return graph.with_nodes(map(changed, graph.nodes))


def _rebuilt(graph: Graph, functions: Mapping[Key, Function], added: Mapping[Key, Mapping[str, Any]]) -> Graph:
    """A copy of the graph with these functions. added: by function, attributes for those calls that omit them."""

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
