"""Checks that a graph is well formed; each violation is reported as one sentence."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.ir.graph import Graph


class IllFormedError(ValueError):
    """The graph is not well formed; the message says what is wrong and where."""


def check(graph: Graph) -> None:
    """Raise IllFormedError for the first violation in the graph, its bodies or its functions."""
    for violation in violations(graph):
        raise IllFormedError(violation)


def violations(graph: Graph, outside: frozenset[str] = frozenset()) -> Iterator[str]:
    """Every violation, one sentence each. outside: values that a body may capture."""
    constants_and_inputs = {*graph.inputs, *graph.constants}
    defined = constants_and_inputs | outside
    if len(set(graph.inputs)) != len(graph.inputs):
        yield f"graph '{graph.name}' has two inputs with the same name"
    produced: set[str] = set()
    for node in graph.nodes:
        if not defined.issuperset(node.operands):
            for value in node.inputs:
                if value and value not in defined:
                    yield f"{node} reads '{value}', which is not defined before it"
        for value in node.outputs:
            if value and (value in produced or value in constants_and_inputs):
                yield f"value '{value}' is defined twice, the second time by {node}"
            produced.add(value)
        for body in node.bodies.values():
            yield from violations(body, frozenset(defined))
        defined.update(filter(None, node.outputs))
    for value in graph.outputs:
        if value not in defined:
            yield f"output '{value}' of graph '{graph.name}' is not defined"
    for function in graph.functions.values():
        yield from violations(function.graph)
