"""The graphs inside a graph: bodies of If, Loop and Scan, and model-local functions."""

from __future__ import annotations

from workbench.ir import Graph

MAIN = "main graph"


def all_graphs(graph: Graph) -> dict[str, Graph]:
    """All graphs of the model, the main graph first; each by a name such as "Loop l / body"."""
    results = {MAIN: graph}
    _bodies(graph, "", results)
    for function in graph.functions.values():
        name = f"function {function.domain}.{function.name}"
        results[name] = function.graph
        _bodies(function.graph, f"{name} / ", results)
    return results


def _bodies(graph: Graph, prefix: str, results: dict[str, Graph]) -> None:
    for node in graph.nodes:
        for attribute, body in node.bodies.items():
            name = f"{prefix}{node.op_type} {node.name} / {attribute}"
            results[name] = body
            _bodies(body, f"{name} / ", results)
