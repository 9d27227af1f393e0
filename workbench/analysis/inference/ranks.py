"""The ranks that a value can have, and the rank that its users need: they decide branches of exported models."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.ir import Graph, Node, constant_shape

_DEEPEST = 12  # longest chain of nodes that is followed
_SAME_RANK = frozenset("Identity Relu Sigmoid Tanh Cast Neg Abs Exp Sqrt LeakyRelu Elu Dropout Clip".split())  # noqa: SIM905
_RECURRENT = ("LSTM", "GRU", "RNN")
_SEQUENCES = (0, 1, 2, 5, 6)  # operands of recurrent operators that have three axes
_IMAGES = ("Conv", "ConvTranspose")


def possible_ranks(scopes: Sequence[Graph], value: str, depth: int = 0) -> frozenset[int] | None:
    """The ranks that `value` can have; None if unknown.

    scopes: the graph and the bodies around the use of the value, the innermost last.
    """
    owner = next((i for i in reversed(range(len(scopes))) if scopes[i].has_value(value)), None)
    if owner is None or depth > _DEEPEST:
        return None
    graph = scopes[owner]
    rank = graph.rank_of(value)
    if rank is not None:
        return frozenset((rank,))
    node = graph.producer(value)
    if node is None:
        return None
    visible = scopes[: owner + 1]
    if node.op == "If":
        index = node.outputs.index(value)
        branches = [possible_ranks((*visible, body), body.outputs[index], depth + 1) for body in node.bodies.values()]
        known = [ranks for ranks in branches if ranks is not None]
        return frozenset().union(*known) if len(known) == len(branches) else None
    change = _change(visible, node)
    ranks = None if change is None else possible_ranks(visible, node.inputs[0], depth + 1)
    return None if ranks is None or change is None else frozenset(rank + change for rank in ranks)


def needed_rank(graph: Graph, value: str, depth: int = 0) -> int | None:
    """The rank that some user of `value` requires; None if none is known to require one."""
    if depth > _DEEPEST:
        return None
    for reader in graph.users(value):
        positions = [position for position, operand in enumerate(reader.inputs) if operand == value]
        if reader.op in _RECURRENT and any(position in _SEQUENCES for position in positions):
            return 3
        weight = graph.constant(reader.inputs[1]) if reader.op in _IMAGES else None
        if weight is not None and positions == [0]:
            return len(constant_shape(weight))
        change = _change((graph,), reader) if positions == [0] else None
        result_rank = None if change is None else needed_rank(graph, reader.outputs[0], depth + 1)
        if change is not None and result_rank is not None:
            return result_rank - change
    return None


def _change(scopes: Sequence[Graph], node: Node) -> int | None:
    """The rank of the result minus that of the operand; None if unknown."""
    if node.op in _SAME_RANK:
        return 0
    if node.op not in ("Unsqueeze", "Squeeze") or len(node.inputs) < 2:
        return None
    axes = next((graph.constant(node.inputs[1]) for graph in reversed(scopes) if graph.has_value(node.inputs[1])), None)
    if axes is None:
        return None
    count = constant_shape(axes)[0] if constant_shape(axes) else 1
    return count if node.op == "Unsqueeze" else -count
