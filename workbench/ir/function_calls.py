"""Calls of a model's functions: the body in place of the call, with the call's attributes and operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from workbench.ir.edit import Edit
from workbench.ir.graph import Graph
from workbench.ir.node import AttrRef, Function, Node

Key = tuple[str, str, str]  # of a function


def function_key(node: Node) -> Key:
    """The key of the function that the node would call."""
    return (node.domain, node.op_type, node.overload)


def graphs_within(graph: Graph, functions: Mapping[Key, Function]) -> Iterator[Graph]:
    """The graph, those of the functions, and the bodies in all of them, at any depth."""
    waiting = [graph, *(function.graph for function in functions.values())]
    while waiting:
        result = waiting.pop()
        yield result
        for node in result.nodes:
            waiting += node.bodies.values()


def body_of_call(body: Graph, function: Function, call: Node) -> Graph:
    """The body with the call's attributes, and the function's defaults, in place of references."""
    given = {**{key: value for key, value in function.attributes.items() if value is not None}, **call.attributes}
    return with_attribute_values(body, given)


def with_attribute_values(body: Graph, given: Mapping[str, Any]) -> Graph:
    """The body with references replaced by these values; a reference to an attribute that is not given is omitted."""
    return Graph(
        name=body.name,
        inputs=body.inputs,
        outputs=body.outputs,
        nodes=[_with_values(node, given) for node in body.nodes],
        constants=body.constants,
        types=body.types,
        opset_imports=body.opset_imports,
    )


def _with_values(node: Node, given: Mapping[str, Any]) -> Node:
    attributes = {}
    for key, value in node.attributes.items():
        if isinstance(value, AttrRef):
            if value.name in given:
                attributes[key] = given[value.name]
        elif isinstance(value, Graph):
            attributes[key] = with_attribute_values(value, given)
        else:
            attributes[key] = value
    return node.replace(attributes=attributes)


def operands_of_call(function: Function, call: Node) -> dict[str, str]:
    """The operand of each input of the function, "" if omitted."""
    operands = (*call.inputs, *("",) * (len(function.graph.inputs) - len(call.inputs)))
    return dict(zip(function.graph.inputs, operands, strict=True))


def unfolded_body(
    functions: Mapping[Key, Function],
    function: Function,
    known: dict[Key, Graph],
    stays: Callable[[Node, Function], bool],
) -> Graph:
    """The function's body with the calls in it inlined, each function once.

    known: a cache. stays: whether a call of a function is left as it is.
    """
    if function.key in known:
        return known[function.key]
    body: Graph = function.graph.copy()
    for name in [node.name for node in body.nodes]:
        node = body.node(name)  # its operands may have been replaced
        called = functions.get(function_key(node))
        if called is None or stays(node, called):
            continue
        inner = body_of_call(unfolded_body(functions, called, known, stays), called, node)
        body.apply(in_place(body, node, inner, operands_of_call(called, node)))
    return known.setdefault(function.key, body)


def in_place(graph: Graph, node: Node, body: Graph, given: Mapping[str, str]) -> Edit:
    """The edit that replaces `node` by the nodes of its body, with the types that the body declares.

    given: the value for each input of the body. Names that the graph has already are changed; the results of
    the body replace those of the node.
    """
    names = dict(given)
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
        types={names[value]: type_ for value, type_ in body.types.items() if value not in given},
    )


def _is_free(graph: Graph, value: str, taken: set[str]) -> bool:
    return not (value in taken or value in graph.reserved or graph.has_value(value))


def with_all_inlined(graph: Graph) -> Graph:
    """A copy without functions: each call of one, in bodies too, is its body. Imports of domains without calls go."""
    result = _inlined(graph, graph.functions, {}, frozenset())
    result.functions = {}
    domains = {"", *(node.domain for part in graphs_within(result, {}) for node in part.nodes)}
    result.opset_imports = {domain: version for domain, version in graph.opset_imports.items() if domain in domains}
    return result


def _inlined(
    graph: Graph, functions: Mapping[Key, Function], known: dict[Key, Graph], outside: frozenset[str]
) -> Graph:
    """outside: the names of the graphs around it."""
    result = graph.copy()
    result.reserved |= outside
    result.inputs += result.captured  # which an edit takes for undefined
    for name in [node.name for node in graph.nodes]:
        node = result.node(name)
        function = functions.get(function_key(node))
        if function is not None:
            body = body_of_call(unfolded_body(functions, function, known, lambda *_: False), function, node)
            result.apply(in_place(result, node, body, operands_of_call(function, node)))
    here = outside.union(result.values()) if result.with_bodies else outside
    for node in result.with_bodies:
        inner = {key: _inlined(body, functions, known, here) for key, body in node.bodies.items()}
        result.apply(Edit(remove=(node.name,), insert=(node.with_bodies(inner),)))
    result.inputs, result.reserved = graph.inputs, graph.reserved
    return result
