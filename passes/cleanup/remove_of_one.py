"""Remove pools and reductions of one element, and DepthToSpace and SpaceToDepth with blocks of one element."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Graph, Node
from workbench.rewrite import Counterexample, Exactness, Example, NoMatch, Pass, Refusal
from workbench.rewrite.analyses.reductions import keeps_axes, reduced_axes
from workbench.rewrite.analyses.zeros import holds_no_negative_zero
from workbench.rewrite.core.guards import require_floating
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.standard import is_floating

_MAX_MIN_PROD = ("ReduceMax", "ReduceMin", "ReduceProd")
_SUMS_AND_MEANS = ("AveragePool", "GlobalAveragePool", "ReduceSum", "ReduceMean")
_SPATIAL = 2  # the first spatial axis
_SENTENCE = "{root} reduces single elements of '{x}' only; removed"
# Sums start at 0.0 in ONNX Runtime, and 0.0 + -0.0 is 0.0.
_NO_NEGATIVE_ZERO = (
    lambda graph, x: holds_no_negative_zero(graph, x),
    "'{x}' may hold -0.0, which {root} turns into 0.0",
)


def require_one_element(graph: Graph, root: Node, x: str) -> None:
    """Raises NoMatch unless each element of the result is computed from the operand's element at the same position."""
    if root.op == "AveragePool":
        windows = [n for key in ("kernel_shape", "strides") for n in root.attr(key, ())]
        if any(n != 1 for n in windows) or any(root.attr("pads", ())):
            raise NoMatch(f"{root} has a window of more than one element, a stride above 1, or padding")
        return
    shape = graph.shape(x)
    if shape is None:
        raise NoMatch(f"the shape of '{x}', which {root} reduces, is not known")
    if root.op.startswith("Global"):
        axes = frozenset(range(_SPATIAL, len(shape)))
    else:
        axes = reduced_axes(graph, root)
        if not keeps_axes(root):
            raise NoMatch(f"{root} removes the axes that it reduces")
    for axis in sorted(axes):
        if shape[axis] != 1:
            raise NoMatch(f"axis {axis} of '{x}', which {root} reduces, is not known to have size 1")


def require_floating_product(graph: Graph, root: Node, x: str) -> None:
    """Products of integers are kept: ONNX Runtime computes them in floating point, so that removal could change the
    result."""
    if root.op == "ReduceProd":
        require_floating(graph, x, root)


