"""Saturates a region and extracts its smallest expression, within a time limit."""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from workbench.ir import Edit
from workbench.planning.saturation.building import edit_for
from workbench.planning.saturation.choices import Choices, choices_of
from workbench.planning.saturation.equations import equations_for
from workbench.planning.saturation.exact_numbers import ExactNumbers
from workbench.planning.saturation.extraction import Extraction, extract
from workbench.planning.saturation.program import program_of, rules_of
from workbench.planning.saturation.regions import AlgebraicRegion
from workbench.planning.saturation.saturating import EgglogError, EGraph, SaturationBudget, saturate
from workbench.planning.saturation.saturation_facts import RegionFacts
from workbench.rewrite.core.exactness import EXACT
from workbench.rewrite.core.packing import newly_prepacked
from workbench.rewrite.core.rule import NoMatch

_FAST = "fast"  # the mode in which constants of several elements may be combined


@dataclass(frozen=True)
class Finding:
    """facts: the certificate. edit: it makes the region smaller; None if nothing does.

    elements: elements computed by the region in one run, before and after; None if sizes are unknown.
    """

    facts: RegionFacts
    edit: Edit | None = None
    elements: tuple[int, int] | None = None


@dataclass(frozen=True)
class SmallestExpressions:
    """Searches regions one after the other. Equal regions are searched once, since models repeat their blocks.

    mode: how exact rewrites must be. rounds, enodes: the budget of egglog.
    """

    mode: str
    rounds: int
    enodes: int
    egraphs: dict[tuple[str, ExactNumbers], EGraph] = field(default_factory=dict)
    solved: dict[Hashable, tuple[Choices, Extraction]] = field(default_factory=dict)

    def smaller(self, region: AlgebraicRegion, seconds: float) -> Finding:
        """The smallest expression for a region; in mode `exact` its results are equal bit for bit."""
        names, count = tuple(node.name for node in region.nodes), len(region.nodes)
        facts = RegionFacts(names, str(region.nodes[0]), str(region.nodes[-1]), count, smallest=count)
        try:
            rules, egraph, choices, extraction = self._solved(region, seconds)
        except EgglogError as error:
            return Finding(replace(facts, why=f"egglog: {error}"))
        try:
            edit = edit_for(region, egraph, choices.free, extraction.chosen)
            if self.mode == EXACT and (node := newly_prepacked(region.graph, edit)):
                raise NoMatch(
                    f"{node} would read a constant; ONNX Runtime prepacks constant operands and then sums in another "
                    "order"
                )
        except NoMatch as refusal:
            return Finding(replace(facts, why=str(refusal)))
        copies = sum(node.op == "Identity" for node in edit.insert)  # outputs that equal another output or an input
        facts = replace(
            facts,
            least=extraction.lower_bound + copies,
            floor=choices.lower_bound + copies,
            as_tree=extraction.tree_size + copies,
            rules=rules,
            rounds=egraph.rounds,
            enodes=egraph.size,
            saturated=egraph.saturated,
        )
        operators = count - len(edit.remove) + len(edit.insert)
        before, after = region.elements, extraction.elements
        elements = (before, after) if before is not None and choices.all_sizes_known else None
        fewer = operators < count
        if fewer or (operators == count and elements is not None and elements[1] < elements[0]):
            return Finding(replace(facts, smallest=operators, changed=True), edit, elements)
        return Finding(facts)

    def _solved(self, region: AlgebraicRegion, seconds: float) -> tuple[int, EGraph, Choices, Extraction]:
        deadline = time.monotonic() + seconds
        rules = rules_of(equations_for(region.kind, self.mode, region.steps))
        program = program_of(rules, list(region.terms()))
        numbers = region.number_rules(self.mode)
        request = program, numbers
        if request not in self.egraphs:
            budget = SaturationBudget(self.rounds, self.enodes, seconds / 2)
            self.egraphs[request] = saturate(program, numbers, budget)
        egraph = self.egraphs[request]
        key = (request, region.results, region.sizes, region.constants)
        if key not in self.solved:
            # New constants may change the last bit, which a discontinuous operator (`steps`) would enlarge.
            choices = choices_of(region, egraph, new_constants=self.mode == _FAST and not region.steps)
            self.solved[key] = (choices, extract(choices, deadline - time.monotonic()))
        return len(rules), egraph, *self.solved[key]
