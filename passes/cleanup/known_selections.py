"""Remove Where and Gather nodes that always return one operand unchanged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Graph
from workbench.rewrite import Counterexample, Exactness, Example, Pass, Refusal
from workbench.rewrite.analyses.zeros import holds_no_negative_zero
from workbench.rewrite.core.guards import broadcasts_into
from workbench.rewrite.patterns.conditions import NamedFunction
from workbench.rewrite.patterns.graph_rules import graph_rule
from workbench.rewrite.patterns.standard import is_floating

_ARE_THE_SAME = (
    (lambda x, z: x == z, "{root} chooses between two values, '{x}' and '{z}'"),
    (
        lambda graph, p, x: broadcasts_into(graph.shape(p), graph.shape(x)),
        "the result of {root} may be larger than '{x}' by broadcasting",
    ),
)
_IS_THE_SAME_EVERYWHERE = (
    (lambda p: p.size and p.any() == p.all(), "the condition '{p}' of {root} is not the same everywhere"),
    (
        lambda graph, p, taken, other: all(broadcasts_into(shape, graph.shape(taken)) for shape in (other, p.shape)),
        "the result of {root} may be larger than '{taken}' by broadcasting",
    ),
)
_TAKEN: dict[str, NamedFunction] = {
    "taken": lambda p, x, z: x if p.all() else z,
    "other": lambda graph, p, x, z: graph.shape(z if p.all() else x),
    "truth": lambda p: "true" if p.all() else "false",
}


def keeps_sign_of_zero(graph: Graph, x: str) -> bool:
    """ONNX Runtime's Where turns -0.0 into 0.0 where it takes the first choice."""
    type_ = graph.tensor_type(x)
    is_whole = type_ is not None and not type_.dtype.is_floating_point()
    return is_whole or holds_no_negative_zero(graph, x)


def keeps_sign_of_taken(graph: Graph, p: np.ndarray, taken: str) -> bool:
    return not p.all() or keeps_sign_of_zero(graph, taken)


def takes_all_in_order(graph: Graph, x: str, indices: np.ndarray, axis: int) -> bool:
    size = (graph.shape(x) or ())[axis]
    if not isinstance(size, int) or indices.shape != (size,):
        return False
    return bool((np.where(indices < 0, indices + size, indices) == np.arange(size)).all())


