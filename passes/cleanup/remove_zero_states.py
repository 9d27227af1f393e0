"""Leave out initial states of recurrent networks that are zero."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.ir import Edit, Graph, Node
from workbench.rewrite import Exactness, Example, NoMatch, Pass, Refusal, Rewrite, Rule
from workbench.rewrite.analyses.zeros import is_zero
from workbench.rewrite.core.guards import require_constant

_FACTORS = (2, 7)  # the operands by which the states are multiplied: R, and P of LSTM
_STATES = (5, 6)  # initial_h, and initial_c of LSTM


def match_zero_states(graph: Graph, node: Node, pass_: Pass) -> Rewrite:
    present = [index for index in _STATES if index < len(node.inputs) and node.inputs[index]]
    if not present:
        raise NoMatch(f"{node} has no initial state")
    zero = [index for index in present if is_zero(graph, node.inputs[index])]
    if not zero:
        raise NoMatch(f"'{node.inputs[present[0]]}', the initial state of {node}, is not known to be zero")
    for factor in (node.inputs[index] for index in _FACTORS if index < len(node.inputs) and node.inputs[index]):
        if not np.isfinite(require_constant(graph, factor, node)).all():
            raise NoMatch(f"'{factor}' of {node} holds infinity or NaN, which times zero is NaN")
    inputs = ["" if index in zero else value for index, value in enumerate(node.inputs)]
    while not inputs[-1]:
        inputs.pop()
    states = dict.fromkeys(node.inputs[index] for index in zero)
    subject = " and ".join(f"'{state}'" for state in states) + (" is" if len(states) == 1 else " are")
    edit = Edit(remove=(node.name,), insert=(node.replace(inputs=tuple(inputs)),))
    return Rewrite(edit, f"{subject} left out of {node}, which then starts with zeros", (node.name,))


@dataclass(frozen=True)
class RemoveZeroStates(Pass):
    """One case: an initial state of GRU, LSTM or RNN that is zero everywhere is left out, since that is what the
    operator starts with; what computed its shape is then unused.

    A zero state is a constant, a ConstantOfShape, or what Expand, Reshape, Slice or Concat make of these. Does not
    apply to a state that holds -0.0 or that is computed in another way, nor if the weights of the recurrence are
    computed or hold infinity or NaN: ONNX Runtime multiplies a state that is given, and 0 * inf is NaN.

    Source: ONNX's definitions: initial_h and initial_c are "assumed to be 0" if they are not given.
    """

    title = "Leave out initial states of zero"

    rules = (
        Rule(
            "zero states",
            ("GRU", "LSTM", "RNN"),
            match_zero_states,
            Example(
                before="""g (float[S,N,2] x, float[1,1,2] w) => (float[S,1,N,1] y)
                    <float[1,1,1] r = {2}, int64[1] one = {1}> {
                    n = Shape<start=1, end=2>(x)
                    s = Concat<axis=0>(one, n, one)
                    h = ConstantOfShape(s)
                    y = RNN<hidden_size=1>(x, w, r, , , h)
                }""",
                after="""g (float[S,N,2] x, float[1,1,2] w) => (float[S,1,N,1] y)
                    <float[1,1,1] r = {2}, int64[1] one = {1}> {
                    n = Shape<start=1, end=2>(x)
                    s = Concat<axis=0>(one, n, one)
                    h = ConstantOfShape(s)
                    y = RNN<hidden_size=1>(x, w, r)
                }""",
                sentences=("'h' is left out of RNN 'RNN_y', which then starts with zeros",),
            ),
            refusals=(
                Refusal(
                    "g (float[S,N,2] x, float[1,3,2] w, float[1,3,1] r) => (float[S,1,N,1] y)"
                    " { y = GRU<hidden_size=1>(x, w, r) }",
                    "GRU 'GRU_y' has no initial state",
                ),
                Refusal(
                    "g (float[S,1,2] x, float[1,3,2] w, float[1,3,1] r) => (float[S,1,1,1] y)"
                    " <float[1,1,1] h = {-0.0}> { y = GRU<hidden_size=1>(x, w, r, , , h) }",
                    "'h', the initial state of GRU 'GRU_y', is not known to be zero",
                ),
                Refusal(
                    "g (float[S,N,2] x, float[1,1,2] w, float[1,1,1] r, float[1,N,1] h) => (float[S,1,N,1] y)"
                    " { y = RNN<hidden_size=1>(x, w, r, , , h) }",
                    "'h', the initial state of RNN 'RNN_y', is not known to be zero",
                ),
                Refusal(
                    "g (float[S,1,2] x, float[1,1,2] w, float[1,1,1] r) => (float[S,1,1,1] y) <float[1,1,1] h = {0}>"
                    " { y = RNN<hidden_size=1>(x, w, r, , , h) }",
                    "'r', an operand of RNN 'RNN_y', is not a constant",
                ),
            ),
            exactness=Exactness.BIT_EXACT,
        ),
    )

    extra_examples = (
        Example(
            title="Both states, of one constant",
            before="""g (float[3,1,2] x, float[1,4,2] w) => (float[3,1,1,1] y)
                <float[1,4,1] r = {1, 2, 3, 4}, float[1,1] zero = {0}, int64[3] s = {1, 1, 1}> {
                h = Expand(zero, s)
                y = LSTM<hidden_size=1>(x, w, r, , , h, h)
            }""",
            after="""g (float[3,1,2] x, float[1,4,2] w) => (float[3,1,1,1] y)
                <float[1,4,1] r = {1, 2, 3, 4}, float[1,1] zero = {0}, int64[3] s = {1, 1, 1}> {
                h = Expand(zero, s)
                y = LSTM<hidden_size=1>(x, w, r)
            }""",
            sentences=("'h' is left out of LSTM 'LSTM_y', which then starts with zeros",),
        ),
        Example(
            title="One state of two",
            before="""g (float[3,1,2] x, float[1,4,2] w, float[1,1,1] c) => (float[3,1,1,1] y)
                <float[1,4,1] r = {1, 2, 3, 4}, float[1,1,1] h = {0}> {
                y = LSTM<hidden_size=1>(x, w, r, , , h, c)
            }""",
            after="""g (float[3,1,2] x, float[1,4,2] w, float[1,1,1] c) => (float[3,1,1,1] y)
                <float[1,4,1] r = {1, 2, 3, 4}> {
                y = LSTM<hidden_size=1>(x, w, r, , , , c)
            }""",
            sentences=("'h' is left out of LSTM 'LSTM_y', which then starts with zeros",),
        ),
    )
