"""Saturates a region and extracts its smallest expression, within a time."""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from workbench.ir import Edit
from workbench.rewrite.core.exactness import EXACT
from workbench.rewrite.core.packing import packed_anew
from workbench.rewrite.core.rule import NoMatch
from workbench.saturation.building import edit_for
from workbench.saturation.choices import Choices, choices_of
from workbench.saturation.equations import equations_for
from workbench.saturation.exact_numbers import ExactNumbers
from workbench.saturation.extraction import Extraction, extract
from workbench.saturation.program import program_of, rules_of
from workbench.saturation.regions import AlgebraicRegion
from workbench.saturation.saturating import EgglogError, EGraph, SaturationBudget, saturate
from workbench.saturation.saturation_facts import RegionFacts

_FAST = "fast"  # the mode in which constants may be combined that are no numbers


@dataclass(frozen=True)
class Finding:
    """facts: the certificate. edit: what makes the region smaller; None if nothing does.

    elements: computed in one run by the region before and after; None if the sizes are not known.
    """

    facts: RegionFacts
    edit: Edit | None = None
    elements: tuple[int, int] | None = None


@dataclass(frozen=True)
class SmallestExpressions:
    """Searches regions one after the other, each kind of region once: models repeat their blocks.

    mode: how exact rewrites must be. rounds, enodes: the budget of egglog.
    """

    mode: str
    rounds: int
    enodes: int
    egraphs: dict[tuple[str, ExactNumbers], EGraph] = field(default_factory=dict)
    solved: dict[Hashable, tuple[Choices, Extraction]] = field(default_factory=dict)

    def smaller(self, region: AlgebraicRegion, seconds: float) -> Finding:
        """What there is to gain in a region; in mode `exact` bit for bit equal."""
        names, count = tuple(node.name for node in region.nodes), len(region.nodes)
        facts = RegionFacts(names, str(region.nodes[0]), str(region.nodes[-1]), count, smallest=count)
        try:
            rules, egraph, choices, extraction = self._solved(region, seconds)
        except EgglogError as error:
            return Finding(replace(facts, why=f"egglog: {error}"))
        try:
            edit = edit_for(region, egraph, choices.free, extraction.chosen)
            if self.mode == EXACT and (packed := packed_anew(region.graph, edit)):
                raise NoMatch(f"{packed} would read a constant, which ONNX Runtime packs, and sum in another order")
        except NoMatch as no:
            return Finding(replace(facts, why=str(no)))
        copies = sum(node.op == "Identity" for node in edit.insert)  # of equal outputs, and inputs
        facts = replace(
            facts,
            least=extraction.least + copies,
            floor=choices.floor + copies,
            as_tree=extraction.as_tree + copies,
            rules=rules,
            rounds=egraph.rounds,
            enodes=egraph.size,
            saturated=egraph.saturated,
        )
        operators = count - len(edit.remove) + len(edit.insert)
        before, after = region.elements, extraction.elements
        elements = (before, after) if before is not None and choices.sized else None
        fewer = operators < count
        if fewer or (operators == count and elements is not None and elements[1] < elements[0]):
            return Finding(replace(facts, smallest=operators, changed=True), edit, elements)
        return Finding(facts)

    def _solved(self, region: AlgebraicRegion, seconds: float) -> tuple[int, EGraph, Choices, Extraction]:
        deadline = time.monotonic() + seconds
        rules = rules_of(equations_for(region.kind, self.mode, region.steps))
        program = program_of(rules, list(region.terms()))
        numbers = region.number_rules(self.mode)
        asked = program, numbers
        if asked not in self.egraphs:
            budget = SaturationBudget(self.rounds, self.enodes, seconds / 2)
            self.egraphs[asked] = saturate(program, numbers, budget)
        egraph = self.egraphs[asked]
        key = (asked, region.results, region.sizes, region.constants)
        if key not in self.solved:
            choices = choices_of(region, egraph, new_constants=self.mode == _FAST and not region.steps)
            self.solved[key] = (choices, extract(choices, deadline - time.monotonic()))
        return len(rules), egraph, *self.solved[key]
