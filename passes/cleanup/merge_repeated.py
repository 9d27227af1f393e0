"""Merge two consecutive operators of a kind."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from workbench.ir import DataType, Edit, Graph, Node, constant
from workbench.planning.layout.conversion.convert import is_only_reader
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.casts import is_one_cast
from workbench.rewrite.analyses.reshapes import VIEWS, axes_of, resolve_zeros, shape_operand
from workbench.rewrite.analyses.slices import AxisSlice, axis_slices, compose_slices
from workbench.rewrite.core.guards import is_same_axis, require_constant, require_producer, require_single_use


def _merged(graph: Graph, first: Node, node: Node, merged: Node, sentence: str, **operands: np.ndarray) -> Rewrite:
    """`merged` replaces `node`; `first` is removed too if nothing else reads it."""
    removes_first = is_only_reader(graph, node, first.outputs[0]) and first.outputs[0] not in merged.inputs
    edit = Edit(
        remove=(first.name, node.name) if removes_first else (node.name,),
        insert=(merged,),
        constants={name: constant(array, name) for name, array in operands.items()},
    )
    return Rewrite(
        edit,
        f"{sentence}; {'1 node fewer' if removes_first else f'{first} stays for other readers'}",
        (first.name, node.name),
    )


def match_reshape_of_reshape(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    first = require_producer(graph, node.inputs[0], VIEWS, node)
    source, shape = first.inputs[0], node.inputs[1]
    sentence = f"{node} overrides the shape that {first} gives"
    if node.attr("allowzero"):
        return _merged(graph, first, node, node.replace(inputs=(source, shape)), sentence)
    target = tuple(int(n) for n in require_constant(graph, shape, node))
    dims = resolve_zeros(target, graph.shape(source), graph.shape(node.inputs[0]))
    if dims is None:
        raise NoMatch(f"{node} copies an axis of '{node.inputs[0]}' whose size is not known")
    if dims == target:
        return _merged(graph, first, node, node.replace(inputs=(source, shape)), sentence)
    shape = graph.fresh(f"{node.outputs[0]}_shape")
    merged = node.replace(inputs=(source, shape))
    return _merged(graph, first, node, merged, sentence, **{shape: np.array(dims, np.int64)})


def match_axes_together(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    first = require_producer(graph, node.inputs[0], (node.op,), node)
    before, after = axes_of(graph, first), axes_of(graph, node)
    inner, outer = (before, after) if node.op == "Squeeze" else (after, before)
    others = [axis for axis in range(len(inner) + max(outer, default=-1) + 1) if axis not in inner]
    axes = sorted((*inner, *(others[axis] for axis in outer)))
    name = graph.fresh(f"{node.outputs[0]}_axes")
    merged = node.replace(inputs=(first.inputs[0], name))
    sentence = f"{first} of axes {list(before)} and {node} of axes {list(after)} become one of axes {axes}"
    return _merged(graph, first, node, merged, sentence, **{name: np.array(axes, np.int64)})


def match_view_of_both(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    first = require_producer(graph, node.inputs[0], VIEWS, node)
    require_single_use(graph, node, first)
    dims = shape_operand(graph.shape(first.inputs[0]), graph.shape(node.outputs[0]))
    if dims is None:
        raise NoMatch(f"the shape of '{node.outputs[0]}' cannot be written as a constant operand of Reshape")
    name = graph.fresh(f"{node.outputs[0]}_shape")
    merged = node.replace(op_type="Reshape", inputs=(first.inputs[0], name), attributes={})
    sentence = f"{first} and {node} become one Reshape to {list(dims)}"
    return _merged(graph, first, node, merged, sentence, **{name: np.array(dims, np.int64)})


def match_cast_of_cast(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    first = require_producer(graph, node.inputs[0], ("Cast",), node)
    intermediate, target = DataType(first.attr("to")), DataType(node.attr("to"))
    source = graph.tensor_type(first.inputs[0])
    if source is None or not is_one_cast(source.dtype, intermediate, target):
        raise NoMatch(f"{first} and {node} may give different numbers than one Cast")
    type_names = (source.dtype.name.lower(), intermediate.name.lower(), target.name.lower())
    sentence = (
        f"{type_names[1]} represents every {type_names[0]}, so that {node} can cast it to {type_names[2]} directly"
    )
    return _merged(graph, first, node, node.replace(inputs=first.inputs), sentence)


def _slices_by_axis(graph: Graph, node: Node) -> dict[int, AxisSlice]:
    rank = graph.rank_of(node.inputs[0])
    slices = axis_slices(graph, node)
    if rank is None and any(slice_.axis < 0 for slice_ in slices):
        raise NoMatch(f"{node} counts axes from the end of a value whose rank is not known")
    front = (slice_.axis + (rank or 0) if slice_.axis < 0 else slice_.axis for slice_ in slices)
    return {axis: replace(slice_, axis=axis) for axis, slice_ in zip(front, slices, strict=True)}


def match_slice_of_slice(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    first = require_producer(graph, node.inputs[0], ("Slice",), node)
    require_single_use(graph, node, first)
    slices, after = _slices_by_axis(graph, first), _slices_by_axis(graph, node)
    shape = graph.shape(first.inputs[0])
    for axis, slice_ in after.items():
        dim = None if shape is None else shape[axis]
        slices[axis] = compose_slices(slices[axis], slice_, dim) if axis in slices else slice_
    composed = [slices[axis] for axis in sorted(slices)]
    names = [graph.fresh(f"{node.outputs[0]}_{part}") for part in ("starts", "ends", "axes", "steps")]
    table = np.array([(slice_.start, slice_.end, slice_.axis, slice_.step) for slice_ in composed], np.int64).reshape(
        -1, 4
    )
    parts = ", ".join(f"{slice_} of axis {slice_.axis}" for slice_ in composed)
    merged = node.replace(inputs=(first.inputs[0], *names))
    return _merged(
        graph, first, node, merged, f"{first} and {node} take {parts}", **dict(zip(names, table.T, strict=True))
    )


def match_concat(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    concats = [m for v in node.inputs if (m := graph.producer(v)) is not None and m.op == "Concat"]
    if not concats:
        raise NoMatch(f"{node} has no Concat among its producers")
    rank = graph.rank_of(node.outputs[0])
    along_axis = [concat for concat in concats if is_same_axis(concat.attr("axis"), node.attr("axis"), rank)]
    if not along_axis:
        raise NoMatch(f"{concats[0]} and {node} are not known to join along the same axis")
    first = next((concat for concat in along_axis if is_only_reader(graph, node, concat.outputs[0])), along_axis[0])
    require_single_use(graph, node, first)
    inputs = [v for value in node.inputs for v in (first.inputs if value == first.outputs[0] else (value,))]
    sentence = f"{node} joins the {len(first.inputs)} operands of {first} directly"
    return _merged(graph, first, node, node.replace(inputs=tuple(inputs)), sentence)


def _bounds(graph: Graph, node: Node, index: int) -> list[tuple[float, str]]:
    """The lower or upper bound of a Clip with its name, if it has one."""
    value = (*node.inputs, "", "")[index]
    if not value:
        return []
    number = require_constant(graph, value, node).item()
    if number != number or (number == 0 and np.signbit(number)):
        raise NoMatch(f"bound '{value}' of {node} is {number}, which runtimes treat differently")
    return [(number, value)]


def match_clip(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    first = require_producer(graph, node.inputs[0], ("Clip",), node)
    require_single_use(graph, node, first)
    low = max((*_bounds(graph, first, 1), *_bounds(graph, node, 1)), default=None)
    high = min((*_bounds(graph, first, 2), *_bounds(graph, node, 2)), default=None)
    if low is not None and high is not None and low[0] >= high[0]:
        raise NoMatch(f"no range is left between the bounds {low[0]} and {high[0]} of {first} and {node}")
    bounds = ["" if bound is None else bound[1] for bound in (low, high)]
    while bounds and not bounds[-1]:
        bounds.pop()
    names = " and ".join(f"'{value}'" for value in bounds if value) or "none"
    merged = node.replace(inputs=(first.inputs[0], *bounds))
    return _merged(graph, first, node, merged, f"the tighter bounds of {first} and {node} are {names}")


@dataclass(frozen=True)
class MergeRepeated(Pass):
    """Two consecutive operators become one:

    - a Reshape after Reshape, Flatten, Squeeze or Unsqueeze reads the operand of that;
    - Squeeze of Squeeze and Unsqueeze of Unsqueeze, with the axes of both;
    - Flatten, Squeeze or Unsqueeze after another of the four become one Reshape, if the result has at most one
      unknown axis or copies the others;
    - Cast of Cast if the intermediate type represents every number;
    - Slice of Slice with constant operands; Concat of Concat along the same axis; Clip of Clip.

    Must not merge if a zero in a shape copies an unknown axis, if what two slices take depends on an unknown
    length, if floats become integers, nor clips whose bounds leave no range. Slices, concats, clips and mixed
    kinds are kept if the first has another reader, since nothing would be saved.

    Source: ONNX's definitions of these operators; onnx-optimizer's fuse_consecutive_squeezes,
    fuse_consecutive_unsqueezes, fuse_consecutive_slices and fuse_consecutive_concats.
    """

    title = "Merge repeated operators"

    rules = (
        Rule(
            "reshape of reshape",
            ("Reshape",),
            match_reshape_of_reshape,
            Example(
                before="""g (float[N,6] x) => (int64[3] y) <int64[1] s = {-1}, int64[3] t = {-1, 3, 2}> {
                    a = Reshape(x, s)
                    b = Reshape(a, t)
                    y = Shape(b)
                }""",
                after="""g (float[N,6] x) => (int64[3] y) <int64[3] t = {-1, 3, 2}> {
                    b = Reshape(x, t)
                    y = Shape(b)
                }""",
                sentences=("Reshape 'Reshape_b' overrides the shape that Reshape 'Reshape_a' gives; 1 node fewer",),
            ),
            refusals=(
                Refusal(
                    "g (float[6] x, int64[2] s) => (float[A,B] y) <int64[2] t = {0, -1}>"
                    " { a = Reshape(x, s)  y = Reshape(a, t) }",
                    "Reshape 'Reshape_y' copies an axis of 'a' whose size is not known",
                ),
                Refusal(
                    "g (float[6] x, int64[1] t) => (float[A] y) <int64[2] s = {2, 3}>"
                    " { a = Reshape(x, s)  y = Reshape(a, t) }",
                    "'t', an operand of Reshape 'Reshape_y', is not a constant",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "axes together",
            ("Squeeze", "Unsqueeze"),
            match_axes_together,
            Example(
                before="""g (float[N,3] x) => (float[1,N,1,3] y) <int64[1] i = {1}, int64[1] j = {0}> {
                    a = Unsqueeze(x, i)
                    y = Unsqueeze(a, j)
                }""",
                after="""g (float[N,3] x) => (float[1,N,1,3] y) <int64[2] y_axes = {0, 2}> {
                    y = Unsqueeze(x, y_axes)
                }""",
                sentences=(
                    "Unsqueeze 'Unsqueeze_a' of axes [1] and Unsqueeze 'Unsqueeze_y' of axes [0] become one of axes"
                    " [0, 2]; 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N,1,1] x) => (float[N] y) <int64[1] i = {1}> { a = Squeeze(x, i)  y = Squeeze(a) }",
                    "Squeeze 'Squeeze_y' has no axes operand",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "one reshape for both",
            VIEWS,
            match_view_of_both,
            Example(
                before="""g (float[N,1,6] x) => (float[N,6,1] y) <int64[1] i = {1}, int64[1] j = {2}> {
                    a = Squeeze(x, i)
                    y = Unsqueeze(a, j)
                }""",
                after="""g (float[N,1,6] x) => (float[N,6,1] y) <int64[3] y_shape = {-1, 6, 1}> {
                    y = Reshape(x, y_shape)
                }""",
                sentences=(
                    "Squeeze 'Squeeze_a' and Unsqueeze 'Unsqueeze_y' become one Reshape to [-1, 6, 1]; 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N,M] x) => (float[1,1,N,M] y) <int64[1] i = {0}>"
                    " { a = Unsqueeze(x, i)  y = Unsqueeze(a, i) }",
                    "the shape of 'y' cannot be written as a constant operand of Reshape",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "cast of cast",
            ("Cast",),
            match_cast_of_cast,
            Example(
                before="g (float16[N] x) => (double[N] y) { a = Cast<to=1>(x)  y = Cast<to=11>(a) }",
                after="g (float16[N] x) => (double[N] y) { y = Cast<to=11>(x) }",
                sentences=(
                    "float represents every float16, so that Cast 'Cast_y' can cast it to double directly;"
                    " 1 node fewer",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N] x) => (float[N] y) { a = Cast<to=7>(x)  y = Cast<to=1>(a) }",
                    "Cast 'Cast_a' and Cast 'Cast_y' may give different numbers than one Cast",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            law="for integers and floats: narrow(widen(widen(x))) == widen(x)",
        ),
        Rule(
            "slice of slice",
            ("Slice",),
            match_slice_of_slice,
            Example(
                before="""g (float[N,9] x) => (float[N,2] y)
                    <int64[1] s = {1}, int64[1] e = {-1}, int64[1] i = {1}, int64[1] p = {2},
                     int64[1] t = {2}, int64[1] f = {9223372036854775807}> {
                    a = Slice(x, s, e, i, p)
                    y = Slice(a, t, f, i)
                }""",
                after="""g (float[N,9] x) => (float[N,2] y)
                    <int64[1] y_starts = {5}, int64[1] y_ends = {8}, int64[1] y_axes = {1}, int64[1] y_steps = {2}> {
                    y = Slice(x, y_starts, y_ends, y_axes, y_steps)
                }""",
                sentences=("Slice 'Slice_a' and Slice 'Slice_y' take 5:8:2 of axis 1; 1 node fewer",),
            ),
            refusals=(
                Refusal(
                    "g (float[N] x) => (float[M] y) <int64[1] s = {-5}, int64[1] e = {9}, int64[1] t = {1}>"
                    " { a = Slice(x, s, e)  y = Slice(a, t, e) }",
                    "the elements that -5:9 and then 1:9 take of axis 0 depend on its length",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            law="for sizes: a + s * (b + t * i) == (a + s * b) + (s * t) * i",
        ),
        Rule(
            "concat of concat",
            ("Concat",),
            match_concat,
            Example(
                before="""g (float[N,1] x, float[N,2] z) => (float[N,6] y) {
                    a = Concat<axis=1>(x, z)
                    y = Concat<axis=-1>(x, a, z)
                }""",
                after="g (float[N,1] x, float[N,2] z) => (float[N,6] y) { y = Concat<axis=-1>(x, x, z, z) }",
                sentences=("Concat 'Concat_y' joins the 2 operands of Concat 'Concat_a' directly; 1 node fewer",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,1] x, float[M,2] z) => (float[K,2] y)"
                    " { a = Concat<axis=1>(x, x)  y = Concat<axis=0>(a, z) }",
                    "Concat 'Concat_a' and Concat 'Concat_y' are not known to join along the same axis",
                ),
                Refusal(
                    "g (float[N,1] x) => (float[N,2] y) { y = Concat<axis=1>(x, x) }",
                    "Concat 'Concat_y' has no Concat among its producers",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "clip of clip",
            ("Clip",),
            match_clip,
            Example(
                before="""g (float[N] x) => (float[N] y) <float a = {-1}, float b = {4}, float c = {0}, float d = {6}> {
                    k = Clip(x, a, b)
                    y = Clip(k, c, d)
                }""",
                after="g (float[N] x) => (float[N] y) <float c = {0}, float b = {4}> { y = Clip(x, c, b) }",
                sentences=("the tighter bounds of Clip 'Clip_k' and Clip 'Clip_y' are 'c' and 'b'; 1 node fewer",),
            ),
            refusals=(
                Refusal(
                    "g (float[N] x) => (float[N] y) <float a = {4}, float b = {1}>"
                    " { k = Clip(x, a)  y = Clip(k, , b) }",
                    "no range is left between the bounds 4.0 and 1.0 of Clip 'Clip_k' and Clip 'Clip_y'",
                ),
                Refusal(
                    "g (float[N] x) => (float[N] y) <float a = {-0.0}, float b = {0}>"
                    " { k = Clip(x, a)  y = Clip(k, b) }",
                    "bound 'a' of Clip 'Clip_k' is -0.0, which runtimes treat differently",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            law=(
                "min(max(min(max(x, a), b), c), d) == min(max(x, max(a, c)), min(b, d))"
                " if max(a, c) < min(b, d) and not minus_zero(a, b, c, d)"
            ),
        ),
    )
