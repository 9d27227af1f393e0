"""The facts of equality saturation: a certificate for each region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.errors import counted


@dataclass(frozen=True)
class RegionFacts:
    """One region.

    nodes:       names of its operators, as the pass found them.
    first, last: its first and last operator, for sentences.
    operators:   the number before.
    smallest:    the number of the smallest expression that was found; shared work counts once.
    least:       a lower bound over all expressions in the e-graph.
    floor:       a lower bound over all expressions under the rules, saturated or not: each result reads all its inputs.
    as_tree:     the number of the expression that is smallest if shared work counts at each use.
    saturated:   whether another round adds nothing to the e-graph.
    changed:     whether the region became smaller.
    why:         why there is no e-graph, or why the smallest expression was not taken; "" otherwise.
    """

    nodes: tuple[str, ...]
    first: str
    last: str
    operators: int
    smallest: int
    least: int = 0
    floor: int = 0
    as_tree: int = 0
    rules: int = 0
    rounds: int = 0
    enodes: int = 0
    saturated: bool = False
    changed: bool = False
    why: str = ""

    @property
    def certified(self) -> bool:
        """Whether no smaller expression is equal under these rules."""
        return not self.why and (self.smallest == self.floor or (self.saturated and self.smallest == self.least))

    @property
    def proof(self) -> str:
        """What is proved, as a part of a sentence."""
        if self.why:
            return f"nothing is proved: {self.why}"
        rounds, enodes = counted(self.rounds, "round"), counted(self.enodes, "e-node")
        if self.saturated and self.smallest == self.least:
            return f"no smaller expression under these {self.rules} rules (saturated after {rounds}, {enodes})"
        if self.smallest == self.floor:
            return (
                f"no smaller expression under these {self.rules} rules, since they lose no input, and the inputs need "
                f"as many operators to meet (not saturated after {rounds}, {enodes})"
            )
        if self.saturated:
            lower_bound = max(self.least, self.floor)
            return (
                f"at least {lower_bound} are needed under these {self.rules} rules "
                f"(saturated after {rounds}, {enodes}; the extraction is not proved to be the smallest)"
            )
        return f"the smallest found within the budget (not saturated after {rounds}, {enodes})"


@dataclass(frozen=True)
class SaturationFacts:
    """missing: why nothing was done.
    most:    the limit of operators in a region.
    pieces:  the number of pieces into which larger regions were cut.
    late:    the number of regions for which no time was left.
    """

    regions: tuple[RegionFacts, ...] = ()
    missing: str = ""
    pieces: int = 0
    most: int = 0
    late: int = 0

    @property
    def sentence(self) -> str:
        if self.missing:
            return f"nothing was done: {self.missing}"
        parts = [self._summary()]
        if self.pieces:
            parts.append(f"{self.pieces} of them are pieces of regions with more than {self.most} operators")
        if self.late:
            parts.append(f"no time was left for {counted(self.late, 'more region')}")
        return "; ".join(parts)

    def _summary(self) -> str:
        if not self.regions:
            return "no region of two or more algebraic operators"
        before, after = (sum(getattr(region, name) for region in self.regions) for name in ("operators", "smallest"))
        count = counted(len(self.regions), "region")
        change = f"{count} of {before:,} operators, now {after:,}"
        if len(self.regions) == 1:
            return f"{change}: {self.regions[0].proof}"
        return f"{change}; {_share(self.regions)}"


def _share(regions: Sequence[RegionFacts]) -> str:
    certified = [region for region in regions if region.certified]
    saturated = sum(region.saturated for region in regions)
    most_rules = max(region.rules for region in regions)
    return (
        f"for {len(certified)} of them there is no smaller expression under the rules, at most {most_rules}; "
        f"{saturated} are saturated"
    )
