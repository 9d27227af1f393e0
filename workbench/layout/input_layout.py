"""Inputs and outputs in another order of axes than the model was loaded with: written beside the graph, by name.

The note goes into the exported file's metadata, so that whoever runs it can
read how its inputs are to be fed, and how it gives its outputs.
"""

from __future__ import annotations

from workbench.ir import Graph
from workbench.ir.permutation import Permutation, inverse, is_identity, then

FED = "workbench.fed."  # key of the note, before the input's name; the value: "0,2,3,1"
GIVEN = "workbench.given."  # the same of an output


def fed_order(graph: Graph, value: str) -> Permutation | None:
    """The permutation from the input as the model had it first to what it takes now; None where it is the same.

    A note that is no permutation of the input's axes was written by somebody else, and says nothing.
    """
    return _noted(graph, FED, value)


def given_order(graph: Graph, value: str) -> Permutation | None:
    """The same of an output, to what the model gives now."""
    return _noted(graph, GIVEN, value)


def _noted(graph: Graph, note: str, value: str) -> Permutation | None:
    words = graph.metadata.get(note + value, "").split(",")
    axes = sorted(str(axis) for axis in range(graph.rank_of(value) or 0))
    return tuple(map(int, words)) if axes and sorted(words) == axes else None


def note_of(perm: Permutation) -> str:
    return ",".join(str(axis) for axis in perm)


def order_between(first: Graph, second: Graph, value: str, note: str = FED) -> Permutation | None:
    """The permutation of what `first` takes for its input `value` to what `second` takes; None where it is the same.

    note: GIVEN for an output.
    """
    rank = first.rank_of(value)
    if rank is None:
        return None
    identity = tuple(range(rank))
    own, other = _noted(first, note, value) or identity, _noted(second, note, value) or identity
    if len(own) != len(other):
        return None  # the two take values of other ranks
    way = then(inverse(own), other)
    return None if is_identity(way) else way
