"""Rewrite regions of algebraic operators by equality saturation, with a certificate."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from workbench.ir import Graph
from workbench.planning.saturation.regions import algebraic_groups, algebraic_region
from workbench.planning.saturation.saturation_facts import RegionFacts, SaturationFacts
from workbench.planning.saturation.searching import Finding, SmallestExpressions
from workbench.rewrite import Exactness, Example, Pass, PassContext, Rewrite, option
from workbench.rewrite.core.exclusion import NOTHING_EXCLUDED, ExcludedRewrites

_SHARES = 6  # a region gets a sixth of the time that is left; most need less, and leave the rest to others


@dataclass(frozen=True)
class SaturateAlgebra(Pass):
    """A region is connected operators of algebra (Add, Mul, Neg, Sqrt, Exp, And, ...) of one element type. egglog puts
    all expressions into an e-graph that the equations make equal to the region's, and HiGHS takes the one with the
    fewest operators, and among those the one that computes the fewest elements. An operator that is read twice counts
    once; what is computed from constants alone costs nothing.

    - The equations are proved by z3, and are those that the mode allows: in `exact` those that are exact to the last
      bit; in `ieee` those of products with constants and the like too; in `fast` also the associative, commutative and
      distributive laws.
    - An equation with a condition is used where the condition is known to hold.
    - If a round adds nothing more, the e-graph is saturated, and no smaller expression follows from these rules.
      Otherwise the expression is the smallest within the budget, or the smallest of all if combining its inputs takes
      as many operators.

    Does not apply to bodies of If, Loop and Scan, nor across a region's end; before a discontinuous operator, such as
    Floor, equations that round are left out. Without egglog the step says so and changes nothing.

    Source: Tate et al., "Equality Saturation", POPL 2009; Willsey et al., "egg", POPL 2021; extraction: Yang et al.,
    "Equality Saturation for Tensor Graph Superoptimization", MLSys 2021.
    """

    most_operators: int = option(60, "The most operators in a region; larger ones are cut.", least=2)
    rounds: int = option(30, "The most rounds in which equations are applied.", least=1)
    enodes: int = option(5_000, "The most e-nodes that are kept after a round.", least=10)
    seconds: int = option(60, "Time limit of the pass, in seconds; each region has a share.", least=1)

    title = "Smallest expression by equality saturation"
    exactness = Exactness.FAST_MATH
    packages = ("egglog",)

    extra_examples = (
        Example(
            title="Two products, whose numbers cancel after a third factor",
            before="""g (float[3] x, float[3] z) => (float[3] y) <float two = {2}> {
                a = Mul(x, two)
                b = Mul(a, z)
                y = Div(b, two)
            }""",
            after="g (float[3] x, float[3] z) => (float[3] y) { y = Mul(x, z) }",
            sentences=(
                "3 operators, from Mul 'Mul_a' to Div 'Div_y', become 1: no smaller expression under these 94 rules "
                "(saturated after 6 rounds, 29 e-nodes)",
            ),
            mode="fast",
        ),
    )

    def run(
        self, graph: Graph, context: PassContext, exclude: ExcludedRewrites = NOTHING_EXCLUDED
    ) -> Iterator[Rewrite]:
        """Each region is a rewrite, which can be left out alone; each mode has its own equations."""
        return self._regions(graph, context, exclude)

    def _regions(
        self, graph: Graph, context: PassContext, exclude: ExcludedRewrites
    ) -> Generator[Rewrite, None, SaturationFacts]:
        if self.missing():
            return SaturationFacts(missing=self.missing())
        deadline = time.monotonic() + self.seconds
        groups, pieces = algebraic_groups(graph, self.most_operators)
        search = SmallestExpressions(context.mode, self.rounds, self.enodes)
        facts: list[RegionFacts] = []
        for number, names in enumerate(groups):
            seconds_left = deadline - time.monotonic()
            if seconds_left <= 0:
                break
            time_share = seconds_left / min(len(groups) - number, _SHARES)
            result = search.smaller(algebraic_region(graph, names), time_share)
            facts.append(result.facts)
            if result.edit is None:
                continue
            rewrite = Rewrite(result.edit, _sentence(result), names)
            if rewrite not in exclude:
                yield rewrite
        not_reached = len(groups) - len(facts)
        return SaturationFacts(tuple(facts), pieces=pieces, most=self.most_operators, late=not_reached)


def _sentence(finding: Finding) -> str:
    facts = finding.facts
    region = f"{facts.operators} operators, from {facts.first} to {facts.last},"
    if facts.smallest == facts.operators and finding.elements is not None:
        before, after = finding.elements
        return f"{region} compute {after:,} elements instead of {before:,}; {facts.proof}"
    return f"{region} become {facts.smallest}: {facts.proof}"