@dataclass(frozen=True)
class KnownSelections(Pass):
    """A node that always returns one operand unchanged is replaced by that operand:

    - Where with an all-false condition;
    - Where with an all-true condition, if the selected operand cannot hold -0.0 or the mode is "fast": ONNX Runtime
      turns -0.0 in that operand into 0.0;
    - Where whose choices are one value, under the same condition;
    - Gather of all elements of an axis in order.

    Does not apply if the other operand or the condition may enlarge the result by broadcasting, nor if the axis is
    symbolic or removed.

    Source: ONNX's definitions; the simplification of select by LLVM's InstSimplify, eliminate_nop_* of onnx-optimizer.
    """

    title = "Remove Where and Gather without effect"

    rules = (
        graph_rule(
            "constant condition",
            "y = Where(p, x, z)",
            "y = taken",
            "the condition of {root} is {truth} everywhere; replaced by '{taken}'",
            Example(
                before="""g (float[N,3] x, float[3] z) => (float[N,3] y) <bool[1,3] t = {1, 1, 1}, bool f = {0}> {
                    a = Where(f, z, x)
                    e = Exp(a)
                    b = Where(t, e, z)
                    y = Neg(b)
                }""",
                after="g (float[N,3] x, float[3] z) => (float[N,3] y) { e = Exp(x)  y = Neg(e) }",
                sentences=(
                    "the condition of Where 'Where_a' is false everywhere; replaced by 'x'",
                    "the condition of Where 'Where_b' is true everywhere; replaced by 'e'",
                ),
            ),
            refusals=(
                Refusal(
                    "g (float[2] x, float[2] z) => (float[2] y) <bool[2] t = {1, 0}>"
                    " { a = Where(t, x, z)  y = Neg(a) }",
                    "the condition 't' of Where 'Where_a' is not the same everywhere",
                ),
                Refusal(
                    "g (float[3] x, float[N,3] z) => (float[N,3] y) <bool t = {1}> { a = Where(t, x, z)  y = Neg(a) }",
                    "the result of Where 'Where_a' may be larger than 'x' by broadcasting",
                ),
                Refusal(
                    "g (float x, float z) => (float[2] y) <bool[2] t = {1, 1}> { a = Where(t, x, z)  y = Neg(a) }",
                    "the result of Where 'Where_a' may be larger than 'x' by broadcasting",
                ),
                Refusal(
                    "g (float[3] x, float[3] z) => (float[3] y) <bool t = {1}> { a = Where(t, x, z)  y = Neg(a) }",
                    "'x' may hold -0.0, which Where 'Where_a' turns into 0.0",
                ),
                Refusal(
                    "g (bool p, float[3] x, float[3] z) => (float[3] y) { a = Where(p, x, z)  y = Neg(a) }",
                    "'p', an operand of Where 'Where_a', is not a constant",
                ),
            ),
            constants=("p",),
            where=(
                *_IS_THE_SAME_EVERYWHERE,
                (keeps_sign_of_taken, "'{taken}' may hold -0.0, which {root} turns into 0.0"),
            ),
            computed=_TAKEN,
            exactness=Exactness.BIT_EXACT,
            law="where(True, x, z) == x if x != 0; where(False, x, z) == z",
        ),
        graph_rule(
            "all-true condition",
            "y = Where(p, x, z)",
            "y = taken",
            "the condition of {root} is {truth} everywhere; replaced by '{taken}'",
            Example(
                before="g (float[N] x, float[1] z) => (float[N] y) <bool t = {1}> { a = Where(t, x, z)  y = Neg(a) }",
                after="g (float[N] x, float[1] z) => (float[N] y) { y = Neg(x) }",
                sentences=("the condition of Where 'Where_a' is true everywhere; replaced by 'x'",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (int64[3] x, int64[3] z) => (int64[3] y) <bool t = {1}> { a = Where(t, x, z)  y = Neg(a) }",
                    "'x', an operand of Where 'Where_a', is not known to hold floating-point numbers",
                ),
            ),
            constants=("p",),
            where=(*_IS_THE_SAME_EVERYWHERE, is_floating("taken")),
            computed=_TAKEN,
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample(
                {"x": -0.0, "z": 1}, -0.0, 0, "ONNX Runtime turns -0.0 of the second operand into 0.0"
            ),
            law="where(True, x, z) == x",
        ),
        graph_rule(
            "same choices",
            "y = Where(p, x, z)",
            "y = x",
            "both choices of {root} are '{x}'; replaced by it",
            Example(
                before="""g (bool[N,1] p, float[N,3] x, int64[N,3] i) => (float[N,3] y, int64[N,3] j) {
                    e = Exp(x)
                    a = Where(p, e, e)
                    y = Neg(a)
                    b = Where(p, i, i)
                    j = Neg(b)
                }""",
                after="g (bool[N,1] p, float[N,3] x, int64[N,3] i) => (float[N,3] y, int64[N,3] j)"
                " { e = Exp(x)  y = Neg(e)  j = Neg(i) }",
                sentences=(
                    "both choices of Where 'Where_a' are 'e'; replaced by it",
                    "both choices of Where 'Where_b' are 'i'; replaced by it",
                ),
            ),
            refusals=(
                Refusal(
                    "g (bool p, int64[3] x, int64[3] z) => (int64[3] y) { a = Where(p, x, z)  y = Neg(a) }",
                    "Where 'Where_a' chooses between two values, 'x' and 'z'",
                ),
                Refusal(
                    "g (bool[N,3] p, int64[3] x) => (int64[N,3] y) { a = Where(p, x, x)  y = Neg(a) }",
                    "the result of Where 'Where_a' may be larger than 'x' by broadcasting",
                ),
                Refusal(
                    "g (bool[3] p, float[3] x) => (float[3] y) { a = Where(p, x, x)  y = Neg(a) }",
                    "'x' may hold -0.0, which Where 'Where_a' may turn into 0.0",
                ),
            ),
            where=(*_ARE_THE_SAME, (keeps_sign_of_zero, "'{x}' may hold -0.0, which {root} may turn into 0.0")),
            exactness=Exactness.BIT_EXACT,
            law="where(p, x, x) == x if x != 0",
        ),
        graph_rule(
            "same choices, ignoring the sign of zero",
            "y = Where(p, x, z)",
            "y = x",
            "both choices of {root} are '{x}'; replaced by it",
            Example(
                before="g (bool[N] p, float[N] x) => (float[N] y) { a = Where(p, x, x)  y = Neg(a) }",
                after="g (bool[N] p, float[N] x) => (float[N] y) { y = Neg(x) }",
                sentences=("both choices of Where 'Where_a' are 'x'; replaced by it",),
                mode="fast",
            ),
            refusals=(
                Refusal(
                    "g (bool p, bool[3] x) => (bool[3] y) { a = Where(p, x, x)  y = Not(a) }",
                    "'x', an operand of Where 'Where_a', is not known to hold floating-point numbers",
                ),
            ),
            where=(*_ARE_THE_SAME, is_floating("x")),
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample(
                {"p": 1, "x": -0.0}, -0.0, 0, "ONNX Runtime turns -0.0 of the second operand into 0.0"
            ),
            law="where(p, x, x) == x",
        ),
        graph_rule(
            "gather of all",
            "y = Gather(x, indices, axis=axis)",
            "y = x",
            "{root} takes all of '{x}' in order; removed",
            Example(
                before="g (float[N,3] x) => (float[N,3] y) <int64[3] i = {0, -2, 2}>"
                " { a = Gather<axis=-1>(x, i)  y = Neg(a) }",
                after="g (float[N,3] x) => (float[N,3] y) { y = Neg(x) }",
                sentences=("Gather 'Gather_a' takes all of 'x' in order; removed",),
            ),
            refusals=(
                Refusal(
                    "g (float[2,3] x) => (float[2,3] y) <int64[2] i = {1, 0}> { a = Gather(x, i)  y = Neg(a) }",
                    "Gather 'Gather_a' is not known to take all of 'x' in order",
                ),
                Refusal(
                    "g (float[2,3] x) => (float[2,3] y) <int64[2] i = {2, 1}> { a = Gather(x, i)  y = Neg(a) }",
                    "Gather 'Gather_a' is not known to take all of 'x' in order",
                ),
                Refusal(
                    "g (float[N,3] x) => (float[2,3] y) <int64[2] i = {0, 1}> { a = Gather(x, i)  y = Neg(a) }",
                    "Gather 'Gather_a' is not known to take all of 'x' in order",
                ),
                Refusal(
                    "g (float[1,3] x) => (float[3] y) <int64 i = {0}> { a = Gather(x, i)  y = Neg(a) }",
                    "Gather 'Gather_a' is not known to take all of 'x' in order",
                ),
            ),
            constants=("indices",),
            where=(
                (lambda graph, x: graph.shape(x), "the shape of '{x}' of {root} is not known"),
                (takes_all_in_order, "{root} is not known to take all of '{x}' in order"),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
    )
