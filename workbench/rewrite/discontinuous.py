"""Readers that make a whole step of what is only a rounding."""

from __future__ import annotations

from workbench.ir import Graph, Node
from workbench.rewrite.rule import NoMatch

_STEPS = frozenset(
    {
        *("Floor", "Ceil", "Round", "Sign", "Cast", "Mod", "QuantizeLinear", "DynamicQuantizeLinear"),
        *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "ArgMax", "ArgMin", "TopK", "NonZero"),
    }
)


def refuse_discontinuous_users(graph: Graph, node: Node) -> None:
    """Raises NoMatch where a reader such as Floor would make 0 of 1, were the result of `node` rounded once more."""
    step = next((user for user in graph.users(node.outputs[0]) if user.op in _STEPS), None)
    if step is not None:
        raise NoMatch(f"{step} reads '{node.outputs[0]}', and makes a step of a rounding")
