"""A graph in parts that run one after the other, so that a long run can say how far it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workbench.ir import Graph, Node
from workbench.ir.preserved_metadata import PassthroughFields


@dataclass(frozen=True)
class GraphPart:
    """graph: its inputs are inputs of the whole graph and outputs of parts before it; its outputs are those of the
    whole graph, and what later parts read. spent: values that no later part reads.
    """

    graph: Graph
    spent: tuple[str, ...]


def partitions(graph: Graph, size: int) -> Iterator[GraphPart]:
    """The parts in order, each of at least `size` nodes but the last.

    A part ends only where all values that later nodes read are tensors of a known element type that numpy has.
    """
    nodes, outputs = graph.nodes, set(graph.outputs)
    last_reader = {value: number for number, node in enumerate(nodes) for value in node.operands}
    known = set(graph.inputs)  # values that exist before the part
    live: dict[str, None] = {}  # values of the part so far that later nodes read
    start = 0
    for number, node in enumerate(nodes, 1):
        live.update(dict.fromkeys(value for value in node.outputs if last_reader.get(value, 0) >= number))
        is_last = number == len(nodes)
        if not is_last and (number - start < size or not _may_end(graph, live, last_reader, number)):
            continue
        inside = nodes[start:number]
        made = {value for node in inside for value in node.outputs if value}
        ends = [value for value in made if value in outputs or last_reader.get(value, 0) >= number]
        read = [value for value in known if value in last_reader and start <= last_reader[value] < number]
        yield GraphPart(_part(graph, inside, known, sorted(ends)), tuple(read))
        known |= {value for value in ends if last_reader.get(value, 0) >= number}
        known.difference_update(read)
        start, live = number, {}


def _may_end(graph: Graph, live: dict[str, None], last_reader: dict[str, int], number: int) -> bool:
    for value in [value for value in live if last_reader[value] < number]:
        del live[value]
    types = [graph.tensor_type(value) for value in live]
    return all(type_ is not None and type_.dtype.numpy().isbuiltin == 1 for type_ in types)


def _part(graph: Graph, nodes: Sequence[Node], known: set[str], ends: Sequence[str]) -> Graph:
    read = dict.fromkeys(value for node in nodes for value in node.operands)
    made = {value for node in nodes for value in node.outputs}
    return Graph(
        **graph.constructor_arguments
        | {
            "inputs": [value for value in read if value in known],
            "outputs": ends,
            "nodes": nodes,
            "constants": {value: graph.constants[value] for value in read if value in graph.constants},
            "types": {value: graph.types[value] for value in (*read, *made) if value in graph.types},
            "kept": PassthroughFields(),  # an input with a default is given to the part that reads it
            "metadata": {},
            "provenance": {},
        }
    )
