"""The functions of the domain "workbench" that a file has: one for each set of attributes that calls give.

The body of an ONNX function refers to the attributes of a call. What a call omits, ONNX Runtime omits in the body, and
onnx.reference fails; a default in its place is not always neutral: a convolution has `pads` or `auto_pad`. So each set
of attributes has a function of its own, whose body has exactly these.

If the calls of an operator give several sets, the names of its functions tell them apart, by the attributes that not
every call gives: `Conv_NHWC__pads` and `Conv_NHWC__auto_pad`. A graph has plain names and none of these functions.
ONNX's overloads (IR 10) are no alternative: ONNX Runtime 1.18 to 1.22 runs one body for all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator

from workbench.ir import AttrRef, Function, Graph, Node
from workbench.ir.function_calls import Key, function_key, graphs_within, inlined_body
from workbench.ir.text import OPSET
from workbench.ops.channels_last import DOMAIN
from workbench.ops.npu import is_own, own_function
from workbench.support.reachability import reachable

_SEPARATOR = "__"  # before each attribute in a name; no operator of ours has it
_Variant = tuple[str, frozenset[str]]  # an operator of ours, and the attributes that a call gives


def with_own_functions(graph: Graph, of_types: bool = False) -> Graph:
    """The graph with the functions that it calls, those of the domain "workbench" included, and their imports.

    of_types: whether these are for type inference, and not to be run.
    Returns the graph itself if it has no functions and needs none. Functions that are not called are removed, as by
    TVM's RemoveUnusedFunctions.
    """
    opset = graph.opset_imports.get("") or OPSET
    called = _called(graph)
    own = _own_functions([graph, *(function.graph for function in called.values())], opset, of_types)
    imports = dict(graph.opset_imports)
    bodies = (function.graph for function in (*called.values(), *own.values()))
    for node in (node for outer in (graph, *bodies) for node in _nodes(outer)):
        imports.setdefault(node.domain, opset if node.domain == "" else 1)
    if not own and not graph.functions and imports == graph.opset_imports:
        return graph
    names = _names(own)

    def named(node: Node) -> Node:
        if not _is_own(node):
            return node
        variant = _variant_of(node, opset)
        count = len(own[variant].graph.inputs)
        return node.replace(
            op_type=names[variant],
            attributes={name: value for name, value in node.attributes.items() if name in variant[1]},
            inputs=(*node.inputs, *("",) * count)[:count],
        )

    result = _with_nodes(graph, named)
    functions = [*called.values(), *(dataclasses.replace(own[variant], name=name) for variant, name in names.items())]
    result.functions = {f.key: dataclasses.replace(f, graph=_with_nodes(f.graph, named)) for f in functions}
    result.opset_imports = imports
    return result


def without_own_functions(graph: Graph) -> tuple[Graph, list[str]]:
    """The graph of a file with its calls of our operators by their plain names, and without the functions of these.

    Also the names of those that the file calls without having their functions.
    """
    called = {
        function_key(node) for part in graphs_within(graph, graph.functions) for node in part.nodes if _is_own(node)
    }
    if not called:
        return graph, []

    def plain(node: Node) -> Node:
        return node.replace(op_type=plain_name(node.op_type), overload="") if _is_own(node) else node

    others = {key: function for key, function in graph.functions.items() if not is_own_function(*key[:2])}
    result = _with_nodes(graph, plain)
    result.functions = {key: dataclasses.replace(f, graph=_with_nodes(f.graph, plain)) for key, f in others.items()}
    return result, sorted({f"{DOMAIN}.{op_type}" for _, op_type, _ in called - graph.functions.keys()})


def is_own_function(domain: str, name: str) -> bool:
    """Whether a function of this name is one of ours."""
    return domain == DOMAIN and is_own(plain_name(name))


def own_definition(name: str, attributes: Iterable[str], inputs: int) -> Function:
    """The function of ours that a file has by this name, with these attributes and so many inputs."""
    return _with_only(own_function(plain_name(name)), frozenset(attributes), inputs)


def own_variant(name: str, attributes: Iterable[str], inputs: int, opset: int) -> Function:
    """The function of ours that a file has by this name, with these attributes and so many inputs, for type inference.

    It is valid at `opset`, and has the bodies of what it calls in place of the calls.
    """
    function = _with_only(own_function(plain_name(name), opset, of_types=True), frozenset(attributes), inputs)
    called: dict[Key, Function] = {}
    waiting = [function]
    while waiting:
        for node in filter(_is_own, waiting.pop().graph.nodes):
            called[function_key(node)] = own_function(node.op_type, opset, of_types=True)
            waiting.append(called[function_key(node)])
    body = inlined_body(called, function, {}, lambda *_: False)
    return dataclasses.replace(function, name=name, graph=body)


def plain_name(op_type: str) -> str:
    """The operator of which a function of this name is a variant."""
    return op_type.partition(_SEPARATOR)[0]


def _is_own(node: Node) -> bool:
    return is_own_function(node.domain, node.op_type)


def _variant_of(node: Node, opset: int) -> _Variant:
    op_type = plain_name(node.op_type)
    return op_type, frozenset(node.attributes.keys() & own_function(op_type, opset).attributes.keys())


def _names(variants: Iterable[_Variant]) -> dict[_Variant, str]:
    """The name of each variant: the operator's, and the attributes that not all of its variants have."""
    sets: dict[str, list[frozenset[str]]] = {}
    for op_type, attributes in variants:
        sets.setdefault(op_type, []).append(attributes)
    common = {op_type: frozenset.intersection(*of_operator) for op_type, of_operator in sets.items()}
    return {
        (op_type, attributes): _SEPARATOR.join((op_type, *sorted(attributes - common[op_type])))
        for op_type, attributes in variants
    }


