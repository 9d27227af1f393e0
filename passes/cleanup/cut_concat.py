"""Slice and split the operands of a Concat rather than its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from workbench.ir import Constant, Edit, Graph, Node, constant
from workbench.planning.layout.conversion.convert import is_only_reader
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.slices import AxisSlice, axis_slices, taken_indices
from workbench.rewrite.core.guards import replace_with_operand, require_producer, require_single_use


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


def match_neighbours(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    pieces = [_piece(graph, node, value) for value in node.inputs]
    joined: list[tuple[list[Node], AxisSlice | None]] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if piece is not None and last is not None and (both := _joined(graph, last, piece)) is not None:
            joined[-1] = ([*last[0], piece[0]], both)
        else:
            joined.append(([], None) if piece is None else ([piece[0]], piece[1]))
    merged = [nodes for nodes, _ in joined if len(nodes) > 1]
    if not merged:
        raise NoMatch(f"{node} joins no two Slices that are neighbours in one value along its axis")
    for slice_ in (slice_ for nodes in merged for slice_ in nodes if len(joined) > 1):
        require_single_use(graph, node, slice_)
    others = iter(value for value, piece in zip(node.inputs, pieces, strict=True) if piece is None)
    operands, inserted, constants = list[str](), list[Node](), dict[str, Constant]()
    for nodes, range_ in joined:
        if range_ is None or len(nodes) == 1:
            operands.append(nodes[0].outputs[0] if nodes else next(others))
            continue
        operands.append(node.outputs[0] if len(joined) == 1 else graph.fresh(f"{nodes[0].outputs[0]}_on", operands))
        names = [graph.fresh(f"{operands[-1]}_{word}") for word in ("start", "end", "axis")]
        numbers = (range_.start, range_.end, range_.axis)
        constants |= {n: constant(np.array([number], np.int64), n) for n, number in zip(names, numbers, strict=True)}
        slice_ = Node("Slice", (nodes[0].inputs[0], *names), (operands[-1],), name=graph.fresh(f"Slice_{operands[-1]}"))
        inserted.append(slice_)
    if len(joined) > 1:
        inserted.append(node.replace(inputs=tuple(operands)))
    removed = [slice_ for nodes in merged for slice_ in nodes if is_only_reader(graph, node, slice_.outputs[0])]
    count = sum(map(len, merged))
    result = "one" if len(merged) == 1 else f"{len(merged)}"
    edit = Edit(
        remove=tuple(dict.fromkeys((*(slice_.name for slice_ in removed), node.name))),
        insert=tuple(inserted),
        constants=constants,
    )
    fewer = len(edit.remove) - len(inserted)
    sentence = f"{count} neighbouring Slices that {node} joins become {result}; {fewer} node{'s' * (fewer != 1)} fewer"
    return Rewrite(edit, sentence, (*(slice_.name for nodes in merged for slice_ in nodes), node.name))


def _piece(graph: Graph, concat: Node, value: str) -> tuple[Node, AxisSlice] | None:
    """The Slice that makes the value, if it slices the axis of the Concat alone with step 1, and what it takes."""
    slice_, rank = graph.producer(value), graph.rank_of(value)
    if slice_ is None or slice_.op != "Slice" or not rank:
        return None
    axis = concat.attr("axis") % rank
    try:
        slices = axis_slices(graph, slice_)
    except NoMatch:
        return None
    if len(slices) != 1 or slices[0].axis % rank != axis or slices[0].step != 1:
        return None
    size = (graph.shape(slice_.inputs[0]) or ())[axis : axis + 1]
    if size and isinstance(size[0], int):
        taken = taken_indices(slices[0], size[0])
        return slice_, AxisSlice(axis, taken.start, max(taken.start, taken.stop), 1)
    return (slice_, replace(slices[0], axis=axis)) if 0 <= slices[0].start <= slices[0].end else None


def _joined(
    graph: Graph, first: tuple[list[Node], AxisSlice | None], second: tuple[Node, AxisSlice]
) -> AxisSlice | None:
    """What both take together; None if they are no neighbours in one value."""
    nodes, range_ = first
    if range_ is None or nodes[0].inputs[0] != second[0].inputs[0] or range_.end != second[1].start:
        return None
    return replace(range_, end=second[1].end)


@dataclass(frozen=True)
class CutConcat(Pass):
    """Three cases:

    - a Slice along the axis of a Concat that takes elements of one operand only slices that operand. If it takes the
      whole operand, the operand replaces it;
    - a Split of a Concat along the same axis, if some of their boundaries agree. Each range between two common
      boundaries becomes an operand, a smaller Split or a smaller Concat;
    - neighbouring Slices of one value that a Concat joins along their axis become one Slice.

    In the first two cases the Concat is kept; without other users it becomes dead.

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
        Rule(
            "concat of neighbouring slices",
            ("Concat",),
            match_neighbours,
            Example(
                before="""g (float[3,9] x, float[3,2] z) => (float[3,7] y, float[3,5] w) <int64[1] i = {1},
                    int64[1] a = {2}, int64[1] b = {4}, int64[1] c = {6}, int64[1] e = {-2}> {
                    p = Slice(x, a, b, i)
                    q = Slice(x, b, c, i)
                    r = Slice(x, c, e, i)
                    w = Concat<axis=1>(p, q, r)
                    s = Slice(x, i, a, i)
                    t = Slice(x, a, c, i)
                    y = Concat<axis=-1>(z, s, t)
                }""",
                after="""g (float[3,9] x, float[3,2] z) => (float[3,7] y, float[3,5] w)
                    <int64[1] w_start = {2}, int64[1] w_end = {7}, int64[1] w_axis = {1},
                     int64[1] s_on_start = {1}, int64[1] s_on_end = {6}, int64[1] s_on_axis = {1}> {
                    s_on = Slice(x, s_on_start, s_on_end, s_on_axis)
                    y = Concat<axis=-1>(z, s_on)
                    w = Slice(x, w_start, w_end, w_axis)
                }""",
                sentences=(
                    "3 neighbouring Slices that Concat 'Concat_w' joins become one; 3 nodes fewer",
                    "2 neighbouring Slices that Concat 'Concat_y' joins become one; 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[N,9] x) => (float[N,5] y) <int64[1] i = {1}, int64[1] a = {2}, int64[1] b = {4},
                        int64[1] c = {5}, int64[1] e = {8}>
                        { p = Slice(x, a, b, i)  q = Slice(x, c, e, i)  y = Concat<axis=1>(p, q) }""",
                    "Concat 'Concat_y' joins no two Slices that are neighbours in one value along its axis",
                ),
                Refusal(
                    """g (float[4,9] x) => (float[8,2] y) <int64[1] i = {1}, int64[1] a = {2}, int64[1] b = {4},
                        int64[1] c = {6}> { p = Slice(x, a, b, i)  q = Slice(x, b, c, i)  y = Concat<axis=0>(p, q) }""",
                    "Concat 'Concat_y' joins no two Slices that are neighbours in one value along its axis",
                ),
                Refusal(
                    """g (float[N] x) => (float[M] y) <int64[1] a = {0}, int64[1] b = {-4}, int64[1] c = {-1}>
                        { p = Slice(x, a, b)  q = Slice(x, b, c)  y = Concat<axis=0>(p, q) }""",
                    "Concat 'Concat_y' joins no two Slices that are neighbours in one value along its axis",
                ),
                Refusal(
                    """g (float[9] x, float[2] z) => (float[6] y, float[2] p) <int64[1] a = {2}, int64[1] b = {4},
                        int64[1] c = {6}> { p = Slice(x, a, b)  q = Slice(x, b, c)  y = Concat<axis=0>(z, p, q) }""",
                    "'p' of Slice 'Slice_p' is an output of the graph",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
    )