@dataclass(frozen=True)
class RemoveOfOne(Pass):
    """Operators that compute each element from their operand's element at the same position are removed:

    - ReduceMax, ReduceMin and ReduceProd over axes of size 1, which they keep;
    - AveragePool of one element and stride 1, GlobalAveragePool of one element, ReduceSum and ReduceMean over axes of
      size 1; in mode "fast" only if the operand may hold -0.0, since a sum turns -0.0 into 0.0;
    - GlobalMaxPool of one element in mode "fast" only, since ONNX Runtime turns NaN into the lowest number;
    - DepthToSpace and SpaceToDepth with blocks of one element.

    Does not apply:

    - if a reduced axis is symbolic, or if the reduced axes are removed (that is a Squeeze);
    - to sums and products of integers, which ONNX Runtime computes in floating point;
    - to pools that skip or pad elements. MaxPool of one element is in remove_noops.

    Source: ONNX's definitions of these operators; the sum, product, maximum and minimum of one number are that number.
    """

    title = "Remove pools and reductions of one element"

    rules = (
        graph_rule(
            "max, min or product of one",
            "y = op(x, *axes, **attributes)",
            "y = x",
            _SENTENCE,
            Example(
                before="""g (float[N,1,3] x) => (float[N,1,3] y) <int64[1] i = {1}> {
                    a = ReduceMax(x, i)
                    b = ReduceProd(a, i)
                    y = Neg(b)
                }""",
                after="g (float[N,1,3] x) => (float[N,1,3] y) { y = Neg(x) }",
                sentences=(
                    "ReduceMax 'ReduceMax_a' reduces single elements of 'x' only; removed",
                    "ReduceProd 'ReduceProd_b' reduces single elements of 'x' only; removed",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[2,N] x) => (float[2,1] y) <int64[1] i = {-1}> { a = ReduceMax(x, i)  y = Neg(a) }",
                    "axis 1 of 'x', which ReduceMax 'ReduceMax_a' reduces, is not known to have size 1",
                ),
                Refusal(
                    "g (float[2,1] x) => (float[2] y) <int64[1] i = {1}>"
                    " { a = ReduceMin<keepdims=0>(x, i)  y = Neg(a) }",
                    "ReduceMin 'ReduceMin_a' removes the axes that it reduces",
                ),
                Refusal(
                    "g (int64[2,1] x) => (int64[2,1] y) <int64[1] i = {1}> { a = ReduceProd(x, i)  y = Neg(a) }",
                    "'x', an operand of ReduceProd 'ReduceProd_a', is not known to hold floating-point numbers",
                ),
                Refusal(
                    "g (float[1] x_) => (float[1,1] y) <int64[1] i = {1}>"
                    " { x = Unknown(x_)  a = ReduceMin(x, i)  y = Neg(a) }",
                    "the shape of 'x', which ReduceMin 'ReduceMin_a' reduces, is not known",
                ),
            ),
            operators={"op": _MAX_MIN_PROD},
            where=(require_floating_product, require_one_element),
            exactness=Exactness.BIT_EXACT,
        ),
        graph_rule(
            "sum of one that is not -0.0",
            "y = op(x, *axes, **attributes)",
            "y = x",
            _SENTENCE,
            Example(
                before="""g (float[N,2,1,1] x) => (float[N,2,1,1] y)
                    <float[2,1,1] c = {1, -1}, int64[1] k = {-1}> {
                    s = Add(x, c)
                    a = GlobalAveragePool(s)
                    b = AveragePool<kernel_shape=[1, 1]>(a)
                    d = ReduceSum(b, k)
                    y = Neg(d)
                }""",
                after="""g (float[N,2,1,1] x) => (float[N,2,1,1] y) <float[2,1,1] c = {1, -1}> {
                    s = Add(x, c)
                    y = Neg(s)
                }""",
                sentences=(
                    "GlobalAveragePool 'GlobalAveragePool_a' reduces single elements of 's' only; removed",
                    "AveragePool 'AveragePool_b' reduces single elements of 's' only; removed",
                    "ReduceSum 'ReduceSum_d' reduces single elements of 's' only; removed",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N,2,1,1] x) => (float[N,2,1,1] y) { a = GlobalAveragePool(x)  y = Neg(a) }",
                    "'x' may hold -0.0, which GlobalAveragePool 'GlobalAveragePool_a' turns into 0.0",
                ),
                Refusal(
                    "g (float[1,2,4,4] x) => (float[1,2,2,2] y)"
                    " { e = Exp(x)  a = AveragePool<kernel_shape=[1, 1], strides=[2, 2]>(e)  y = Neg(a) }",
                    "AveragePool 'AveragePool_a' has a window of more than one element, a stride above 1, or padding",
                ),
                Refusal(
                    "g (float[N,2,1,K] x) => (float[N,2,1,1] y) { e = Exp(x)  a = GlobalAveragePool(e)  y = Neg(a) }",
                    "axis 3 of 'e', which GlobalAveragePool 'GlobalAveragePool_a' reduces, is not known to have size 1",
                ),
            ),
            operators={"op": _SUMS_AND_MEANS},
            where=(is_floating("x"), _NO_NEGATIVE_ZERO, require_one_element),
            exactness=Exactness.BIT_EXACT,
            law="for floats: 0 + (x + a) == x + a if a != 0",
        ),
        graph_rule(
            "sum, mean or max of one",
            "y = op(x, *axes, **attributes)",
            "y = x",
            _SENTENCE,
            Example(
                before="""g (float[N,2,1,1] x) => (float[N,2,1,1] y) <int64[2] i = {2, 3}> {
                    a = AveragePool<kernel_shape=[1, 1]>(x)
                    b = GlobalMaxPool(a)
                    c = ReduceMean(b, i)
                    y = Neg(c)
                }""",
                after="g (float[N,2,1,1] x) => (float[N,2,1,1] y) { y = Neg(x) }",
                sentences=(
                    "AveragePool 'AveragePool_a' reduces single elements of 'x' only; removed",
                    "GlobalMaxPool 'GlobalMaxPool_b' reduces single elements of 'x' only; removed",
                    "ReduceMean 'ReduceMean_c' reduces single elements of 'x' only; removed",
                ),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[N,2,2,1] x) => (float[N,2,1,1] y) { a = GlobalMaxPool(x)  y = Neg(a) }",
                    "axis 2 of 'x', which GlobalMaxPool 'GlobalMaxPool_a' reduces, is not known to have size 1",
                ),
                Refusal(
                    "g (int64[2,1] x) => (int64[2,1] y) <int64[1] i = {1}> { a = ReduceSum(x, i)  y = Neg(a) }",
                    "'x', an operand of ReduceSum 'ReduceSum_a', is not known to hold floating-point numbers",
                ),
            ),
            operators={"op": (*_SUMS_AND_MEANS, "GlobalMaxPool")},
            where=(is_floating("x"), require_one_element),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample(
                {"x": -0.0},
                0,
                -0.0,
                "the sum starts at 0",
                "g (float[N,2,1,1] x) => (float[N,2,1,1] y) { a = GlobalAveragePool(x)  y = Identity(a) }",
            ),
            law="0 + x == x",
        ),
        graph_rule(
            "blocks of one",
            "y = op(x, blocksize=size, **attributes)",
            "y = x",
            "{root} moves blocks of one element; removed",
            Example(
                before="""g (float[N,2,4,4] x) => (float[N,2,4,4] y) {
                    a = DepthToSpace<blocksize=1>(x)
                    b = SpaceToDepth<blocksize=1>(a)
                    y = Neg(b)
                }""",
                after="g (float[N,2,4,4] x) => (float[N,2,4,4] y) { y = Neg(x) }",
                sentences=(
                    "DepthToSpace 'DepthToSpace_a' moves blocks of one element; removed",
                    "SpaceToDepth 'SpaceToDepth_b' moves blocks of one element; removed",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[N,4,4,4] x) => (float[N,1,8,8] y) { a = DepthToSpace<blocksize=2>(x)  y = Neg(a) }",
                    "DepthToSpace 'DepthToSpace_a' moves blocks of 2 by 2",
                ),
            ),
            operators={"op": ("DepthToSpace", "SpaceToDepth")},
            where=((lambda size: size == 1, "{root} moves blocks of {size} by {size}"),),
            exactness=Exactness.BIT_EXACT,
        ),
    )
