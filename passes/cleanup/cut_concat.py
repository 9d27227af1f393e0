"""Slice and split the operands of a Concat rather than its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from workbench.ir import Constant, Edit, Graph, Node, constant
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.slices import axis_slices, taken_indices
from workbench.rewrite.core.guards import replace_with_operand, require_producer


def _lengths(graph: Graph, concat: Node, axis: int) -> list[int]:
    """The lengths of the operands along the axis. Raises NoMatch if one is unknown."""
    shapes = [graph.shape(value) or () for value in concat.inputs]
    lengths = [size for shape in shapes if axis < len(shape) and isinstance(size := shape[axis], int)]
    if len(lengths) != len(concat.inputs):
        raise NoMatch(f"the lengths of the operands of {concat} are not known")
    return lengths


def _offsets(lengths: Sequence[int]) -> list[int]:
    """The offset at which each operand or piece starts, and that at which the last ends."""
    return [0, *np.cumsum(lengths).tolist()]


def match_slice_of_concat(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    first = require_producer(graph, node.inputs[0], ("Concat",), node)
    rank = graph.rank_of(node.inputs[0])
    slices = axis_slices(graph, node)
    axis = None if rank is None else first.attr("axis") % rank
    if rank is None or len(slices) != 1 or slices[0].axis % rank != axis or slices[0].step != 1:
        raise NoMatch(f"{node} is not known to slice only the concat axis of {first} with step 1")
    offsets = _offsets(_lengths(graph, first, axis))
    indices = taken_indices(slices[0], offsets[-1])
    operands = [i for i in range(len(first.inputs)) if offsets[i] <= indices.start and indices.stop <= offsets[i + 1]]
    if not len(indices) or not operands:
        raise NoMatch(f"{node} is empty or takes elements of several operands of {first}")
    source, start = first.inputs[operands[0]], offsets[operands[0]]
    if len(indices) == offsets[operands[0] + 1] - start:
        return replace_with_operand(
            graph, node, source, f"{node} takes exactly '{source}' out of {first}; replaced by it", (first,)
        )
    names = [graph.fresh(f"{node.outputs[0]}_{word}") for word in ("start", "end", "axis")]
    numbers = (indices.start - start, indices.stop - start, axis)
    constants = {n: constant(np.array([number], np.int64), n) for n, number in zip(names, numbers, strict=True)}
    slice_ = node.replace(inputs=(source, *names))
    sentence = f"{node} takes {numbers[0]}:{numbers[1]} of '{source}' directly, not of the result of {first}"
    return Rewrite(Edit(remove=(node.name,), insert=(slice_,), constants=constants), sentence, (first.name, node.name))


def match_split_of_concat(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    """The pair is separated at every offset at which both an operand of the Concat and a result of the Split end.

    Each range between two such offsets becomes an operand, a smaller Concat or a smaller Split.
    """
    first = require_producer(graph, node.inputs[0], ("Concat",), node)
    rank = graph.rank_of(node.inputs[0])
    if not rank or (first.attr("axis") - node.attr("axis")) % rank:
        raise NoMatch(f"{first} and {node} are not known to be along the same axis")
    axis = first.attr("axis") % rank
    operand_offsets = _offsets(_lengths(graph, first, axis))
    shapes = [graph.shape(value) or () for value in node.outputs]
    pieces = [shape[axis] for shape in shapes if axis < len(shape) and isinstance(shape[axis], int)]
    if len(pieces) != len(node.outputs) or sum(pieces) != operand_offsets[-1]:
        raise NoMatch(f"the lengths of the pieces of {node} are not known")
    result_offsets = _offsets(pieces)
    boundaries = sorted(set(operand_offsets) & set(result_offsets))
    if 0 in (*pieces, *np.diff(operand_offsets)) or len(boundaries) <= 2:
        raise NoMatch(f"{first} and {node} share no boundary, or an operand or a piece is empty")
    inserted, replace, constants = list[Node](), dict[str, str](), dict[str, Constant]()
    for low, high in pairwise(boundaries):
        operands = first.inputs[operand_offsets.index(low) : operand_offsets.index(high)]
        results = node.outputs[result_offsets.index(low) : result_offsets.index(high)]
        if len(operands) == len(results) == 1:
            replace[results[0]] = operands[0]
        elif len(results) == 1:
            inserted.append(Node("Concat", operands, results, {"axis": axis}, graph.fresh(f"Concat_{results[0]}")))
        elif len(operands) == 1:
            name = graph.fresh(f"{results[0]}_lengths")
            constants[name] = constant(
                np.array(pieces[result_offsets.index(low) : result_offsets.index(high)], np.int64), name
            )
            inputs = (operands[0], name)
            inserted.append(Node("Split", inputs, results, {"axis": axis}, graph.fresh(f"Split_{results[0]}")))
        else:
            raise NoMatch(f"several operands of {first} and several pieces of {node} overlap")
    if any(graph.is_output(value) for value in replace):
        raise NoMatch(f"a piece of {node} is an output of the graph")
    if len(inserted) > 1:
        raise NoMatch(f"{len(inserted)} nodes would be needed to replace {node}")
    edit = Edit(remove=(node.name,), insert=tuple(inserted), replace=replace, constants=constants)
    count = f"{len(replace)} of {len(node.outputs)} pieces"
    sentence = f"{first} and {node} share the boundaries {boundaries[1:-1]}; {count} replaced by operands"
    return Rewrite(edit, sentence, (first.name, node.name))


@dataclass(frozen=True)
class CutConcat(Pass):
    """Two cases:

    - a Slice along the axis of a Concat that takes elements of one operand only slices that operand. If it takes the
      whole operand, the operand replaces it;
    - a Split of a Concat along the same axis, if some of their boundaries agree. Each range between two common
      boundaries becomes an operand, a smaller Split or a smaller Concat.

    The Concat is kept; without other users it becomes dead.

    Does not apply:

    - if lengths along the axis are not known;
    - if a piece is empty;
    - if more nodes would be needed.

    Source: ONNX's definitions of Concat, Slice and Split.
    """

    title = "Slice or split before Concat"

    rules = (
        Rule(
            "slice of concat",
            ("Slice",),
            match_slice_of_concat,
            Example(
                before="""g (float[N,2] x, float[N,3] z) => (float[N,3] y, float[N,1] w)
                    <int64[1] s = {2}, int64[1] e = {5}, int64[1] i = {1}, int64[1] t = {-2}, int64[1] f = {-1}> {
                    a = Concat<axis=1>(x, z)
                    b = Slice(a, s, e, i)
                    y = Neg(b)
                    w = Slice(a, t, f, i)
                }""",
                after="""g (float[N,2] x, float[N,3] z) => (float[N,3] y, float[N,1] w)
                    <int64[1] w_start = {1}, int64[1] w_end = {2}, int64[1] w_axis = {1}> {
                    a = Concat<axis=1>(x, z)
                    y = Neg(z)
                    w = Slice(z, w_start, w_end, w_axis)
                }""",
                sentences=(
                    "Slice 'Slice_b' takes exactly 'z' out of Concat 'Concat_a'; replaced by it",
                    "Slice 'Slice_w' takes 1:2 of 'z' directly, not of the result of Concat 'Concat_a'",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[2] x, float[3] z) => (float[2] y)
                        <int64[1] s = {1}, int64[1] e = {3}> { a = Concat<axis=0>(x, z)  y = Slice(a, s, e) }""",
                    "Slice 'Slice_y' is empty or takes elements of several operands of Concat 'Concat_a'",
                ),
                Refusal(
                    """g (float[2] x, float[3] z) => (float[1] y) <int64[1] s = {0}, int64[1] e = {2},
                        int64[1] i = {0}, int64[1] p = {2}> { a = Concat<axis=0>(x, z)  y = Slice(a, s, e, i, p) }""",
                    "Slice 'Slice_y' is not known to slice only the concat axis of Concat 'Concat_a' with step 1",
                ),
                Refusal(
                    """g (float[N] x, float[3] z) => (float[M] y)
                        <int64[1] s = {0}, int64[1] e = {1}> { a = Concat<axis=0>(x, z)  y = Slice(a, s, e) }""",
                    "the lengths of the operands of Concat 'Concat_a' are not known",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "split of concat",
            ("Split",),
            match_split_of_concat,
            Example(
                before="""g (float[N,2] x, float[N,1] z, float[N,3] w) => (float[N,3] y, float[N,3] v)
                    <int64[2] s = {3, 3}> {
                    a = Concat<axis=1>(x, z, w)
                    b, c = Split<axis=-1>(a, s)
                    y = Neg(b)
                    v = Neg(c)
                }""",
                after="""g (float[N,2] x, float[N,1] z, float[N,3] w) => (float[N,3] y, float[N,3] v) {
                    a = Concat<axis=1>(x, z, w)
                    b = Concat<axis=1>(x, z)
                    y = Neg(b)
                    v = Neg(w)
                }""",
                sentences=(
                    "Concat 'Concat_a' and Split 'Split_b' share the boundaries [3]; 1 of 2 pieces replaced by"
                    " operands",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[2] x, float[3] z) => (float[1] y, float[4] v) <int64[2] s = {1, 4}>
                        { a = Concat<axis=0>(x, z)  y, v = Split(a, s) }""",
                    "Concat 'Concat_a' and Split 'Split_y' share no boundary, or an operand or a piece is empty",
                ),
                Refusal(
                    """g (float[2] x, float[2] z) => (float[1] y, float[1] u, float[2] v) <int64[3] s = {1, 1, 2}>
                        { a = Concat<axis=0>(x, z)  y, u, v = Split(a, s) }""",
                    "a piece of Split 'Split_y' is an output of the graph",
                ),
                Refusal(
                    """g (float[2] x, float[2] z) => (float[1] y, float[1] u, float[1] v, float[1] w)
                        <int64[4] s = {1, 1, 1, 1}> { a = Concat<axis=0>(x, z)  y, u, v, w = Split(a, s) }""",
                    "2 nodes would be needed to replace Split 'Split_y'",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
    )
