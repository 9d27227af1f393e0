"""Which operators may be in one group: the constraints under which a grouping has the least traffic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workbench.ops.fusion_kinds import BROADCAST, ELEMENTWISE, FUSABLE, INJECTIVE, OPAQUE, REDUCTION, FusionKind
from workbench.planning.fusion.problem import Operator

SAME, WIDER, SEVERAL = "same", "wider", "several"


@dataclass(frozen=True)
class FusionRules:
    """A group contains all paths between its operators and at most one out-elementwise-fusable operator. Each edge in
    it is allowed, and the results of one operator leave it.

    multi_output:  whether results of any operator may leave it; edges connect its operators.
    after_reductions: whether operators may follow a reduction.
    after_products:   whether an operator that selects elements may directly follow an out-elementwise-fusable one.
    """

    name: str
    after_reductions: bool = False
    after_products: bool = False
    multi_output: bool = False

    def allow(self, source: FusionKind, edge: FusionKind, user: FusionKind) -> bool:
        """Whether an operator of kind `source` may be in a group with a user of its result."""
        if OPAQUE in (source, edge, user) or user == FUSABLE:
            return False
        if source == REDUCTION:
            return self.after_reductions
        if source == FUSABLE:
            return edge == ELEMENTWISE or (self.after_products and user in (BROADCAST, INJECTIVE))
        return True


RULES = {
    SAME: FusionRules(SAME),
    WIDER: FusionRules(WIDER, after_reductions=True, after_products=True),
    SEVERAL: FusionRules(SEVERAL, after_reductions=True, after_products=True, multi_output=True),
}


def candidates(operators: Sequence[Operator], rules: FusionRules, max_operators: int) -> Iterator[tuple[int, ...]]:
    """For each operator as a root, the operators that can be in a group whose results leave from the root, root first.

    An operator can be if all its users can, no edge forbids it, and no path from it has more than `max_operators`.
    `operators` are in topological order.
    """
    producers: list[list[int]] = [[] for _ in operators]
    for i, operator in enumerate(operators):
        for edge in operator.edges:
            producers[edge.user].append(i)
    for root in range(len(operators)):
        yield _candidates_of(operators, rules, max_operators, root, producers)


def _candidates_of(
    operators: Sequence[Operator],
    rules: FusionRules,
    max_operators: int,
    root: int,
    producers: Sequence[Sequence[int]],
) -> tuple[int, ...]:
    results = {root: 1}  # operators on the longest path to the root
    waiting = set(producers[root])
    while waiting:
        i = max(waiting)  # its users come later, so all of them are decided
        waiting.discard(i)
        operator = operators[i]
        if operator.is_output or not all(
            edge.user in results and rules.allow(operator.kind, edge.kind, operators[edge.user].kind)
            for edge in operator.edges
        ):
            continue
        longest = 1 + max(results[edge.user] for edge in operator.edges)
        if longest <= max_operators:
            results[i] = longest
            waiting.update(producers[i])
    return tuple(results)
