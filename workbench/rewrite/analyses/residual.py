"""What rules about residual sums share."""

from __future__ import annotations

from workbench.rewrite.core.guards import is_same_shape
from workbench.rewrite.core.rule import NoMatch
from workbench.rewrite.patterns.building import Constraint
from workbench.rewrite.patterns.matching import Match


def has_shape_of(residual: str, other: str) -> Constraint:
    """The residual, if the pattern has one, has the shape of the value to which it is added: nothing is broadcast."""

    def demand(match: Match) -> None:
        value, graph = match.get(residual), match.graph
        if value is not None and not is_same_shape(graph.shape(match[other]), graph.shape(value)):
            raise NoMatch(f"'{value}' is not known to have the shape of '{match[other]}', to which it is added")

    return demand
