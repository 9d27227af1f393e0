"""Inputs and outputs whose axes are permuted with respect to the loaded model, kept as metadata of the graph.

The metadata is exported with the model, so that a caller knows how to permute
what it feeds, and how results are permuted.
"""

from __future__ import annotations

from workbench.ir import Graph
from workbench.ir.permutation import Permutation, inverse, is_identity, then

FED = "workbench.fed."  # prefix of the metadata key, before the input's name; the value: "0,2,3,1"
GIVEN = "workbench.given."  # the same for an output


def fed_order(graph: Graph, value: str) -> Permutation | None:
    """The permutation from the input of the loaded model to that of this graph; None if it is the same.

    Metadata that is not a permutation of the input's axes is ignored.
    """
    return _noted(graph, FED, value)


def given_order(graph: Graph, value: str) -> Permutation | None:
    """The same for an output."""
    return _noted(graph, GIVEN, value)


def _noted(graph: Graph, note: str, value: str) -> Permutation | None:
    words = graph.metadata.get(note + value, "").split(",")
    axes = sorted(str(axis) for axis in range(graph.rank_of(value) or 0))
    return tuple(map(int, words)) if axes and sorted(words) == axes else None


def note_of(perm: Permutation) -> str:
    return ",".join(str(axis) for axis in perm)


def order_between(first: Graph, second: Graph, value: str, note: str = FED) -> Permutation | None:
    """The permutation from the input `value` of `first` to that of `second`; None if it is the same.

    note: GIVEN for an output.
    """
    rank = first.rank_of(value)
    if rank is None:
        return None
    identity = tuple(range(rank))
    own, other = _noted(first, note, value) or identity, _noted(second, note, value) or identity
    if len(own) != len(other):
        return None  # the ranks differ
    way = then(inverse(own), other)
    return None if is_identity(way) else way