def _called(graph: Graph) -> dict[Key, Function]:
    """The model's own functions that it calls, directly or in other functions."""

    def called_in(inner: Graph) -> Iterator[Key]:
        keys = (function_key(node) for node in _nodes(inner) if not _is_own(node))
        return (key for key in keys if key in graph.functions)

    if not graph.functions:
        return {}
    keys = reachable(called_in(graph), lambda key: called_in(graph.functions[key].graph))
    return {key: graph.functions[key] for key in keys}


def _own_functions(graphs: Iterable[Graph], opset: int, of_types: bool) -> dict[_Variant, Function]:
    """The function of each variant that these graphs call, directly or in other functions of ours.

    A function has as many inputs as some call passes.
    """
    graphs = list(graphs)
    inputs: dict[_Variant, int] = {}
    functions: dict[_Variant, Function] = {}
    while True:  # what the bodies call is known when they have their own attributes and inputs
        passed: dict[_Variant, int] = {}
        for graph in (*graphs, *(function.graph for function in functions.values())):
            for node in filter(_is_own, _nodes(graph)):
                variant = _variant_of(node, opset)
                passed[variant] = max(passed.get(variant, 0), len(_without_trailing_empty(node.inputs)))
        if passed == inputs:
            return functions
        inputs = passed
        functions = {
            (name, given): _with_only(own_function(name, opset, of_types), given, n)
            for (name, given), n in inputs.items()
        }


def _with_only(function: Function, attributes: frozenset[str], inputs: int) -> Function:
    """The function with these attributes alone, which every call gives, and with its first inputs.

    In its body an attribute that has gone is its default, or is omitted if it has none.
    """
    gone = {name: default for name, default in function.attributes.items() if name not in attributes}
    omitted = dict.fromkeys(function.graph.inputs[inputs:], "")

    def changed(node: Node) -> Node:
        values = {
            key: gone.get(value.name, value) if isinstance(value, AttrRef) else value
            for key, value in node.attributes.items()
        }
        return node.replace(
            attributes={key: value for key, value in values.items() if value is not None},
            inputs=_without_trailing_empty(tuple(omitted.get(value, value) for value in node.inputs)),
        )

    body = function.graph.with_nodes(map(changed, function.graph.nodes))
    body.inputs = body.inputs[:inputs]
    return dataclasses.replace(function, graph=body, attributes=dict.fromkeys(sorted(attributes)))


def _without_trailing_empty(values: tuple[str, ...]) -> tuple[str, ...]:
    while values and not values[-1]:
        values = values[:-1]
    return values


def _nodes(graph: Graph) -> Iterator[Node]:
    """The nodes of a graph and of all bodies in it."""
    return (node for part in graphs_within(graph, {}) for node in part.nodes)


def _with_nodes(graph: Graph, changed: Callable[[Node], Node]) -> Graph:
    """A copy of the graph with each node changed, in bodies too."""

    def with_bodies(node: Node) -> Node:
        bodies = {key: _with_nodes(body, changed) for key, body in node.bodies.items()}
        return node.with_bodies(bodies) if bodies else node

    return graph.with_nodes(with_bodies(changed(node)) for node in graph.nodes)
