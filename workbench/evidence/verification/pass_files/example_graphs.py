"""Graphs of examples with the types of their values, whole or in part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.analysis.inference.shapes import infer_types
from workbench.ir import Constant, DataType, Edit, Graph, Node, TensorType, from_text
from workbench.ir.types import Dim


def typed(text: str) -> Graph:
    """A graph from text, with the types of its values as loading finds them."""
    graph = from_text(text)
    found = {v: t for v, t in infer_types(graph, {}).items() if v not in graph.constants}
    graph.apply(Edit(types=found))
    return graph


def shaped_input(graph: Graph, name: str) -> tuple[DataType, tuple[Dim, ...]]:
    """Element type and shape of an input. Raises ValueError for an input that is no tensor, or of unknown rank."""
    type_ = graph.tensor_type(name)
    if type_ is None or type_.shape is None:
        raise ValueError(f"input '{name}' is no tensor of known rank")
    return type_.dtype, type_.shape


def with_outputs(
    graph: Graph,
    outputs: Sequence[str],
    nodes: Sequence[Node] | None = None,
    constants: Mapping[str, Constant] | None = None,
) -> Graph:
    """The graph that makes these values, from these nodes (its own), without what they do not need."""
    needed, kept = set(outputs), []
    for node in reversed(graph.nodes if nodes is None else nodes):
        if needed & set(node.outputs):
            kept.append(node)
            needed |= set(node.operands)
    return rebuilt(graph, kept[::-1], outputs, {}, graph.constants if constants is None else constants)


def rebuilt(
    graph: Graph,
    nodes: Sequence[Node],
    outputs: Sequence[str],
    inputs: Mapping[str, TensorType],
    constants: Mapping[str, Constant],
) -> Graph:
    """The graph with these parts in place of its own. inputs: types of further inputs, or other types of its own."""
    read = {v for node in nodes for v in node.operands} | set(outputs)
    types = {**{v: graph.types[v] for v in graph.inputs}, **inputs}
    result = Graph(
        name=graph.name,
        inputs=tuple(v for v in types if v in read),
        outputs=tuple(outputs),
        nodes=nodes,
        constants={v: c for v, c in constants.items() if v in read},
        types=types,
        opset_imports=graph.opset_imports,
        functions=graph.functions,
    )
    return with_types_of_values(result)


def with_types_of_values(graph: Graph) -> Graph:
    """The graph with the types of its values, inputs that nothing reads left out."""
    read = {v for node in graph.nodes for v in node.operands} | set(graph.outputs)
    inputs = tuple(v for v in graph.inputs if v in read)
    types = {v: t for v, t in infer_types(graph, {}).items() if v not in graph.constants}
    return Graph(
        name=graph.name,
        inputs=inputs,
        outputs=graph.outputs,
        nodes=graph.nodes,
        constants={v: t for v, t in graph.constants.items() if v in read},
        types={**types, **{v: graph.types[v] for v in inputs}},
        opset_imports=graph.opset_imports,
        functions=graph.functions,
    )
