"""Inputs that are fed in another order of axes than the model was loaded with: written beside the graph, by name.

The note goes into the exported file's metadata, so that whoever runs it can
read how its inputs are to be fed.
"""

from __future__ import annotations

from workbench.ir import Graph
from workbench.ir.permutation import Permutation, inverse, is_identity, then

FED = "workbench.fed."  # key of the note, before the input's name; the value: "0,2,3,1"


def fed_order(graph: Graph, value: str) -> Permutation | None:
    """The permutation from the input as the model had it first to what it takes now; None where it is the same."""
    note = graph.metadata.get(FED + value)
    return None if note is None else tuple(int(axis) for axis in note.split(","))


def note_of(perm: Permutation) -> str:
    return ",".join(str(axis) for axis in perm)


def order_between(first: Graph, second: Graph, value: str) -> Permutation | None:
    """The permutation of what `first` takes for its input `value` to what `second` takes; None where it is the same."""
    rank = first.rank_of(value)
    if rank is None:
        return None
    identity = tuple(range(rank))
    own, other = fed_order(first, value) or identity, fed_order(second, value) or identity
    if len(own) != rank or len(other) != rank:
        return None  # a note that somebody else wrote
    way = then(inverse(own), other)
    return None if is_identity(way) else way
