"""Inputs and outputs whose axes are permuted relative to the loaded model, stored as metadata of the graph.

The metadata is exported with the model, so that a caller knows how to permute
inputs, and how results are permuted.
"""

from __future__ import annotations

from workbench.ir import Graph
from workbench.ir.permutation import Permutation, compose, inverse, is_identity

INPUT_ORDER = "workbench.fed."  # prefix of the metadata key, before the input's name; the value: "0,2,3,1"
OUTPUT_ORDER = "workbench.given."  # the same for an output


def input_order(graph: Graph, value: str) -> Permutation | None:
    """The permutation from the input of the loaded model to that of this graph; None if it is the same.

    Metadata that is not a permutation of the input's axes is ignored.
    """
    return _stored_permutation(graph, INPUT_ORDER, value)


def output_order(graph: Graph, value: str) -> Permutation | None:
    """The permutation from the output of the loaded model to that of this graph; None if it is the same."""
    return _stored_permutation(graph, OUTPUT_ORDER, value)


def _stored_permutation(graph: Graph, prefix: str, value: str) -> Permutation | None:
    entries = graph.metadata.get(prefix + value, "").split(",")
    axes = sorted(str(axis) for axis in range(graph.rank_of(value) or 0))
    return tuple(map(int, entries)) if axes and sorted(entries) == axes else None


def permutation_text(perm: Permutation) -> str:
    """The permutation as metadata has it: "0,2,3,1"."""
    return ",".join(str(axis) for axis in perm)


def permutation_between(first: Graph, second: Graph, value: str, prefix: str = INPUT_ORDER) -> Permutation | None:
    """The permutation from the input `value` of `first` to that of `second`; None if it is the same.

    prefix: OUTPUT_ORDER for an output.
    """
    rank = first.rank_of(value)
    if rank is None:
        return None
    identity = tuple(range(rank))
    first_order, second_order = (
        _stored_permutation(first, prefix, value) or identity,
        _stored_permutation(second, prefix, value) or identity,
    )
    if len(first_order) != len(second_order):
        return None  # the ranks differ
    permutation = compose(inverse(first_order), second_order)
    return None if is_identity(permutation) else permutation
