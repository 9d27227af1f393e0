"""What is joined and then cut otherwise is cut where it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from workbench.ir import Constant, Edit, Graph, Node, constant
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.guards import forward_operand, require_producer
from workbench.rewrite.slices import cuts_of, taken


def _lengths(graph: Graph, concat: Node, axis: int) -> list[int]:
    """How long the operands are along the axis. Raises NoMatch where that is not known."""
    shapes = [graph.shape(value) or () for value in concat.inputs]
    lengths = [size for shape in shapes if axis < len(shape) and isinstance(size := shape[axis], int)]
    if len(lengths) != len(concat.inputs):
        raise NoMatch(f"how long the operands of {concat} are is not known")
    return lengths


def _places(lengths: Sequence[int]) -> list[int]:
    """Where each operand starts, and where the last ends."""
    return [0, *np.cumsum(lengths).tolist()]


def match_slice_of_concat(graph: Graph, node: Node, options: Pass) -> Rewrite:
    first = require_producer(graph, node.inputs[0], ("Concat",), node)
    rank = graph.rank_of(node.inputs[0])
    cuts = cuts_of(graph, node)
    axis = None if rank is None else first.attr("axis", 0) % rank
    if rank is None or len(cuts) != 1 or cuts[0].axis % rank != axis or cuts[0].step != 1:
        raise NoMatch(f"{node} does not cut in steps of 1 along the axis of {first} alone")
    places = _places(_lengths(graph, first, axis))
    part = taken(cuts[0], places[-1])
    within = [i for i in range(len(first.inputs)) if places[i] <= part.start and part.stop <= places[i + 1]]
    if not len(part) or not within:
        raise NoMatch(f"{node} takes parts of more than one operand of {first}, or nothing")
    source, start = first.inputs[within[0]], places[within[0]]
    if len(part) == places[within[0] + 1] - start:
        return forward_operand(
            graph, node, source, f"{node} takes '{source}' out of {first} again; passed on", (first,)
        )
    names = [graph.fresh(f"{node.outputs[0]}_{word}") for word in ("start", "end", "axis")]
    numbers = (part.start - start, part.stop - start, axis)
    constants = {n: constant(np.array([number], np.int64), n) for n, number in zip(names, numbers, strict=True)}
    cut = node.replace(inputs=(source, *names))
    sentence = f"{node} takes {numbers[0]}:{numbers[1]} of '{source}' itself, not of what {first} joins"
    return Rewrite(Edit(remove=(node.name,), insert=(cut,), constants=constants), sentence, (first.name, node.name))


def match_split_of_concat(graph: Graph, node: Node, options: Pass) -> Rewrite:
    """Where pieces and operands end at one place both are parted there, and each part is cut or joined by itself."""
    first = require_producer(graph, node.inputs[0], ("Concat",), node)
    rank = graph.rank_of(node.inputs[0])
    if not rank or (first.attr("axis", 0) - node.attr("axis", 0)) % rank:
        raise NoMatch(f"{first} and {node} are not known to be along the same axis")
    axis = first.attr("axis", 0) % rank
    joined = _places(_lengths(graph, first, axis))
    shapes = [graph.shape(value) or () for value in node.outputs]
    pieces = [shape[axis] for shape in shapes if axis < len(shape) and isinstance(shape[axis], int)]
    if len(pieces) != len(node.outputs) or sum(pieces) != joined[-1]:
        raise NoMatch(f"how long the pieces of {node} are is not known")
    cut = _places(pieces)
    common = sorted(set(joined) & set(cut))
    if 0 in (*pieces, *np.diff(joined)) or len(common) <= 2:
        raise NoMatch(f"{first} and {node} part at no place alike, or join or make what is empty")
    inserted, replace, constants = list[Node](), dict[str, str](), dict[str, Constant]()
    for low, high in pairwise(common):
        operands = first.inputs[joined.index(low) : joined.index(high)]
        results = node.outputs[cut.index(low) : cut.index(high)]
        if len(operands) == len(results) == 1:
            replace[results[0]] = operands[0]
        elif len(results) == 1:
            inserted.append(Node("Concat", operands, results, {"axis": axis}, graph.fresh(f"Concat_{results[0]}")))
        elif len(operands) == 1:
            name = graph.fresh(f"{results[0]}_lengths")
            constants[name] = constant(np.array(pieces[cut.index(low) : cut.index(high)], np.int64), name)
            inputs = (operands[0], name)
            inserted.append(Node("Split", inputs, results, {"axis": axis}, graph.fresh(f"Split_{results[0]}")))
        else:
            raise NoMatch(f"several operands of {first} and several pieces of {node} overlap")
    if any(graph.is_output(value) for value in replace):
        raise NoMatch(f"a piece of {node} is an output of the graph")
    if len(inserted) > 1:
        raise NoMatch(f"{len(inserted)} nodes would be needed in the place of {node}")
    edit = Edit(remove=(node.name,), insert=tuple(inserted), replace=replace, constants=constants)
    sentence = f"{first} and {node} part alike at {common[1:-1]}; {len(replace)} operands passed on as they are"
    return Rewrite(edit, sentence, (first.name, node.name))


@dataclass(frozen=True)
class CutConcat(Pass):
    """Two cases:

    - a Slice of a Concat along its axis, which takes what comes from one operand: it is taken from that, or is it;
    - a Split of a Concat that parts at the same place, though not at all of them: what lies between two such places is
      passed on, cut or joined by itself.

    The Concat stays for other readers, and is dead without them.

    Must not act where lengths along the axis are not known, where a piece is empty, nor where more nodes would be
    needed.

    Source: ONNX's definitions of Concat, Slice and Split.
    """

    title = "Cut before joining"

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
                    "Slice 'Slice_b' takes 'z' out of Concat 'Concat_a' again; passed on",
                    "Slice 'Slice_w' takes 1:2 of 'z' itself, not of what Concat 'Concat_a' joins",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[2] x, float[3] z) => (float[2] y)
                        <int64[1] s = {1}, int64[1] e = {3}> { a = Concat<axis=0>(x, z)  y = Slice(a, s, e) }""",
                    "Slice 'Slice_y' takes parts of more than one operand of Concat 'Concat_a', or nothing",
                ),
                Refusal(
                    """g (float[2] x, float[3] z) => (float[1] y) <int64[1] s = {0}, int64[1] e = {2},
                        int64[1] i = {0}, int64[1] p = {2}> { a = Concat<axis=0>(x, z)  y = Slice(a, s, e, i, p) }""",
                    "Slice 'Slice_y' does not cut in steps of 1 along the axis of Concat 'Concat_a' alone",
                ),
                Refusal(
                    """g (float[N] x, float[3] z) => (float[M] y)
                        <int64[1] s = {0}, int64[1] e = {1}> { a = Concat<axis=0>(x, z)  y = Slice(a, s, e) }""",
                    "how long the operands of Concat 'Concat_a' are is not known",
                ),
            ),
            exactness=Exactness.BITS,
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
                    "Concat 'Concat_a' and Split 'Split_b' part alike at [3]; 1 operands passed on as they are",
                ),
            ),
            refusals=(
                Refusal(
                    """g (float[2] x, float[3] z) => (float[1] y, float[4] v) <int64[2] s = {1, 4}>
                        { a = Concat<axis=0>(x, z)  y, v = Split(a, s) }""",
                    "Concat 'Concat_a' and Split 'Split_y' part at no place alike, or join or make what is empty",
                ),
                Refusal(
                    """g (float[2] x, float[2] z) => (float[1] y, float[1] u, float[2] v) <int64[3] s = {1, 1, 2}>
                        { a = Concat<axis=0>(x, z)  y, u, v = Split(a, s) }""",
                    "a piece of Split 'Split_y' is an output of the graph",
                ),
                Refusal(
                    """g (float[2] x, float[2] z) => (float[1] y, float[1] u, float[1] v, float[1] w)
                        <int64[4] s = {1, 1, 1, 1}> { a = Concat<axis=0>(x, z)  y, u, v, w = Split(a, s) }""",
                    "2 nodes would be needed in the place of Split 'Split_y'",
                ),
            ),
            exactness=Exactness.BITS,
        ),
    )
