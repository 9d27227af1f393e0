"""What every pass of a history said of a node: what it did to it, and why its rules did not match it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from workbench.fusion.fusion_facts import FusionFacts
from workbench.ir import Graph
from workbench.layout.profile import Profile
from workbench.rewrite import History, Pass, PassContext, Step, refused_by
from workbench.rewrite.core.identity import RewriteId


@dataclass(frozen=True)
class PassSaid:
    """What the pass of step `step` said of a node; t: the moment after that. rule: "" if no rule said it."""

    step: int
    title: str
    rule: str
    sentence: str
    t: int
    acted: bool

    @property
    def by(self) -> str:
        """Whether it acted, or which rule said the sentence; with a colon after it, "" if there is nothing to say."""
        return "acted: " if self.acted else f"{self.rule}: " if self.rule else ""


def graphs_after(history: History) -> list[Graph]:
    """The graph after each step; steps that changed nothing share one."""
    graphs = [history.initial]
    for step in history.steps:
        if step.rewrites:
            graphs.append(graphs[-1].copy())
            for rewrite in step.rewrites:
                graphs[-1].apply(rewrite.edit)
        else:
            graphs.append(graphs[-1])
    return graphs[1:]


def said_of(
    history: History, graphs: Sequence[Graph], passes: Sequence[Pass], target: Profile, names: Collection[str]
) -> Mapping[str, list[PassSaid]]:
    """What each step's pass said of the nodes with these names: its rewrites, then its refusals when it had ended.

    graphs: after each step. A step whose pass is not among `passes` is left out.
    """
    results: defaultdict[str, list[PassSaid]] = defaultdict(list)
    asked = {pass_.name for pass_ in passes}
    context = PassContext(target, mode=history.mode, limits=history.limits)
    wanted, t = set(names), 0
    for number, (step, graph) in enumerate(zip(history.steps, graphs, strict=True)):
        for rewrite in step.rewrites:
            t += 1
            touched = {*rewrite.nodes, *(node.name for node in rewrite.edit.insert)}
            for name in wanted & touched:
                results[name].append(PassSaid(number, step.title, "", rewrite.sentence, t, acted=True))
        if step.pass_ is not None and step.pass_name in asked:
            for name, rule, sentence in _refusals(step, step.pass_, graph, context, wanted, step.left_out):
                results[name].append(PassSaid(number, step.title, rule, sentence, t, acted=False))
    return results


def not_run(history: History, passes: Sequence[Pass]) -> list[Pass]:
    """The passes of which the history has no step: they can only say what they think of the moment that is shown."""
    ran = {step.pass_name for step in history.steps}
    return [pass_ for pass_ in passes if pass_.name not in ran]


def _refusals(
    step: Step, pass_: Pass, graph: Graph, context: PassContext, names: set[str], left_out: Collection[RewriteId]
) -> Iterator[tuple[str, str, str]]:
    """Node, rule, sentence."""
    if isinstance(step.facts, FusionFacts):
        yield from ((name, "", step.facts.refusals[name]) for name in names & step.facts.refusals.keys())
        return
    for refused in refused_by(pass_, graph, context, sorted(names), left_out):
        yield refused.node, refused.rule, refused.sentence
