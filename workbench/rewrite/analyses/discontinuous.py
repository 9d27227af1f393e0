"""Operators whose result may change visibly with the last bit of an operand: steps, and periods of large angles."""

from __future__ import annotations

import math

from workbench.ir import Graph, Node
from workbench.rewrite.core.amplified_rounding import COMPARISONS, MAX_ANGLE, PERIODIC, amplifier_of
from workbench.rewrite.core.rule import NoMatch

DISCONTINUOUS = frozenset(
    {
        *("Floor", "Ceil", "Round", "Sign", "Cast", "Mod", "QuantizeLinear", "DynamicQuantizeLinear"),
        *(*COMPARISONS, "ArgMax", "ArgMin", "TopK", "NonZero"),
    }
)


def require_no_discontinuous_users(graph: Graph, node: Node) -> None:
    """Raises NoMatch if a user of the result may amplify a difference of rounding.

    Such a user is discontinuous, as Floor is: another rounding could turn 1 into 0. Or it is a Sin, Cos or Tan whose
    angle may be larger than 100 radians, so that its rounding is a visible part of the period.
    """
    value = node.outputs[0]
    step = next((user for user in graph.users(value) if user.op in DISCONTINUOUS), None)
    if step is not None:
        raise NoMatch(f"{step} is discontinuous; a difference in the last bit of '{value}' could change its result")
    periodic = amplifier_of(graph, value, unknown=math.inf, operators=PERIODIC)
    if periodic is not None:
        raise NoMatch(
            f"{periodic.node} may have an angle of more than {MAX_ANGLE:g} radians, so that a difference in the last "
            f"bit of '{value}' could change its result"
        )
