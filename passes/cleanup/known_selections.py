"""Remove Where and Gather nodes that always return one operand unchanged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Graph, Node
from workbench.rewrite import Counterexample, Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.zeros import holds_no_negative_zero
from workbench.rewrite.core.guards import broadcasts_into, replace_with_operand, require_constant, require_floating


def _same_choice(graph: Graph, node: Node) -> str:
    """The operand that Where takes whatever its condition. Raises NoMatch if there is none."""
    condition, first, second = node.inputs
    if first != second:
        raise NoMatch(f"{node} chooses between two values, '{first}' and '{second}'")
    if not broadcasts_into(graph.shape(condition), graph.shape(first)):
        raise NoMatch(f"the result of {node} may be larger than '{first}' by broadcasting")
    return first


def match_same_choices(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    """ONNX Runtime's Where turns -0.0 into 0.0 where it takes the first choice."""
    taken = _same_choice(graph, node)
    type_ = graph.tensor_type(taken)
    if (type_ is None or type_.dtype.is_floating_point()) and not holds_no_negative_zero(graph, taken):
        raise NoMatch(f"'{taken}' may hold -0.0, which {node} may turn into 0.0")
    return _chosen(graph, node, taken)


def match_same_choices_fast(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    taken = _same_choice(graph, node)
    require_floating(graph, taken, node)
    return _chosen(graph, node, taken)


def _chosen(graph: Graph, node: Node, taken: str) -> Rewrite:
    return replace_with_operand(graph, node, taken, f"both choices of {node} are '{taken}'; replaced by it")


def _constant_choice(graph: Graph, node: Node) -> tuple[str, bool]:
    """The operand that Where takes everywhere, and its condition. Raises NoMatch if there is none."""
    condition = require_constant(graph, node.inputs[0], node)
    if not condition.size or condition.any() != condition.all():
        raise NoMatch(f"the condition '{node.inputs[0]}' of {node} is not the same everywhere")
    is_true = bool(condition.all())
    taken, other = node.inputs[1:] if is_true else node.inputs[:0:-1]
    shape = graph.shape(taken)
    if not broadcasts_into(graph.shape(other), shape) or not broadcasts_into(condition.shape, shape):
        raise NoMatch(f"the result of {node} may be larger than '{taken}' by broadcasting")
    return taken, is_true


def _replaced(graph: Graph, node: Node, taken: str, is_true: bool) -> Rewrite:
    sentence = f"the condition of {node} is {'true' if is_true else 'false'} everywhere; replaced by '{taken}'"
    return replace_with_operand(graph, node, taken, sentence)


def match_where(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    """A Where with a constant condition becomes the operand that it selects.

    The operand of a true condition must hold no -0.0, because ONNX Runtime's Where turns it into 0.0.
    """
    taken, is_true = _constant_choice(graph, node)
    type_ = graph.tensor_type(taken)
    if is_true and (type_ is None or type_.dtype.is_floating_point()) and not holds_no_negative_zero(graph, taken):
        raise NoMatch(f"'{taken}' may hold -0.0, which {node} turns into 0.0")
    return _replaced(graph, node, taken, is_true)


def match_where_fast(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    taken, is_true = _constant_choice(graph, node)
    require_floating(graph, taken, node)
    return _replaced(graph, node, taken, is_true)


def match_gather_of_all(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    source = node.inputs[0]
    shape = graph.shape(source)
    indices = require_constant(graph, node.inputs[1], node)
    if not shape:
        raise NoMatch(f"the shape of '{source}' of {node} is not known")
    size = shape[node.attr("axis") % len(shape)]
    if (
        not isinstance(size, int)
        or indices.shape != (size,)
        or (np.where(indices < 0, indices + size, indices) != np.arange(size)).any()
    ):
        raise NoMatch(f"{node} is not known to take all of '{source}' in order")
    return replace_with_operand(graph, node, source, f"{node} takes all of '{source}' in order; removed")


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
        Rule(
            "constant condition",
            ("Where",),
            match_where,
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
            exactness=Exactness.BIT_EXACT,
            law="where(True, x, z) == x if x != 0; where(False, x, z) == z",
        ),
        Rule(
            "all-true condition",
            ("Where",),
            match_where_fast,
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
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample(
                {"x": -0.0, "z": 1}, -0.0, 0, "ONNX Runtime turns -0.0 of the second operand into 0.0"
            ),
            law="where(True, x, z) == x",
        ),
        Rule(
            "same choices",
            ("Where",),
            match_same_choices,
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
            exactness=Exactness.BIT_EXACT,
            law="where(p, x, x) == x if x != 0",
        ),
        Rule(
            "same choices, ignoring the sign of zero",
            ("Where",),
            match_same_choices_fast,
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
            exactness=Exactness.FAST_MATH,
            counterexample=Counterexample(
                {"p": 1, "x": -0.0}, -0.0, 0, "ONNX Runtime turns -0.0 of the second operand into 0.0"
            ),
            law="where(p, x, x) == x",
        ),
        Rule(
            "gather of all",
            ("Gather",),
            match_gather_of_all,
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
            exactness=Exactness.BIT_EXACT,
        ),
    )
