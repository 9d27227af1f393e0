"""What a step considered: where its pass acted, and where it did not, grouped by reason."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from workbench.ir import Graph
from workbench.planning.fusion.fusion_facts import FusionFacts
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.planning.precision.precision_facts import PrecisionFacts
from workbench.planning.saturation.saturation_facts import SaturationFacts
from workbench.rewrite import Pass, PassContext, RuleRefusal, Step, refused_by
from workbench.rewrite.core.identity import RewriteId

_QUOTED = re.compile(r"'[^']*'")
_MAX_NAME = 60  # characters of a node's name in a list of several


@dataclass(frozen=True)
class RefusalGroup:
    """Nodes that a rule refused for the same reason.

    rule:     "" for a pass without rules.
    sentence: the reason; if there are several nodes, names in it are replaced by "…".
    reasons:  pairs of a node and its refusal sentence.
    """

    rule: str
    sentence: str
    reasons: tuple[tuple[str, str], ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(node for node, _ in self.reasons))


@dataclass(frozen=True)
class Considered:
    """acted: rewrites; refused: nodes on which no rule of the pass acts when it has ended; groups: the largest first.

    about: what the pass does, if it does not work node by node.
    looks_at_all: whether it looks at every node, so that those it leaves are not refused.
    """

    acted: int
    refused: int
    groups: tuple[RefusalGroup, ...]
    about: str = ""
    looks_at_all: bool = False

    @property
    def sentence(self) -> str:
        """ "considered 35, acted on 22, refused 13", or "looked at every node, acted on 6, left 125 as they are"."""
        if self.about:
            return f"acted {self.acted:,} times; {self.about}" if self.acted else f"changed nothing; {self.about}"
        if not self.acted and not self.refused:
            return "considered nothing"
        if self.looks_at_all:
            return f"looked at every node, acted on {self.acted:,}, left {self.refused:,} as they are"
        return f"considered {self.acted + self.refused:,}, acted on {self.acted:,}, refused {self.refused:,}"


def considered(
    step: Step, pass_: Pass, after: Graph, context: PassContext, excluded: Collection[RewriteId] = ()
) -> Considered:
    """What a step of that pass considered. Takes about as long as a run of the pass that finds nothing.

    after: the graph after the step; excluded: rewrites that the user disabled.
    """
    acted = len(step.rewrites)
    if isinstance(step.facts, FusionFacts):
        refused: Iterable[RuleRefusal] = (
            RuleRefusal("", name, message) for name, message in step.facts.refusals.items()
        )
    elif isinstance(step.facts, PrecisionFacts):
        refused = (RuleRefusal("", kept.node, kept.why) for kept in step.facts.kept)
    elif isinstance(step.facts, SaturationFacts) and step.facts.regions:
        same = (region for region in step.facts.regions if not region.changed)
        # `proof` says why the region stays as it is.
        refused = (RuleRefusal("", name, region.proof) for region in same for name in region.nodes)
    elif pass_.rules or isinstance(pass_, LayoutStrategy):
        refused = refused_by(pass_, after, context, excluded=excluded)
    else:
        return Considered(acted, 0, (), "it decides about the whole graph, and refuses no single node")
    groups, nodes = _grouped(refused)
    if not acted and not nodes and pass_.rules:
        return Considered(0, 0, (), f"no node has an operator that it looks at ({_operators(pass_)})")
    looks_at_all = bool(pass_.rules) and all("*" in rule.operators for rule in pass_.rules)
    return Considered(acted, len(nodes), groups, looks_at_all=looks_at_all)


def _grouped(refused: Iterable[RuleRefusal]) -> tuple[tuple[RefusalGroup, ...], Collection[str]]:
    """The groups, and all their nodes."""
    results: dict[tuple[str, str], list[RuleRefusal]] = {}
    for each in refused:
        results.setdefault((each.rule, _QUOTED.sub("'…'", each.sentence)), []).append(each)
    groups = [
        RefusalGroup(rule, same[0].sentence if len(same) == 1 else sentence, tuple((r.node, r.sentence) for r in same))
        for (rule, sentence), same in results.items()
    ]
    nodes = {each.node for same in results.values() for each in same}
    return tuple(sorted(groups, key=lambda group: -len(group.nodes))), nodes


def _operators(pass_: Pass) -> str:
    return ", ".join(dict.fromkeys(op for rule in pass_.rules for op in rule.operators))


def refusal_lines(result: Considered, most: int = 5) -> Iterator[str]:
    """The groups as lines of text, each with its first nodes."""
    for group in result.groups:
        more = f" and {len(group.nodes) - most:,} more" if len(group.nodes) > most else ""
        rule = f"{group.rule}: " if group.rule else ""
        names = (name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}..." for name in group.nodes[:most])
        yield f"{len(group.nodes):>6,}  {rule}{group.sentence} ({', '.join(names)}{more})"
