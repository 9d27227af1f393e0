"""A graph that fails, cut down to a few nodes that still fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from workbench.evidence.verification.pass_files.example_graphs import rebuilt, with_outputs
from workbench.ir import Graph, TensorType

MOST_TRIES = 400


def cut_down(graph: Graph, fails: Callable[[Graph], bool]) -> Graph:
    """The graph with fewer outputs and nodes that still fails: a value becomes the only output, or an input.

    Greedy, as in delta debugging (Zeller and Hildebrandt, 2002): the first cut that fails is taken, and all are
    tried again.
    """
    tries = 0
    while True:
        for smaller in _cuts(graph):
            tries += 1
            if tries > MOST_TRIES:
                return graph
            if fails(smaller):
                graph = smaller
                break
        else:
            return graph


def _cuts(graph: Graph) -> Iterator[Graph]:
    """Smaller graphs, the smallest first where that is cheap to know."""
    if len(graph.outputs) > 1:
        yield from (with_outputs(graph, [v]) for v in graph.outputs)
        yield from (with_outputs(graph, [o for o in graph.outputs if o != v]) for v in graph.outputs)
    for node in graph.nodes:
        for value in filter(None, node.outputs):
            if value not in graph.outputs and isinstance(graph.type(value), TensorType):
                yield with_outputs(graph, [value])
    for node in reversed(graph.nodes):
        types = {v: graph.type(v) for v in node.outputs if v}
        if set(types) & set(graph.outputs) or any(
            not isinstance(t, TensorType) or t.shape is None for t in types.values()
        ):
            continue
        if all(d is not None for t in types.values() for d in t.shape):
            rest = [n for n in graph.nodes if n is not node]
            yield with_outputs(rebuilt(graph, rest, graph.outputs, types, graph.constants), graph.outputs)
