"""Inlines calls of a model's functions, with the attributes and operands of each call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from workbench.ir.edit import Edit
from workbench.ir.graph import Graph
from workbench.ir.node import AttrRef, Function, Node
from workbench.ir.types import Constant, constant

Key = tuple[str, str, str]  # domain, name and overload of a function
# The attributes with which a Constant may hold numbers of the function's attributes, with their element types.
_HELD = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}


def function_key(node: Node) -> Key:
    """The key of the function that the node would call."""
    return (node.domain, node.op_type, node.overload)


def graphs_within(graph: Graph, functions: Mapping[Key, Function]) -> Iterator[Graph]:
    """The graph, the functions' graphs, and all bodies in them, at any depth."""
    waiting = [graph, *(function.graph for function in functions.values())]
    while waiting:
        current = waiting.pop()
        yield current
        for node in current.nodes:
            waiting += node.bodies.values()


def body_of_call(body: Graph, function: Function, call: Node) -> Graph:
    """The body with the call's attributes, and the function's defaults, in place of references."""
    values = {**{key: value for key, value in function.attributes.items() if value is not None}, **call.attributes}
    return with_attribute_values(body, values)


def with_attribute_values(body: Graph, values: Mapping[str, Any]) -> Graph:
    """The body with attribute references replaced by values; a reference without a value is omitted.

    A Constant that held such a value becomes a constant of the graph.
    """
    nodes = [_with_values(node, values) for node in body.nodes]
    held = {node.outputs[0]: tensor for node in nodes if (tensor := _held(node)) is not None}
    return Graph(
        name=body.name,
        inputs=body.inputs,
        outputs=body.outputs,
        nodes=[node for node in nodes if node.outputs[0] not in held],
        constants={**body.constants, **held},
        types=body.types,
        opset_imports=body.opset_imports,
        kept=body.kept,
    )


def _held(node: Node) -> Constant | None:
    """The numbers of a Constant that held an attribute of the function; None for any other node."""
    if node.op != "Constant" or len(node.attributes) != 1:
        return None
    ((key, value),) = node.attributes.items()
    dtype = _HELD.get(key)
    return None if dtype is None or isinstance(value, AttrRef) else constant(np.array(value, dtype), node.outputs[0])


def _with_values(node: Node, values: Mapping[str, Any]) -> Node:
    attributes = {}
    for key, value in node.attributes.items():
        if isinstance(value, AttrRef):
            if value.name in values:
                attributes[key] = values[value.name]
        elif isinstance(value, Graph):
            attributes[key] = with_attribute_values(value, values)
        else:
            attributes[key] = value
    return node.replace(attributes=attributes)


def operands_of_call(function: Function, call: Node) -> dict[str, str]:
    """The operand of each input of the function, "" if omitted."""
    operands = (*call.inputs, *("",) * (len(function.graph.inputs) - len(call.inputs)))
    return dict(zip(function.graph.inputs, operands, strict=True))


def inlined_body(
    functions: Mapping[Key, Function],
    function: Function,
    known: dict[Key, Graph],
    keeps_call: Callable[[Node, Function], bool],
) -> Graph:
    """The function's body with the calls in it inlined.

    known: a cache of bodies by function. keeps_call: whether a call of a function is not inlined.
    """
    if function.key in known:
        return known[function.key]
    body: Graph = function.graph.copy()
    for name in [node.name for node in body.nodes]:
        node = body.node(name)  # its operands may have been replaced
        called = functions.get(function_key(node))
        if called is None or keeps_call(node, called):
            continue
        inner = body_of_call(inlined_body(functions, called, known, keeps_call), called, node)
        body.apply(in_place(body, node, inner, operands_of_call(called, node)))
    return known.setdefault(function.key, body)


def in_place(graph: Graph, node: Node, body: Graph, input_values: Mapping[str, str]) -> Edit:
    """The edit that replaces `node` by the nodes of its body, with the types that the body declares.

    input_values: by input of the body, a value of the graph. Names that the graph has already are changed; the
    results of the body replace those of the node.
    """
    names = dict(input_values)
    taken = {v for other in graph.nodes if other.bodies and other.name != node.name for v in other.inner_values}
    for value in body.values():
        if value not in names:
            names[value] = value if _is_free(graph, value, taken) else graph.fresh(value, taken)
            taken.add(names[value])
    nodes, used = [], set[str]()
    for inner in body.nodes:
        name = inner.name if inner.name not in graph and inner.name not in used else graph.fresh(inner.name, used)
        used.add(name)
        renamed = inner.with_values_renamed(names)
        nodes.append(renamed.replace(name=name, outputs=tuple(names.get(v, v) for v in inner.outputs)))
    results = [names.get(value, value) for value in body.outputs]
    return Edit(
        remove=(node.name,),
        insert=tuple(nodes),
        replace={old: new for old, new in zip(node.outputs, results, strict=False) if old and old != new},
        constants={names[value]: tensor for value, tensor in body.constants.items()},
        types={names[value]: type_ for value, type_ in body.types.items() if value not in input_values},
    )


def _is_free(graph: Graph, value: str, taken: set[str]) -> bool:
    return not (value in taken or value in graph.reserved or graph.has_value(value))


def with_all_inlined(graph: Graph) -> Graph:
    """A copy with all calls of functions inlined, in bodies too, and without imports of domains that are no longer
    used."""
    result = _inlined(graph, graph.functions, {}, frozenset())
    result.functions = {}
    domains = {"", *(node.domain for part in graphs_within(result, {}) for node in part.nodes)}
    result.opset_imports = {domain: version for domain, version in graph.opset_imports.items() if domain in domains}
    return result


def _inlined(
    graph: Graph, functions: Mapping[Key, Function], known: dict[Key, Graph], outside: frozenset[str]
) -> Graph:
    """The graph with all calls inlined. outside: the names of values in the graphs around it."""
    result = graph.copy()
    result.reserved |= outside
    result.inputs += result.captured  # else an edit takes them for undefined
    for name in [node.name for node in graph.nodes]:
        node = result.node(name)
        function = functions.get(function_key(node))
        if function is not None:
            body = body_of_call(inlined_body(functions, function, known, lambda *_: False), function, node)
            edit = in_place(result, node, body, operands_of_call(function, node))
            result.apply(edit)
            if name in graph.provenance:  # what made the call made its nodes; their layouts are others
                made = replace(graph.provenance[name], layout="")
                result.provenance.update({inner.name: made for inner in edit.insert})
    visible = outside.union(result.values()) if result.with_bodies else outside
    for node in result.with_bodies:
        inner = {key: _inlined(body, functions, known, visible) for key, body in node.bodies.items()}
        result.apply(Edit(remove=(node.name,), insert=(node.with_bodies(inner),)))
    result.inputs, result.reserved = graph.inputs, graph.reserved
    return result
