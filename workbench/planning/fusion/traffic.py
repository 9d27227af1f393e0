"""Memory traffic of a grouping: what its groups read and write in one run.

A group reads each value that others compute once, whatever the number of its members that use it, and writes the
values that others use. A view (a Reshape, a Transpose that moves nothing) is its operand under another name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from workbench.analysis.inference.bound_shapes import bound_shape
from workbench.analysis.metrics.transpose_cost import known_sum, moved_by_node
from workbench.ir import Graph, Node
from workbench.ops import contract_of

_VIEWS = ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")


@dataclass
class StoredValue:
    """A tensor in memory, with all views of it.

    size:     in bytes, with the graph's dims bound; None if unknown.
    producer: index of the operator that computes it; None for an input or constant.
    views:    operators whose results are views of it.
    users:    operators that read it, without views.
    leaves:   whether it is an output of the graph.
    """

    size: int | None
    producer: int | None
    views: list[int] = field(default_factory=list)
    users: list[int] = field(default_factory=list)
    leaves: bool = False


def stored_values(graph: Graph) -> list[StoredValue]:
    """The values that the graph's operators read and write; operators are numbered in the order of `graph.nodes`."""
    results: dict[str, StoredValue] = {}
    source: dict[str, str] = {}  # by view, the value whose memory it shares

    def stored(value: str, producer: int | None = None) -> StoredValue:
        value = source.get(value, value)
        return results.setdefault(value, StoredValue(size_of(graph, value), producer))

    for i, node in enumerate(graph.nodes):
        if is_view(graph, node):
            source[node.outputs[0]] = source.get(node.inputs[0], node.inputs[0])
            stored(node.inputs[0]).views.append(i)
            continue
        for value in dict.fromkeys(source.get(v, v) for v in _operands(node)):
            stored(value).users.append(i)
        for value in filter(None, node.outputs):
            stored(value, i)
    for value in graph.outputs:
        stored(value).leaves = True
    return list(results.values())


def traffic(values: Sequence[StoredValue], group: Sequence[int]) -> int | None:
    """Bytes read and written in one run; None if a size is unknown.

    group: the number of the group of each operator.
    """
    moved: list[int | None] = []
    for value in values:
        producing_group = None if value.producer is None else group[value.producer]
        readers = {group[user] for user in value.users} - {producing_group}
        moves = len(readers) + (producing_group is not None and bool(readers or value.leaves))
        moved.append(None if value.size is None and moves else (value.size or 0) * moves)
    return known_sum(moved)


def traffic_of_group(values: Sequence[StoredValue], group: Sequence[int], number: int) -> int | None:
    """The bytes that the group of that number reads and writes in one run; None if a size is unknown."""
    moved: list[int | None] = []
    for value in values:
        producing_group = None if value.producer is None else group[value.producer]
        readers = {group[user] for user in value.users} - {producing_group}
        if number in readers or (number == producing_group and (readers or value.leaves)):
            moved.append(value.size)
    return known_sum(moved)


def is_view(graph: Graph, node: Node) -> bool:
    """Whether the node's result is its operand's memory in another shape."""
    return node.op in _VIEWS or (node.op == "Transpose" and moved_by_node(graph, node) == 0)


def size_of(graph: Graph, value: str) -> int | None:
    """Bytes of a tensor, with the graph's dims bound; None if unknown."""
    type_, shape = graph.tensor_type(value), bound_shape(graph, value)
    return None if type_ is None or shape is None else type_.with_shape(shape).bytes


def _operands(node: Node) -> list[str]:
    """The operands that a node reads on the device, not on the host, with values that its bodies capture."""
    contract = contract_of(node)
    host = () if contract is None else contract.host_inputs
    inputs = [value for i, value in enumerate(node.inputs) if value and i not in host]
    return inputs + [value for value in node.operands if value not in node.inputs]
