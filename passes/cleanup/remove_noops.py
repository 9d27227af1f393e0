"""Remove operators that return their operand unchanged."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.ir import DataType, Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.casts import element_type
from workbench.rewrite.analyses.slices import axis_slices, takes_all
from workbench.rewrite.core.guards import is_same_shape, replace_with_operand, require_constant
from workbench.rewrite.patterns.graph_rules import graph_rule


def match_cast_to_own_type(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    source = node.inputs[0]
    source_type = element_type(graph, source)
    like = graph.tensor_type(node.inputs[1]) if node.op == "CastLike" else None
    target_type = DataType(node.attr("to")) if node.op == "Cast" else None if like is None else like.dtype
    if source_type is None or source_type != target_type:
        raise NoMatch(f"'{source}' is not known to have the type to which {node} casts it")
    rewrite = replace_with_operand(
        graph, node, source, f"'{source}' is already {source_type.name.lower()}; {node} is removed"
    )
    result = graph.type(node.outputs[0])
    if graph.type(source) is not None or result is None:
        return rewrite
    return replace(rewrite, edit=replace(rewrite.edit, types={source: result}))


def match_same_shape(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    source, result = node.inputs[0], node.outputs[0]
    shape = graph.shape(source)
    target = graph.constant(node.inputs[1]) if node.op == "Expand" else None
    if shape is not None and target is not None and len(shape) >= target.numpy().size and (target.numpy() == 1).all():
        return replace_with_operand(graph, node, source, f"{node} repeats '{source}' once along every axis; removed")
    if shape is None or not is_same_shape(shape, graph.shape(result)):
        raise NoMatch(f"'{source}' is not known to have the shape that {node} gives it")
    dims = ",".join(map(str, shape))
    return replace_with_operand(graph, node, source, f"'{source}' is already [{dims}]; {node} is removed")


def match_reshape_to_own_shape(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    """Zeros in the shape copy unknown sizes, and -1 is the remaining size if all other axes agree."""
    target = [int(n) for n in require_constant(graph, node.inputs[1], node)]
    shape = graph.shape(node.inputs[0])
    if shape is None or len(shape) != len(target):
        raise NoMatch(f"'{node.inputs[0]}' is not known to have rank {len(target)}")
    copies = not node.attr("allowzero")
    unmatched_axes = [i for i, n in enumerate(target) if n != shape[i] and not (n == 0 and copies)]
    others = shape[: unmatched_axes[0]] + shape[unmatched_axes[0] + 1 :] if unmatched_axes else ()
    # The one remaining axis follows from the element count: it is -1, or all other sizes are known and positive.
    is_determined = len(unmatched_axes) == 1 and (
        target[unmatched_axes[0]] == -1
        or (not isinstance(shape[unmatched_axes[0]], int) and all(isinstance(d, int) and d > 0 for d in others))
    )
    if unmatched_axes and not is_determined:
        raise NoMatch(f"'{node.inputs[0]}' is not known to have the shape {target} that {node} gives it")
    return replace_with_operand(graph, node, node.inputs[0], f"{node} to {target} leaves every axis unchanged; removed")


def match_slice_of_all(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    slices = axis_slices(graph, node)
    shape = graph.shape(node.inputs[0])
    slice_ = next((c for c in slices if not takes_all(c, None if shape is None else shape[c.axis])), None)
    if slice_ is not None:
        raise NoMatch(f"{node} takes {slice_} of axis {slice_.axis}, which may be less than all")
    return replace_with_operand(graph, node, node.inputs[0], f"{node} takes all of '{node.inputs[0]}'; removed")


def match_resize(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    if node.attr("coordinate_transformation_mode") == "tf_crop_and_resize" or node.attr("antialias"):
        raise NoMatch(f"{node} crops '{node.inputs[0]}', or filters it against aliasing")
    scales, sizes = (*node.inputs[1:], "", "", "")[1:3]
    if scales and (require_constant(graph, scales, node) != 1).any():
        raise NoMatch(f"{node} scales an axis")
    if sizes and not is_same_shape(graph.shape(node.inputs[0]), graph.shape(node.outputs[0])):
        raise NoMatch(f"'{node.inputs[0]}' is not known to have the sizes that {node} gives it")
    return replace_with_operand(graph, node, node.inputs[0], f"{node} leaves the size of every axis unchanged; removed")


def match_max_pool_of_one(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    """ONNX Runtime keeps a NaN in float32 with two spatial axes, and otherwise turns it into the lowest number."""
    windows = [n for key in ("kernel_shape", "strides") for n in node.attr(key, ())]
    if any(n != 1 for n in windows) or any(node.attr("pads", ())) or len(node.outputs) > 1:
        raise NoMatch(f"{node} has a window of more than one element, a stride above 1, or padding, or returns indices")
    type_ = graph.tensor_type(node.inputs[0])
    if type_ is None or not (type_.dtype.is_integer() or (type_.dtype == DataType.FLOAT and type_.rank == 4)):
        raise NoMatch(
            f"'{node.inputs[0]}' of {node} is known neither to hold integers nor to be float32 with two spatial axes"
        )
    return replace_with_operand(graph, node, node.inputs[0], f"{node} takes the maximum of one element; removed")


@dataclass(frozen=True)
class RemoveNoops(Pass):
    """Operators that return their operand unchanged, whatever its numbers:

    - Identity; Cast and CastLike to the type of the operand; Concat, Sum, Mean, Max and Min of one operand; Split into
      one piece;
    - Reshape, Flatten, Squeeze, Unsqueeze and Expand to the shape of the operand, symbolic dims included;
      Expand to sizes of 1 only;
    - Slice of everything, Pad by nothing, Tile by one, Resize by one;
    - MaxPool of one element and stride 1, of integers, and of float32 with two spatial axes.

    Does not apply:

    - to a Resize that crops or filters against aliasing;
    - to a MaxPool that in ONNX Runtime turns NaN into a number;
    - if the result is not known to have the operand's type and shape;
    - if the node is all that is between an input and an output of the graph.

    Source: ONNX's definitions of these operators; the passes eliminate_identity and
    eliminate_nop_* of onnx-optimizer.
    """

    title = "Remove operators that change nothing"

    rules = (
        graph_rule(
            "identity",
            "y = Identity(x)",
            "y = x",
            "{root} returns '{x}' unchanged; removed",
            Example(
                before="g (float[N] x) => (float[N] y) { a = Identity(x)  y = Neg(a) }",
                after="g (float[N] x) => (float[N] y) { y = Neg(x) }",
                sentences=("Identity 'Identity_a' returns 'x' unchanged; removed",),
            ),
            refusals=(
                Refusal(
                    "g (float[N] x) => (float[N] y) { y = Identity(x) }",
                    "Identity 'Identity_y' cannot be removed: input or constant 'x' would become the output 'y'",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "cast to the same type",
            ("Cast", "CastLike"),
            match_cast_to_own_type,
            Example(
                before="g (float[N] x) => (float[N] y) { a = Cast<to=1>(x)  y = Neg(a) }",
                after="g (float[N] x) => (float[N] y) { y = Neg(x) }",
                sentences=("'x' is already float; Cast 'Cast_a' is removed",),
            ),
            refusals=(
                Refusal(
                    "g (float[N] x, double[1] z) => (double[N] y) { a = CastLike(x, z)  y = Neg(a) }",
                    "'x' is not known to have the type to which CastLike 'CastLike_a' casts it",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        graph_rule(
            "one operand",
            "y = op(x, *others, **attributes)",
            "y = x",
            "{root} has only one operand, '{x}'; removed",
            Example(
                before="g (float[N,3] x) => (float[N,3] y) { a = Concat<axis=1>(x)  b = Max(a)  y = Neg(b) }",
                after="g (float[N,3] x) => (float[N,3] y) { y = Neg(x) }",
                sentences=(
                    "Concat 'Concat_a' has only one operand, 'x'; removed",
                    "Max 'Max_b' has only one operand, 'x'; removed",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x) => (float[N,6] y) { a = Concat<axis=1>(x, x)  y = Neg(a) }",
                    "Concat 'Concat_a' has 2 operands",
                ),
            ),
            operators={"op": ("Concat", "Sum", "Mean", "Max", "Min")},
            where=((lambda operands: operands == 1, "{root} has {operands} operands"),),
            computed={"operands": lambda root: len(root.inputs)},
            exactness=Exactness.BIT_EXACT,
        ),
        graph_rule(
            "one piece",
            "y = Split(x, *lengths, **attributes)",
            "y = x",
            "{root} makes one piece, all of '{x}'; removed",
            Example(
                before="g (float[N,3] x) => (float[N,3] y) { a = Split<axis=1, num_outputs=1>(x)  y = Neg(a) }",
                after="g (float[N,3] x) => (float[N,3] y) { y = Neg(x) }",
                sentences=("Split 'Split_a' makes one piece, all of 'x'; removed",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,4] x) => (float[N,2] y) { a, b = Split<axis=1, num_outputs=2>(x)  y = Sub(a, b) }",
                    "Split 'Split_a' has 2 results",
                ),
            ),
            where=((lambda pieces: pieces == 1, "{root} has {pieces} results"),),
            computed={"pieces": lambda root: len(root.outputs)},
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "same shape",
            ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand"),
            match_same_shape,
            Example(
                before="""g (float[2,3] x) => (float[2,3] y) <int64[2] s = {-1, 3}, int64[2] t = {1, 1}> {
                    a = Reshape(x, s)
                    b = Squeeze(a)
                    c = Expand(b, t)
                    y = Neg(c)
                }""",
                after="g (float[2,3] x) => (float[2,3] y) { y = Neg(x) }",
                sentences=(
                    "'x' is already [2,3]; Reshape 'Reshape_a' is removed",
                    "'x' is already [2,3]; Squeeze 'Squeeze_b' is removed",
                    "Expand 'Expand_c' repeats 'x' once along every axis; removed",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x, int64[2] s) => (float[A,B] y) { a = Reshape(x, s)  y = Neg(a) }",
                    "'x' is not known to have the shape that Reshape 'Reshape_a' gives it",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "reshape of no axis",
            ("Reshape",),
            match_reshape_to_own_shape,
            Example(
                before="""g (float[N,M,3] x) => (int64[3] y) <int64[3] s = {0, -1, 3}> {
                    a = Reshape(x, s)
                    y = Shape(a)
                }""",
                after="g (float[N,M,3] x) => (int64[3] y) { y = Shape(x) }",
                sentences=("Reshape 'Reshape_a' to [0, -1, 3] leaves every axis unchanged; removed",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x) => (float[A] y) <int64[1] s = {-1}> { a = Reshape(x, s)  y = Neg(a) }",
                    "'x' is not known to have rank 1",
                ),
                Refusal(
                    "g (float[N,M] x) => (float[N,3] y) <int64[2] s = {0, 3}> { a = Reshape(x, s)  y = Neg(a) }",
                    "'x' is not known to have the shape [0, 3] that Reshape 'Reshape_a' gives it",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "slice of everything",
            ("Slice",),
            match_slice_of_all,
            Example(
                before="""g (float[N,3] x) => (float[N,3] y)
                    <int64[1] s = {-3}, int64[1] e = {9223372036854775807}, int64[1] i = {1}> {
                    a = Slice(x, s, e, i)
                    y = Neg(a)
                }""",
                after="g (float[N,3] x) => (float[N,3] y) { y = Neg(x) }",
                sentences=("Slice 'Slice_a' takes all of 'x'; removed",),
            ),
            refusals=(
                Refusal(
                    "g (float[N] x) => (float[M] y) <int64[1] s = {0}, int64[1] e = {1000}>"
                    " { a = Slice(x, s, e)  y = Neg(a) }",
                    "Slice 'Slice_a' takes 0:1000 of axis 0, which may be less than all",
                ),
                Refusal(
                    "g (float[1] x) => (float[1] y)"
                    " <int64[1] s = {0}, int64[1] e = {9223372036854775807}, int64[1] i = {0}, int64[1] p = {-1}>"
                    " { a = Slice(x, s, e, i, p)  y = Neg(a) }",
                    "Slice 'Slice_a' goes backward to INT_MAX, which runtimes interpret differently",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        graph_rule(
            "pad of nothing",
            "y = Pad(x, pads, *others, **attributes)",
            "y = x",
            "{root} adds 0 elements everywhere; removed",
            Example(
                before="g (float[N,3] x) => (float[N,3] y) <int64[4] p = {0, 0, 0, 0}> { a = Pad(x, p)  y = Neg(a) }",
                after="g (float[N,3] x) => (float[N,3] y) { y = Neg(x) }",
                sentences=("Pad 'Pad_a' adds 0 elements everywhere; removed",),
            ),
            refusals=(
                Refusal(
                    "g (float[N] x) => (float[N] y) <int64[2] p = {1, -1}> { a = Pad(x, p)  y = Neg(a) }",
                    "Pad 'Pad_a' adds or removes elements at an end",
                ),
            ),
            constants=("pads",),
            where=((lambda pads: not pads.any(), "{root} adds or removes elements at an end"),),
            exactness=Exactness.BIT_EXACT,
        ),
        graph_rule(
            "tile by one",
            "y = Tile(x, repeats)",
            "y = x",
            "{root} repeats '{x}' once everywhere; removed",
            Example(
                before="g (float[2,3] x) => (float[2,3] y) <int64[2] r = {1, 1}> { a = Tile(x, r)  y = Neg(a) }",
                after="g (float[2,3] x) => (float[2,3] y) { y = Neg(x) }",
                sentences=("Tile 'Tile_a' repeats 'x' once everywhere; removed",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x) => (float[N,6] y) <int64[2] r = {1, 2}> { a = Tile(x, r)  y = Neg(a) }",
                    "Tile 'Tile_a' repeats along an axis",
                ),
            ),
            constants=("repeats",),
            where=((lambda repeats: (repeats == 1).all(), "{root} repeats along an axis"),),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "resize by one",
            ("Resize",),
            match_resize,
            Example(
                before="""g (float[2,3,4,4] x) => (float[2,3,4,4] y) <float[4] s = {1, 1, 1, 1}> {
                    a = Resize<mode="linear">(x, , s)
                    y = Neg(a)
                }""",
                after="g (float[2,3,4,4] x) => (float[2,3,4,4] y) { y = Neg(x) }",
                sentences=("Resize 'Resize_a' leaves the size of every axis unchanged; removed",),
            ),
            refusals=(
                Refusal(
                    "g (float[1,3,4,4] x) => (float[1,3,4,8] y) <float[4] s = {1, 1, 1, 2}>"
                    " { a = Resize(x, , s)  y = Neg(a) }",
                    "Resize 'Resize_a' scales an axis",
                ),
                Refusal(
                    "g (float[1,3,N,4] x) => (float[1,3,4,4] y) <int64[4] s = {1, 3, 4, 4}>"
                    " { a = Resize(x, , , s)  y = Neg(a) }",
                    "'x' is not known to have the sizes that Resize 'Resize_a' gives it",
                ),
                Refusal(
                    "g (float[1,3,4,4] x) => (float[1,3,4,4] y) <int64[4] s = {1, 3, 4, 4}>"
                    ' { a = Resize<mode="linear", antialias=1>(x, , , s)  y = Neg(a) }',
                    "Resize 'Resize_a' crops 'x', or filters it against aliasing",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "pool of one",
            ("MaxPool",),
            match_max_pool_of_one,
            Example(
                before="g (float[N,3,4,4] x) => (float[N,3,4,4] y) { a = MaxPool<kernel_shape=[1, 1]>(x)  y = Neg(a) }",
                after="g (float[N,3,4,4] x) => (float[N,3,4,4] y) { y = Neg(x) }",
                sentences=("MaxPool 'MaxPool_a' takes the maximum of one element; removed",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,3,4] x) => (float[N,3,4] y) { a = MaxPool<kernel_shape=[1]>(x)  y = Neg(a) }",
                    "'x' of MaxPool 'MaxPool_a' is known neither to hold integers nor to be float32 with two spatial "
                    "axes",
                ),
                Refusal(
                    "g (float[N,3,4,4] x) => (float[N,3,2,2] y)"
                    " { a = MaxPool<kernel_shape=[1, 1], strides=[2, 2]>(x)  y = Neg(a) }",
                    "MaxPool 'MaxPool_a' has a window of more than one element, a stride above 1, or padding, "
                    "or returns indices",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
    )
