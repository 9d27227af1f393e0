"""Why a pass left nodes unchanged: the sentence of each of its rules.

Nothing is recorded while a pass runs: the rules are tried again on the graph after the pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from workbench.ir import Graph, Node
from workbench.rewrite.core.bodies import opened_body
from workbench.rewrite.core.exclusion import NOTHING_EXCLUDED, ExcludedRewrites
from workbench.rewrite.core.identity import RewriteId
from workbench.rewrite.core.limits import BodyParent, Parents
from workbench.rewrite.core.pass_context import PassContext
from workbench.rewrite.core.passes import Pass
from workbench.rewrite.core.permission import why_not_allowed
from workbench.rewrite.core.rule import NoMatch, Rule


@dataclass(frozen=True)
class RuleRefusal:
    """Why a rule does not rewrite a node, as a sentence.

    rule: its name; "" for a pass without rules.
    node: its name; for a node of a body, the name of the If, Loop or Scan of the main graph.
    """

    rule: str
    node: str
    sentence: str


def refused_by(
    pass_: Pass,
    graph: Graph,
    context: PassContext,
    names: Collection[str] | None = None,
    excluded: Collection[RewriteId] = (),
) -> Iterator[RuleRefusal]:
    """A refusal for each rule and node that it looks at, bodies included.

    graph:    as the pass left it.
    names:    only nodes with these names, if given.
    excluded: rewrites that were left out.
    """
    if pass_.rules:
        yield from _by_rules(pass_, graph, context, names, ExcludedRewrites(excluded))
    else:
        for node, sentence in pass_.refused_nodes(graph, context, names):
            yield RuleRefusal("", node, sentence)


def _by_rules(
    pass_: Pass,
    graph: Graph,
    context: PassContext,
    names: Collection[str] | None,
    excluded: ExcludedRewrites,
    path: str = "",
    parents: Parents = (),
) -> Iterator[RuleRefusal]:
    """path: "loop/body/" if the graph is a body; "" for the main graph. parents: of a body."""
    rules = pass_.rules_of_run() if names is None else pass_.rules  # rules_of_run may make a table of all nodes
    for node in _chosen(graph, names):
        for rule in rules:
            if node.op in rule.operators or "*" in rule.operators:
                sentence = sentence_at(rule, graph, node, pass_, context, excluded, path, parents)
                yield RuleRefusal(rule.name, node.name, sentence)
        for key, body in node.bodies.items():
            inside, place = opened_body(graph, body), f"{path}{node.name}/{key}/"
            of_body = (BodyParent(graph, node.name, key), *parents)
            for refused in _by_rules(pass_, inside, context, None, excluded, place, of_body):
                yield RuleRefusal(refused.rule, node.name, f"in {key} of {node}: {refused.sentence}")


def _chosen(graph: Graph, names: Collection[str] | None) -> Iterable[Node]:
    return graph.nodes if names is None else filter(None, map(graph.find, names))


def sentence_at(
    rule: Rule,
    graph: Graph,
    node: Node,
    pass_: Pass,
    context: PassContext,
    excluded: ExcludedRewrites = NOTHING_EXCLUDED,
    path: str = "",
    parents: Parents = (),
) -> str:
    """Why the rule does nothing at the node, or what it would do there.

    path, parents: of the body that holds the node.
    """
    try:
        proposed = rule.match(graph, node, pass_).proposed_by(rule, node)
    except NoMatch as no:
        return str(no)
    except Exception as error:  # a fault of the rule is shown among the refusals
        return f"the rule failed with {type(error).__name__}: {error}"
    if excluded.names(rule.name, f"{path}{node.name}"):
        return f"left out, since results differ with it: {proposed.sentence}"
    why_not = why_not_allowed(graph, proposed, context, pass_.grows_freely, parents)
    return f"would act here, but {why_not}" if why_not else f"would act here: {proposed.sentence}"
