"""What made each node of a result, with the layouts of its results, as written files carry it."""

from __future__ import annotations

from dataclasses import replace

from workbench.ir import Graph
from workbench.planning.layout.infer import TENSOR, infer_layouts


def with_layouts(graph: Graph) -> Graph:
    """A copy of the graph in whose provenance each node has the layout of its first result; Tensor is left out."""
    result = graph.copy()
    if not graph.provenance:
        return result
    layouts = infer_layouts(graph)
    for name, provenance in graph.provenance.items():
        node = graph.find(name)
        layout = layouts.get(node.outputs[0], TENSOR) if node is not None and node.outputs else TENSOR
        if not provenance.layout and layout != TENSOR:
            result.provenance[name] = replace(provenance, layout=layout)
    return result
