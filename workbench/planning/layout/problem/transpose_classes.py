"""Classes of values that differ only by Transposes: one value in several orders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from workbench.analysis.inference.bound_shapes import bound_shape
from workbench.analysis.metrics.transpose_cost import elements, known_sum, moved_by_node
from workbench.ir import Edit, Graph, Node
from workbench.ir.permutation import Permutation, compose, identity, inverse, perm_of, permuted
from workbench.planning.layout.conversion.reshape import reshape_to
from workbench.planning.layout.conversion.transpose_cleanup import EditWithSentence
from workbench.planning.layout.problem.cost_model import COUNT


@dataclass(frozen=True)
class TransposeClass:
    """The value `root` transposed by `order`, which is () for a value of unknown rank."""

    root: str
    order: Permutation


def is_relation(graph: Graph, node: Node) -> bool:
    """Whether the node is a Transpose of a computed value with a known permutation, and so relates two values."""
    if node.op != "Transpose" or node.inputs[0] in graph.constants:
        return False
    perm = perm_of(graph, node)
    return perm is not None and graph.rank_of(node.inputs[0]) == len(perm)


def transpose_classes(graph: Graph) -> dict[str, TransposeClass]:
    """The class of every value that is not a constant."""
    results = {value: as_root(graph, value) for value in graph.inputs}
    for node in graph.nodes:
        if is_relation(graph, node):
            source, perm = results[node.inputs[0]], perm_of(graph, node)
            assert perm is not None
            results[node.outputs[0]] = TransposeClass(source.root, compose(source.order, perm))
            continue
        results.update({value: as_root(graph, value) for value in node.outputs if value})
    return results


def as_root(graph: Graph, value: str) -> TransposeClass:
    """The class of a value that no Transpose gives."""
    return TransposeClass(value, identity(graph.rank_of(value) or 0))


def shape_of_root(graph: Graph, root: str, members: Mapping[str, Permutation]) -> tuple[int, ...] | None:
    """The shape of `root` with the dims bound, inferred from another member of its class if needed."""
    shape = bound_shape(graph, root)
    for value, order in members.items():
        other = bound_shape(graph, value) if shape is None else None
        shape = shape if other is None else permuted(other, inverse(order))
    return shape


def shape_that_counts(
    graph: Graph, root: str, members: Mapping[str, Permutation], weigh: str
) -> tuple[int, ...] | None:
    """A shape that says which axes have size 1, with 0 for symbolic dims; None if no axis moves at no cost.

    Bytes and times are those with the dims bound. In the count of transposes, one costs nothing only if a Reshape
    replaces it.
    """
    if weigh != COUNT:
        return shape_of_root(graph, root, members)
    shape = graph.shape(root)
    if shape is None or reshape_to(shape) is None:
        return None
    return tuple(dim if isinstance(dim, int) else 0 for dim in shape)


def in_memory(order: Permutation, shape: tuple[int, ...] | None) -> Permutation:
    """The order without axes of size 1; orders for which it is equal differ only by a Reshape."""
    return order if shape is None else tuple(axis for axis in order if shape[axis] != 1)


def one_transpose_per_order(graph: Graph, weigh: str) -> Iterator[EditWithSentence]:
    """Keep one Transpose of a value for each other order in which it is read, if it has more."""
    known = transpose_classes(graph)
    transposes: dict[str, list[Node]] = {}
    for node in graph.nodes:
        if is_relation(graph, node):
            transposes.setdefault(known[node.outputs[0]].root, []).append(node)
    for root, nodes in transposes.items():
        orders = {value: known[value].order for node in nodes for value in (node.inputs[0], node.outputs[0])}
        shape = shape_that_counts(graph, root, orders, weigh)
        stored = {value: in_memory(order, shape) for value, order in orders.items()}
        moving = [node for node in nodes if stored[node.inputs[0]] != stored[node.outputs[0]]]
        read = [node for node in nodes if _is_read(graph, node.outputs[0])]
        orders_read = {stored[node.outputs[0]] for node in read} - {stored[root]}
        if len(moving) <= len(orders_read):
            continue
        moved = known_sum(moved_by_node(graph, node) for node in moving[len(orders_read) :])
        orders_text = f"{len(orders_read)} other order{'' if len(orders_read) == 1 else 's'}"
        sentence = (
            f"'{root}' is read in {orders_text} and transposed {len(moving)} times; "
            f"once for each, {elements(moved)} no longer moved"
        )
        edit = _derive_from_root(graph, nodes, read, known, shape)
        yield edit, sentence, tuple(node.name for node in nodes)


def _is_read(graph: Graph, value: str) -> bool:
    return graph.is_output(value) or any(not is_relation(graph, user) for user in graph.users(value))


def _derive_from_root(
    graph: Graph,
    nodes: list[Node],
    read: list[Node],
    known: Mapping[str, TransposeClass],
    shape: tuple[int, ...] | None,
) -> Edit:
    """Compute the first value of each order from the root, the others of that order from the first."""
    root = known[nodes[0].outputs[0]].root
    first = {in_memory(known[root].order, shape): root}
    inserted, replaced = [], {}
    for node in sorted(read, key=lambda node: not graph.is_output(node.outputs[0])):  # an output keeps its name
        value, order = node.outputs[0], known[node.outputs[0]].order
        source = first.setdefault(in_memory(order, shape), value)
        rest = order if source == value else compose(inverse(known[source].order), order)
        if source == value:
            inserted.append(node.replace(inputs=(root,), attributes={**node.attributes, "perm": order}))
        elif rest != identity(len(rest)):
            inserted.append(node.replace(inputs=(source,), attributes={**node.attributes, "perm": rest}))
        elif graph.is_output(value):
            inserted.append(Node("Identity", (source,), (value,), name=node.name))
        else:
            replaced[value] = source
    return Edit(remove=tuple(node.name for node in nodes), insert=tuple(inserted), replace=replaced)
