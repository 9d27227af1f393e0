"""Expands calls of model-local functions, such as fused groups, for the analysis of layouts."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.ir import Function, Graph, Node, ValueType
from workbench.ir.function_calls import function_key
from workbench.ops import contract_of


def called_function(graph: Graph, node: Node) -> Function | None:
    """The function that the node calls; None for an operator with a contract."""
    if not graph.functions or contract_of(node) is not None:
        return None
    return graph.functions.get(function_key(node))


def with_bodies_of_calls(graph: Graph, nodes: Iterable[Node]) -> Graph:
    """A graph of these nodes with each call replaced by the operators of its body, recursively."""
    waiting = list(nodes)[::-1]
    values = {*graph.inputs, *(value for node in waiting for value in (*node.operands, *node.outputs))}
    types: dict[str, ValueType] = {value: graph.types[value] for value in values if value in graph.types}
    constants = {value: graph.constants[value] for value in values if value in graph.constants}
    expanded: list[Node] = []
    while waiting:
        node = waiting.pop()
        function = called_function(graph, node)
        if function is None:
            expanded.append(node.replace(name=f"{len(expanded)}"))
            continue
        body = function.graph
        names = dict(zip(body.inputs, node.inputs, strict=False))
        names |= dict(zip(body.outputs, node.outputs, strict=False))
        names |= {value: f"{node.name}/{value}" for value in body.values() if value not in names}
        types |= {names[value]: type_ for value, type_ in body.types.items() if names[value] not in types}
        constants |= {names[value]: tensor for value, tensor in body.constants.items()}
        for inner in reversed(body.nodes):
            renamed = inner.with_values_renamed(names)
            waiting.append(renamed.replace(outputs=tuple(names.get(v, v) for v in inner.outputs)))
    return Graph(
        inputs=graph.inputs,
        outputs=graph.outputs,
        nodes=expanded,
        constants=constants,
        types=types,
        opset_imports=graph.opset_imports,
        metadata=graph.metadata,
        dims=graph.dims,
        bound_types={value: graph.bound_types[value] for value in values if value in graph.bound_types},
    )
