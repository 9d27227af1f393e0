"""Helpers of rules that recompose a standard operator from its decomposition."""

from __future__ import annotations

import numpy as np

from workbench.ir import DataType
from workbench.rewrite.core.guards import require_floating
from workbench.rewrite.core.rule import NoMatch
from workbench.rewrite.patterns.building import Constraint
from workbench.rewrite.patterns.conditions import binding_of
from workbench.rewrite.patterns.matching import Match

# (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + epsilon), and the same without subtracting the mean
CENTERED = """
    d = Sub(x, ReduceMean(x, axes=axes))
    root = Sqrt(Add(ReduceMean(Mul(d, d) | Pow(d, 2), axes=axes), epsilon))
    n = Div(d, root) | Mul(d, Reciprocal(root) | Div(1, root))
"""
UNCENTERED = """
    root = Sqrt(Add(ReduceMean(Mul(x, x) | Pow(x, 2), axes=axes), epsilon))
    n = Div(x, root) | Mul(x, Reciprocal(root) | Div(1, root))
"""

# Gelu of x, exact and by Tanh
GELU_BY_ERF = "y = 0.5 * x * (1.0 + Erf(sqrt(1 / 2) * x))"
GELU_BY_TANH = """
    cubed = 0.044715 * x * x * x | 0.044715 * Pow(x, 3)
    squared = 0.044715 * x * x | 0.044715 * Pow(x, 2)
    inner = sqrt(2 / pi) * (x + cubed) | sqrt(2 / pi) * x * (1.0 + squared)
    y = 0.5 * x * (1.0 + Tanh(inner))
"""


def recomposed(source: str) -> str:
    """The sentence of a rewrite that recomposes an operator applied to this value of the pattern."""
    return f"{{count}} nodes, from {{nodes[0]}} to {{root}}, compute {{new}} of '{{{source}}}'; {{fewer}} fewer"


def is_float32(source: str) -> Constraint:
    """The value and the result are float32 and of equal rank."""

    def demand(match: Match) -> None:
        graph, result = match.graph, match.root.outputs[0]
        for value in (match[source], result):
            type_ = graph.tensor_type(value)
            if type_ is None or type_.dtype != DataType.FLOAT or type_.shape is None:
                raise NoMatch(f"'{value}' is not known to be float32 of a known rank")
        if graph.rank_of(match[source]) != graph.rank_of(result):
            raise NoMatch(f"'{result}' of {match.root} has more axes than '{match[source]}'")

    return demand


def is_floating(name: str) -> Constraint:
    """The value, an operand of the last node, holds floating-point numbers."""

    def demand(match: Match) -> None:
        require_floating(match.graph, binding_of(match, name), match.root)

    return demand


def refuse_odd_epsilon(match: Match) -> None:
    epsilon = match.data["epsilon"]
    if not 0 < epsilon < 1e30:
        raise NoMatch(f"{match.node('root')} reads a mean plus {epsilon:g}, which is not a plausible epsilon")


def has_negative_zero(array: np.ndarray) -> bool:
    """Whether there is a -0.0, which a sum with -0.0 keeps."""
    return bool(((array == 0) & np.signbit(array)).any())
