"""Inputs and outputs that were declared in a narrower type, in float32 again: the way back of `precision_io`."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.ir import Edit, Graph, Node
from workbench.ir.narrowed_io import INPUT_TYPE, OUTPUT_TYPE, is_narrowed
from workbench.ir.types import TensorType, numpy_name
from workbench.planning.precision.conversion import cast_node
from workbench.planning.precision.element_types import WIDE


def wide_io(graph: Graph) -> Iterator[tuple[Edit, str, tuple[str, ...]]]:
    """A Cast at each input and output that is narrower than in the loaded model. Yields (edit, sentence, nodes)."""
    for value in graph.inputs:
        readers = graph.users(value)
        if is_narrowed(graph, value, INPUT_TYPE) and not graph.is_output(value):
            edit = _edit(graph, value, readers, INPUT_TYPE)
            yield edit, f"input '{value}' is taken in float32 again", tuple(node.name for node in readers)
    for value in graph.outputs:
        producer = graph.producer(value)
        if is_narrowed(graph, value, OUTPUT_TYPE) and producer is not None:
            readers = graph.users(value)
            edit = _edit(graph, value, (producer, *readers), OUTPUT_TYPE)
            yield edit, f"output '{value}' is returned in float32 again", (producer.name,)


def _edit(graph: Graph, value: str, nodes: tuple[Node, ...], prefix: str) -> Edit:
    """The value in float32 for the caller, and in its narrower type under another name for `nodes`."""
    type_ = graph.tensor_type(value)
    assert type_ is not None  # otherwise it is not narrowed
    inside = graph.fresh(f"{value}_{numpy_name(type_.dtype)}")
    to, ends = (type_.dtype, (value, inside)) if prefix == INPUT_TYPE else (WIDE, (inside, value))
    cast = cast_node(*ends, to, graph.fresh(f"to_{numpy_name(to)}_{value}"))
    renamed = {value: inside}
    changed = (
        node.with_values_renamed(renamed).replace(outputs=tuple(renamed.get(v, v) for v in node.outputs))
        for node in nodes
    )
    return Edit(
        remove=tuple(node.name for node in nodes),
        insert=(*changed, cast),
        types={value: TensorType(WIDE, type_.shape), inside: type_},
        metadata={prefix + value: None},
    )
