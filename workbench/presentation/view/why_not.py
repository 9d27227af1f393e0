"""What each pass of a history did to a node, and why its rules did not match the node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from workbench.ir import Graph
from workbench.planning.fusion.fusion_facts import FusionFacts
from workbench.planning.layout.profile import Profile
from workbench.rewrite import History, Pass, PassContext, Step, refused_by
from workbench.rewrite.core.identity import RewriteId


@dataclass(frozen=True)
class PassReason:
    """What a pass did to a node, or why it did not change it.

    step: the index of the step. t: the number of rewrites of the history that were applied when it acted or refused.
    rule: the rule that refused; "" if the pass acted, or has no rules.
    """

    step: int
    title: str
    rule: str
    sentence: str
    t: int
    acted: bool

    @property
    def prefix(self) -> str:
        """What is written before the sentence: "acted: ", the name of the rule with a colon, or "" without a rule."""
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


def reasons_of(
    history: History, graphs: Sequence[Graph], passes: Sequence[Pass], target: Profile, names: Collection[str]
) -> Mapping[str, list[PassReason]]:
    """By node name, for each step in order: the rewrites of the node, then the refusals of the pass after the step.

    graphs: after each step. Refusals of passes that are not in `passes` are left out.
    """
    results: defaultdict[str, list[PassReason]] = defaultdict(list)
    refusing_pass_names = {pass_.name for pass_ in passes}
    context = PassContext(target, mode=history.mode, limits=history.limits)
    all_names, t = set(names), 0
    for number, (step, graph) in enumerate(zip(history.steps, graphs, strict=True)):
        for rewrite in step.rewrites:
            t += 1
            touched = {*rewrite.nodes, *(node.name for node in rewrite.edit.insert)}
            for name in all_names & touched:
                results[name].append(PassReason(number, step.title, "", rewrite.sentence, t, acted=True))
        if step.pass_ is not None and step.pass_name in refusing_pass_names:
            for name, rule, sentence in _refusals(step, step.pass_, graph, context, all_names, step.excluded):
                results[name].append(PassReason(number, step.title, rule, sentence, t, acted=False))
    return results


def not_run(history: History, passes: Sequence[Pass]) -> list[Pass]:
    """The passes that the history did not run; why they would not act can only be asked of the graph that is shown."""
    ran = {step.pass_name for step in history.steps}
    return [pass_ for pass_ in passes if pass_.name not in ran]


def _refusals(
    step: Step, pass_: Pass, graph: Graph, context: PassContext, names: set[str], excluded: Collection[RewriteId]
) -> Iterator[tuple[str, str, str]]:
    """Node, rule, sentence."""
    if isinstance(step.facts, FusionFacts):
        yield from ((name, "", step.facts.refusals[name]) for name in names & step.facts.refusals.keys())
        return
    for refused in refused_by(pass_, graph, context, sorted(names), excluded):
        yield refused.node, refused.rule, refused.sentence
