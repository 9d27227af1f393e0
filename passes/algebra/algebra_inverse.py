"""Remove operators that undo each other, or that change nothing the second time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Graph, Node
from workbench.rewrite import Counterexample, Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.core.guards import replace_with_operand, require_constant, require_producer
from workbench.rewrite.patterns.algebra import algebraic_rule

_SLICE_OPERANDS = 5  # data, starts, ends, axes, steps
_PAST_ANY_AXIS = 2**31 - 1


# ---- order -----------------------------------------------------------------------------


def _reversed_axes(graph: Graph, node: Node, rank: int) -> frozenset[int]:
    """The axes that a Slice reverses as a whole. Raises NoMatch if it does anything else."""
    if len(node.inputs) != _SLICE_OPERANDS or not all(node.inputs):
        raise NoMatch(f"{node} does not reverse an axis")
    starts, ends, axes, steps = (require_constant(graph, value, node) for value in node.inputs[1:])
    is_whole = ((starts == -1) | (starts >= _PAST_ANY_AXIS)) & (ends <= -_PAST_ANY_AXIS) & (steps == -1)
    if not is_whole.all():
        raise NoMatch(f"{node} does not reverse whole axes")
    return frozenset(int(axis) % rank for axis in axes)


def match_reversed_twice(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    first = require_producer(graph, node.inputs[0], ("Slice",), node)
    rank = graph.rank_of(first.inputs[0])
    if not rank:
        raise NoMatch(f"the rank of the operand of {first} is not known")
    axes = _reversed_axes(graph, first, rank)
    if axes != _reversed_axes(graph, node, rank):
        raise NoMatch(f"{first} and {node} reverse different axes")
    sentence = f"{node} reverses axes {sorted(axes)} again after {first}; removed"
    return replace_with_operand(graph, node, first.inputs[0], sentence, (first,))


_OPPOSITES = "not (x > z) == (x <= z); not (x < z) == (x >= z); not (x >= z) == (x < z); not (x <= z) == (x > z)"


@dataclass(frozen=True)
class AlgebraInverse(Pass):
    """Nine cases:

    - Neg of Neg, Not of Not, BitwiseNot of BitwiseNot, Reciprocal of Reciprocal (except for numbers that are too
      small) and two Slices that reverse the same whole axes become the value before both;
    - Relu of Relu, Abs of Abs, Sign of Sign, and any of Ceil, Floor and Round after another become the first;
    - Relu of Abs, of floating-point numbers, becomes the Abs;
    - Where of Not becomes the Where with its choices exchanged;
    - Not of Greater, Less, GreaterOrEqual and LessOrEqual becomes the opposite comparison, of floating-point numbers in
      mode "fast", since no comparison with NaN is true;
    - a sum with a Neg becomes a difference, a difference with a Neg a sum;
    - Neg of Sub becomes the Sub with its operands exchanged, which for floating-point numbers may change the sign of
      zero.

    Does not apply to a sum or difference whose Neg or Sub has other readers and stays, nor to a Slice that is not known
    to reverse whole axes.

    Source: involutions and idempotent functions; ONNX's definitions of these operators.
    """

    title = "Remove inverse and repeated operators"

    rules = (
        algebraic_rule(
            "twice",
            "-(-x) == x; not (not p) == p; ~(~x) == x",
            "{root} undoes {nodes[0]}; removed",
            Example(
                before="g (float[N,3] x) => (float[N,3] y) { a = Neg(x)  b = Neg(a)  y = Relu(b) }",
                after="g (float[N,3] x) => (float[N,3] y) { a = Neg(x)  y = Relu(x) }",
                sentences=("Neg 'Neg_b' undoes Neg 'Neg_a'; removed",),
            ),
            refusals=(
                Refusal(
                    "g (bool[N,3] x) => (bool[N,3] y) { a = Identity(x)  b = Not(a)  y = Identity(b) }",
                    "Not 'Not_b' does not follow a Not",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        algebraic_rule(
            "reciprocal twice",
            "reciprocal(reciprocal(x)) == x if x != 0",
            "{root} undoes {nodes[0]}; removed",
            Example(
                before="g (float[N,3] x) => (float[N,3] y) { a = Reciprocal(x)  b = Reciprocal(a)  y = Relu(b) }",
                after="g (float[N,3] x) => (float[N,3] y) { a = Reciprocal(x)  y = Relu(x) }",
                sentences=("Reciprocal 'Reciprocal_b' undoes Reciprocal 'Reciprocal_a'; removed",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x) => (float[N,3] y) { a = Neg(x)  y = Reciprocal(a) }",
                    "Reciprocal 'Reciprocal_y' does not follow a Reciprocal",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample({"x": 1e-45}, 0, 1e-45, "its reciprocal overflows"),
        ),
        algebraic_rule(
            "same again",
            "relu(relu(x)) == relu(x); abs(abs(x)) == abs(x); sign(sign(x)) == sign(x); "
            "ceil(ceil(x)) == ceil(x); ceil(floor(x)) == floor(x); ceil(round(x)) == round(x); "
            "floor(ceil(x)) == ceil(x); floor(floor(x)) == floor(x); floor(round(x)) == round(x); "
            "round(ceil(x)) == ceil(x); round(floor(x)) == floor(x); round(round(x)) == round(x)",
            "{root} changes nothing after {nodes[0]}; 1 node fewer",
            Example(
                before="g (float[N,3] x) => (float[N,3] y) { a = Ceil(x)  b = Floor(a)  y = Neg(b) }",
                after="g (float[N,3] x) => (float[N,3] y) { a = Ceil(x)  y = Neg(a) }",
                sentences=("Floor 'Floor_b' changes nothing after Ceil 'Ceil_a'; 1 node fewer",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x) => (float[N,3] y) { a = Sign(x)  b = Abs(a)  y = Neg(b) }",
                    "Abs 'Abs_b' does not follow an Abs",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        algebraic_rule(
            "relu of absolute",
            "for floats: relu(abs(x)) == abs(x)",
            "no result of {nodes[0]} is below 0, so that {root} changes nothing; 1 node fewer",
            Example(
                before="g (float[N,3] x) => (float[N,3] y) { a = Abs(x)  b = Relu(a)  y = Neg(b) }",
                after="g (float[N,3] x) => (float[N,3] y) { a = Abs(x)  y = Neg(a) }",
                sentences=("no result of Abs 'Abs_a' is below 0, so that Relu 'Relu_b' changes nothing; 1 node fewer",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x) => (float[N,3] y) { a = Neg(x)  y = Relu(a) }",
                    "Relu 'Relu_y' does not follow an Abs",
                ),
                Refusal(
                    "g (int32[N,3] x) => (int32[N,3] y) { a = Abs(x)  y = Relu(a) }",
                    "'a', an operand of Relu 'Relu_y', is not known to hold floating-point numbers",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        algebraic_rule(
            "where of not, of integers",
            "for integers: where(not p, x, y) == where(p, y, x)",
            "{root} exchanges its two choices, without {nodes[0]}",
            Example(
                before="g (bool[N] p, int64[N] x, int64[N] z) => (int64[N] y) { q = Not(p)  y = Where(q, x, z) }",
                after="g (bool[N] p, int64[N] x, int64[N] z) => (int64[N] y) { y = Where(p, z, x) }",
                sentences=("Where 'Where_y' exchanges its two choices, without Not 'Not_q'",),
            ),
            refusals=(
                Refusal(
                    "g (int64[N] p, int64[N] x) => (int64[N] y) { q = Equal(p, x)  y = Where(q, x, p) }",
                    "Where 'Where_y' does not follow a Not",
                ),
                Refusal(
                    "g (bool[N] p, float[N] x, float[N] z) => (float[N] y) { q = Not(p)  y = Where(q, x, z) }",
                    "'x', an operand of Where 'Where_y', is not known to hold integers",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            shared=True,
        ),
        algebraic_rule(
            "where of not",
            "where(not p, x, y) == where(p, y, x)",
            "{root} exchanges its two choices, without {nodes[0]}",
            Example(
                before="g (bool[N] p, float[N] x, float[N] z) => (float[N] y) { q = Not(p)  y = Where(q, x, z) }",
                after="g (bool[N] p, float[N] x, float[N] z) => (float[N] y) { y = Where(p, z, x) }",
                sentences=("Where 'Where_y' exchanges its two choices, without Not 'Not_q'",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (bool[N] p, bool[N] r, float[N] x, float[N] z) => (float[N] y)"
                    " { q = And(p, r)  y = Where(q, x, z) }",
                    "Where 'Where_y' does not follow a Not",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample(
                {"p": 1, "x": 1, "z": -0.0}, -0.0, 0, "ONNX Runtime keeps the sign of a zero only in the last operand"
            ),
            shared=True,
        ),
        algebraic_rule(
            "not of a comparison of integers",
            f"for integers: {_OPPOSITES}",
            "{root} of {nodes[0]} becomes {new}; 1 node fewer",
            Example(
                before="g (int64[N,3] x, int64[3] z) => (bool[N,3] y) { a = Greater(x, z)  y = Not(a) }",
                after="g (int64[N,3] x, int64[3] z) => (bool[N,3] y) { y = LessOrEqual(x, z) }",
                sentences=("Not 'Not_y' of Greater 'Greater_a' becomes LessOrEqual; 1 node fewer",),
            ),
            refusals=(
                Refusal(
                    "g (int64[3] x, int64[3] z) => (bool[3] y) { a = Equal(x, z)  y = Not(a) }",
                    "Not 'Not_y' does not follow a Greater, Less, GreaterOrEqual or LessOrEqual",
                ),
                Refusal(
                    "g (float[3] x, float[3] z) => (bool[3] y) { a = Greater(x, z)  y = Not(a) }",
                    "'x', an operand of Greater 'Greater_a', is not known to hold integers",
                ),
                Refusal(
                    "g (int64[3] x, int64[3] z) => (bool[3] y, bool[3] a) { a = Greater(x, z)  y = Not(a) }",
                    "'a' of Greater 'Greater_a' is an output of the graph",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        algebraic_rule(
            "not of a comparison",
            _OPPOSITES,
            "{root} of {nodes[0]} becomes {new}; 1 node fewer",
            Example(
                before="g (float[N,3] x, float[3] z) => (bool[N,3] y) { a = Greater(x, z)  y = Not(a) }",
                after="g (float[N,3] x, float[3] z) => (bool[N,3] y) { y = LessOrEqual(x, z) }",
                sentences=("Not 'Not_y' of Greater 'Greater_a' becomes LessOrEqual; 1 node fewer",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[3] x) => (bool[3] y) { a = IsNaN(x)  y = Not(a) }",
                    "Not 'Not_y' does not follow a Greater, Less, GreaterOrEqual or LessOrEqual",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample({"x": np.nan, "z": 1}, True, False, "no comparison with NaN is true"),
        ),
        algebraic_rule(
            "negative summand",
            "x + -z == x - z; x - -z == x + z",
            "{root} of {nodes[0]} becomes {new}; 1 node fewer",
            Example(
                before="g (float[N,3] x, float[3] z) => (float[N,3] y) { n = Neg(z)  y = Add(n, x) }",
                after="g (float[N,3] x, float[3] z) => (float[N,3] y) { y = Sub(x, z) }",
                sentences=("Add 'Add_y' of Neg 'Neg_n' becomes Sub; 1 node fewer",),
            ),
            refusals=(
                Refusal(
                    "g (float[3] x) => (float[3] y) { n = Neg(x)  y = Add(n, n) }",
                    "Add 'Add_y' reads 'n' twice",
                ),
                Refusal(
                    "g (float[3] x, float[3] z) => (float[3] y, float[3] w) { n = Neg(z)  y = Sub(x, n)  w = Relu(n) }",
                    "Relu 'Relu_w' reads 'n' of Neg 'Neg_n' too",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        algebraic_rule(
            "negative difference of integers",
            "for integers: -(x - z) == z - x",
            "{root} exchanges the operands of {nodes[0]}; 1 node fewer",
            Example(
                before="g (int64[N,3] x, int64[3] z) => (int64[N,3] y) { s = Sub(x, z)  y = Neg(s) }",
                after="g (int64[N,3] x, int64[3] z) => (int64[N,3] y) { y = Sub(z, x) }",
                sentences=("Neg 'Neg_y' exchanges the operands of Sub 'Sub_s'; 1 node fewer",),
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x, float[3] z) => (float[N,3] y) { s = Sub(x, z)  y = Neg(s) }",
                    "'s', an operand of Neg 'Neg_y', is not known to hold integers",
                ),
                Refusal(
                    "g (int64[N,3] x) => (int64[N,3] y) { s = Abs(x)  y = Neg(s) }",
                    "Neg 'Neg_y' does not follow a Sub",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        algebraic_rule(
            "negative difference",
            "-(x - z) == z - x",
            "{root} exchanges the operands of {nodes[0]}; 1 node fewer",
            Example(
                before="g (float[N,3] x, float[3] z) => (float[N,3] y) { s = Sub(x, z)  y = Neg(s) }",
                after="g (float[N,3] x, float[3] z) => (float[N,3] y) { y = Sub(z, x) }",
                sentences=("Neg 'Neg_y' exchanges the operands of Sub 'Sub_s'; 1 node fewer",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[N,3] x, float[3] z) => (float[N,3] y) { s = Add(x, z)  y = Neg(s) }",
                    "Neg 'Neg_y' does not follow a Sub",
                ),
                Refusal(
                    "g (float[N,3] x, float[3] z) => (float[N,3] y, float[N,3] s) { s = Sub(x, z)  y = Neg(s) }",
                    "'s' of Sub 'Sub_s' is an output of the graph",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample({"x": 1, "z": 1}, -0.0, 0, "the negative of 0 is -0"),
        ),
        Rule(
            "reversed twice",
            ("Slice",),
            match_reversed_twice,
            Example(
                before="""g (float[N,3] x) => (float[N,3] y)
                    <int64[1] s = {-1}, int64[1] e = {-9223372036854775807}, int64[1] a = {1}, int64[1] b = {-1}> {
                    u = Slice(x, s, e, a, s)
                    v = Slice(u, s, e, b, s)
                    y = Neg(v)
                }""",
                after="""g (float[N,3] x) => (float[N,3] y)
                    <int64[1] s = {-1}, int64[1] e = {-9223372036854775807}, int64[1] a = {1}> {
                    u = Slice(x, s, e, a, s)
                    y = Neg(x)
                }""",
                sentences=("Slice 'Slice_v' reverses axes [1] again after Slice 'Slice_u'; removed",),
            ),
            refusals=(
                Refusal(
                    """g (float[3,3] x) => (float[3,3] y)
                        <int64[1] s = {-1}, int64[1] e = {-2147483648}, int64[1] a = {1}, int64[1] b = {0}> {
                        u = Slice(x, s, e, a, s)
                        y = Slice(u, s, e, b, s)
                    }""",
                    "Slice 'Slice_u' and Slice 'Slice_y' reverse different axes",
                ),
                Refusal(
                    """g (float[3,3] x) => (float[1,3] y)
                        <int64[1] s = {-1}, int64[1] e = {-2}, int64[1] b = {0}> {
                        u = Slice(x, s, e, b, s)
                        y = Slice(u, s, e, b, s)
                    }""",
                    "Slice 'Slice_u' does not reverse whole axes",
                ),
                Refusal(
                    "g (float[3] x) => (float[1] y) <int64[1] s = {0}, int64[1] e = {1}>"
                    " { u = Slice(x, s, e)  y = Slice(u, s, e) }",
                    "Slice 'Slice_u' does not reverse an axis",
                ),
                Refusal(
                    "g (float x_) => (float[1] y) <int64[1] s = {-1}, int64[1] e = {-2147483648}, int64[1] a = {0}>"
                    " { u = Unknown(x_)  v = Slice(u, s, e, a, s)  y = Slice(v, s, e, a, s) }",
                    "the rank of the operand of Slice 'Slice_v' is not known",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            law="for sizes: (n - 1) - ((n - 1) - i) == i",
        ),
    )
