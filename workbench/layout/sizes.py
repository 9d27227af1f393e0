"""Infers the sizes of values with the symbolic dims bound, for values that passes have created."""

from __future__ import annotations

from workbench.inference.shapes import infer_types
from workbench.ir import Graph, TensorType
from workbench.layout.cost import bound_shape


def infer_sizes(graph: Graph) -> bool:
    """Infer unknown sizes from the inputs and store them on the graph, for costs only; whether any was found."""
    open_ = [v for v in graph.values() if isinstance(graph.types.get(v), TensorType) and bound_shape(graph, v) is None]
    if not open_:
        return False
    found = infer_types(graph, graph.dims, again=True)
    graph.bound_types.update((value, found[value]) for value in open_ if value in found)
    return any(bound_shape(graph, value) is not None for value in open_)
