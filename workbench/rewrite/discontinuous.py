"""Discontinuous operators, whose result may change with the last bit of an operand."""

from __future__ import annotations

from workbench.ir import Graph, Node
from workbench.rewrite.rule import NoMatch

STEPS = frozenset(
    {
        *("Floor", "Ceil", "Round", "Sign", "Cast", "Mod", "QuantizeLinear", "DynamicQuantizeLinear"),
        *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "ArgMax", "ArgMin", "TopK", "NonZero"),
    }
)


def refuse_discontinuous_users(graph: Graph, node: Node) -> None:
    """Raises NoMatch if a user of the result is discontinuous, as Floor is: another rounding could turn 1 into 0."""
    step = next((user for user in graph.users(node.outputs[0]) if user.op in STEPS), None)
    if step is not None:
        value = node.outputs[0]
        raise NoMatch(f"{step} is discontinuous; a difference in the last bit of '{value}' could change its result")
