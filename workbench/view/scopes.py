"""The graphs inside a graph: bodies of If, Loop and Scan, and model-local functions."""

from __future__ import annotations

from workbench.ir import Graph

MAIN = "main graph"


def inner_graphs(graph: Graph) -> dict[str, Graph]:
    """All graphs of the model by a name that says where they are, the main graph first."""
    found = {MAIN: graph}
    _bodies(graph, "", found)
    for function in graph.functions.values():
        name = f"function {function.domain}.{function.name}"
        found[name] = function.graph
        _bodies(function.graph, f"{name} / ", found)
    return found


def _bodies(graph: Graph, where: str, found: dict[str, Graph]) -> None:
    for node in graph.nodes:
        for attribute, body in node.bodies.items():
            name = f"{where}{node.op_type} {node.name} / {attribute}"
            found[name] = body
            _bodies(body, f"{name} / ", found)
