"""Compute what an operator of one value and itself gives without computing it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import DataType, Edit, Graph, Node, constant
from workbench.rewrite import Counterexample, Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.core.guards import require_floating
from workbench.rewrite.patterns.algebra import algebraic_rule

_TRUE = ("Equal", "GreaterOrEqual", "LessOrEqual")
_FALSE = ("Greater", "Less", "Xor")
_ANY_NUMBER = ("Greater", "Less")  # false for NaN too


def _require_same(node: Node) -> str:
    """The value that the node reads twice."""
    first, second = node.inputs
    if first != second:
        raise NoMatch(f"{node} reads two values, '{first}' and '{second}'")
    return first


def _filled(graph: Graph, node: Node) -> Rewrite:
    """The rewrite of the node as a ConstantOfShape."""
    source, type_ = node.inputs[0], graph.tensor_type(node.inputs[0])
    shape = None if type_ is None else type_.static_shape
    if type_ is None or shape is None:
        raise NoMatch(f"the shape of '{source}' is not fixed, so that filling it would take a Shape more")
    number = node.op in (*_TRUE, "Div")
    dtype = np.dtype(bool) if node.op in (*_TRUE, *_FALSE) else type_.dtype.numpy()
    name = graph.fresh(f"{node.outputs[0]}_shape")
    filled = node.replace(
        op_type="ConstantOfShape", inputs=(name,), attributes={"value": constant(np.full(1, number, dtype))}
    )
    edit = Edit(remove=(node.name,), insert=(filled,), constants={name: constant(np.array(shape, np.int64), name)})
    word = str(number).lower() if node.op in (*_TRUE, *_FALSE) else int(number)
    sentence = f"{node} of '{source}' and itself is {word} everywhere; filled in, without reading {type_.elements:,}"
    return Rewrite(edit, f"{sentence} elements", (node.name,))


def match_known_result(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    source = _require_same(node)
    type_ = graph.tensor_type(source)
    is_whole = type_ is not None and (type_.dtype.is_integer() or type_.dtype == DataType.BOOL)
    if not is_whole and node.op not in _ANY_NUMBER:
        raise NoMatch(f"'{source}' may hold NaN, for which {node} gives something else")
    return _filled(graph, node)


def match_known_result_of_floats(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    require_floating(graph, _require_same(node), node)
    return _filled(graph, node)


@dataclass(frozen=True)
class AlgebraSame(Pass):
    """An operator that reads one value twice:

    - And, Or, Max, Min, BitwiseAnd and BitwiseOr return it, and are removed;
    - Sub, Xor and BitwiseXor are 0 or false, Div is 1, Equal, GreaterOrEqual and LessOrEqual are true, for integers and
      booleans; Greater and Less are false for any numbers: these are filled in;
    - these of floating-point numbers too, in mode "fast": infinity - infinity and 0 / 0 are NaN, which equals nothing.

    An integer divided by 0, which ONNX leaves undefined and ONNX Runtime refuses, is then 1.

    Does not apply if the shape is not fixed.

    Source: LLVM's InstSimplify, which has the same cases and the same flags for floating-point numbers.
    """

    title = "Operators of a value and itself"

    rules = (
        algebraic_rule(
            "same value twice",
            "p and p == p; p or p == p; max(x, x) == x; min(x, x) == x; x & x == x; x | x == x",
            "{root} of one value twice returns it; 1 node fewer",
            Example(
                before="g (float[N,3] x) => (float[N,3] y) { a = Max(x, x)  y = Neg(a) }",
                after="g (float[N,3] x) => (float[N,3] y) { y = Neg(x) }",
                sentences=("Max 'Max_a' of one value twice returns it; 1 node fewer",),
            ),
            refusals=(
                Refusal(
                    "g (bool[N] x, bool[N] z) => (bool[N] y) { a = And(x, z)  y = Not(a) }",
                    "p and p needs 'x' where And 'And_a' reads 'z'",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
        Rule(
            "known result",
            ("Sub", "Div", "BitwiseXor", *_TRUE, *_FALSE),
            match_known_result,
            Example(
                before="""g (int64[2,3] x, float[4] z) => (int64[2,3] y, bool[4] q, int64[2,3] w) {
                    y = Sub(x, x)
                    q = Less(z, z)
                    m = Mul(x, x)
                    p = Abs(m)
                    w = BitwiseXor(p, p)
                }""",
                after="""g (int64[2,3] x, float[4] z) => (int64[2,3] y, bool[4] q, int64[2,3] w)
                    <int64[2] y_shape = {2, 3}, int64[1] q_shape = {4}, int64[2] w_shape = {2, 3}> {
                    y = ConstantOfShape<value = int64[1] {0}>(y_shape)
                    q = ConstantOfShape<value = bool[1] {0}>(q_shape)
                    m = Mul(x, x)
                    p = Abs(m)
                    w = ConstantOfShape<value = int64[1] {0}>(w_shape)
                }""",
                sentences=(
                    "Sub 'Sub_y' of 'x' and itself is 0 everywhere; filled in, without reading 6 elements",
                    "Less 'Less_q' of 'z' and itself is false everywhere; filled in, without reading 4 elements",
                    "BitwiseXor 'BitwiseXor_w' of 'p' and itself is 0 everywhere; filled in, without reading 6 "
                    "elements",
                ),
            ),
            refusals=(
                Refusal(
                    "g (int64[2] x, int64[2] z) => (int64[2] y) { y = Sub(x, z) }",
                    "Sub 'Sub_y' reads two values, 'x' and 'z'",
                ),
                Refusal(
                    "g (int64[N] x) => (int64[N] y) { y = Sub(x, x) }",
                    "the shape of 'x' is not fixed, so that filling it would take a Shape more",
                ),
                Refusal(
                    "g (float[2] x) => (bool[2] y) { y = Equal(x, x) }",
                    "'x' may hold NaN, for which Equal 'Equal_y' gives something else",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
            law="for integers: x - x == 0; x / x == 1 if x != 0; x ^ x == 0",
        ),
        Rule(
            "known result of floats",
            ("Sub", "Div", *_TRUE),
            match_known_result_of_floats,
            Example(
                before="g (float[2,3] x) => (float[2,3] y) { y = Sub(x, x) }",
                after="""g (float[2,3] x) => (float[2,3] y) <int64[2] y_shape = {2, 3}> {
                    y = ConstantOfShape<value = float[1] {0}>(y_shape)
                }""",
                sentences=("Sub 'Sub_y' of 'x' and itself is 0 everywhere; filled in, without reading 6 elements",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (float[2] x, float[2] z) => (float[2] y) { y = Div(x, z) }",
                    "Div 'Div_y' reads two values, 'x' and 'z'",
                ),
                Refusal(
                    "g (int64[2] x) => (int64[2] y) { y = Sub(x, x) }",
                    "'x', an operand of Sub 'Sub_y', is not known to hold floating-point numbers",
                ),
            ),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample({"x": np.inf}, np.nan, 0, "infinity less infinity is NaN"),
            law="x - x == 0; x / x == 1 if x != 0",
        ),
    )

    extra_examples = (
        Example(
            title="A quotient of floating-point numbers",
            before="""g (float[2,3] x) => (float[2,3] y) { a = Exp(x)  y = Div(a, a) }""",
            after="""g (float[2,3] x) => (float[2,3] y) <int64[2] y_shape = {2, 3}> {
                a = Exp(x)
                y = ConstantOfShape<value = float[1] {1}>(y_shape)
            }""",
            sentences=("Div 'Div_y' of 'a' and itself is 1 everywhere; filled in, without reading 6 elements",),
            mode="fast",
        ),
        Example(
            title="A comparison of floating-point numbers",
            before="g (float[2,3] x) => (bool[2,3] y) { y = Equal(x, x) }",
            after="""g (float[2,3] x) => (bool[2,3] y) <int64[2] y_shape = {2, 3}> {
                y = ConstantOfShape<value = bool[1] {1}>(y_shape)
            }""",
            sentences=("Equal 'Equal_y' of 'x' and itself is true everywhere; filled in, without reading 6 elements",),
            mode="fast",
        ),
        Example(
            title="Quotients, equality and exclusive or",
            before="""g (int64[2] x, bool[2] p) => (int64[2] y, bool[2] q, bool[2] r) <int64 one = {1}> {
                a = Max(x, one)
                y = Div(a, a)
                q = Equal(x, x)
                r = Xor(p, p)
            }""",
            after="""g (int64[2] x, bool[2] p) => (int64[2] y, bool[2] q, bool[2] r)
                <int64[1] y_shape = {2}, int64[1] q_shape = {2}, int64[1] r_shape = {2}, int64 one = {1}> {
                a = Max(x, one)
                y = ConstantOfShape<value = int64[1] {1}>(y_shape)
                q = ConstantOfShape<value = bool[1] {1}>(q_shape)
                r = ConstantOfShape<value = bool[1] {0}>(r_shape)
            }""",
            sentences=(
                "Div 'Div_y' of 'a' and itself is 1 everywhere; filled in, without reading 2 elements",
                "Equal 'Equal_q' of 'x' and itself is true everywhere; filled in, without reading 2 elements",
                "Xor 'Xor_r' of 'p' and itself is false everywhere; filled in, without reading 2 elements",
            ),
        ),
    )
