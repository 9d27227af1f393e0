"""The sizes of values with the dims bound, found anew where passes have made values that loading did not see."""

from __future__ import annotations

from workbench.inference.shapes import infer_types
from workbench.ir import Graph, TensorType
from workbench.layout.cost import bound_shape


def infer_sizes(graph: Graph) -> bool:
    """Note on the graph, for costs only, sizes that follow from its inputs and were open; was any found?"""
    open_ = [v for v in graph.values() if isinstance(graph.types.get(v), TensorType) and bound_shape(graph, v) is None]
    if not open_:
        return False
    found = infer_types(graph, graph.dims, again=True)
    graph.bound_types.update((value, found[value]) for value in open_ if value in found)
    return any(bound_shape(graph, value) is not None for value in open_)
