"""Why a pass left nodes unchanged: the sentence of each of its rules.

Nothing is recorded while a pass runs: the rules are tried again on the graph after the pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from workbench.ir import Graph, Node
from workbench.rewrite.core.bodies import opened_body
from workbench.rewrite.core.exactness import EXACT
from workbench.rewrite.core.identity import RewriteId
from workbench.rewrite.core.leave_out import LeftOutRewrites
from workbench.rewrite.core.packing import newly_prepacked
from workbench.rewrite.core.pass_context import PassContext
from workbench.rewrite.core.passes import Pass
from workbench.rewrite.core.rule import NoMatch, Rewrite, Rule


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
    left_out: Collection[RewriteId] = (),
) -> Iterator[RuleRefusal]:
    """A refusal for each rule and node that it looks at, bodies included.

    graph:    as the pass left it.
    names:    only nodes with these names, if given.
    left_out: rewrites that were left out.
    """
    if pass_.rules:
        yield from _by_rules(pass_, graph, context, names, LeftOutRewrites(left_out))
    else:
        for node, sentence in pass_.refused_nodes(graph, context, names):
            yield RuleRefusal("", node, sentence)


def _by_rules(
    pass_: Pass,
    graph: Graph,
    context: PassContext,
    names: Collection[str] | None,
    left_out: LeftOutRewrites,
    path: str = "",
) -> Iterator[RuleRefusal]:
    """path: "loop/body/" if the graph is a body; "" for the main graph."""
    rules = pass_.rules_of_run() if names is None else pass_.rules  # rules_of_run may make a table of all nodes
    for node in _chosen(graph, names):
        for rule in rules:
            if node.op in rule.operators or "*" in rule.operators:
                yield RuleRefusal(rule.name, node.name, _sentence(rule, graph, node, pass_, context, left_out, path))
        for key, body in node.bodies.items():
            for refused in _by_rules(
                pass_, opened_body(graph, body), context, None, left_out, f"{path}{node.name}/{key}/"
            ):
                yield RuleRefusal(refused.rule, node.name, f"in {key} of {node}: {refused.sentence}")


def _chosen(graph: Graph, names: Collection[str] | None) -> Iterable[Node]:
    return graph.nodes if names is None else filter(None, map(graph.find, names))


def rewrite_or_refusal(rule: Rule, graph: Graph, node: Node, pass_: Pass, mode: str) -> Rewrite | str:
    """What the rule would do at the node, or why it does nothing there."""
    try:
        rewrite = rule.match(graph, node, pass_)
    except NoMatch as no:
        return str(no)
    except Exception as error:  # a fault of the rule is shown among the refusals
        return f"the rule failed with {type(error).__name__}: {error}"
    if not rule.exactness.runs_in(mode):
        return f"would act here, but not in mode {mode}, since its results are {rule.results}"
    return rewrite


def _sentence(
    rule: Rule, graph: Graph, node: Node, pass_: Pass, context: PassContext, left_out: LeftOutRewrites, path: str
) -> str:
    mode = context.mode
    result = rewrite_or_refusal(rule, graph, node, pass_, mode)
    if isinstance(result, str):
        return result
    if left_out.names(rule.name, f"{path}{node.name}"):
        return f"left out, since results differ with it: {result.sentence}"
    packed = newly_prepacked(graph, result.edit) if mode == EXACT else None
    if packed is not None:
        return f"would act here, but in mode exact {packed} must keep its operand computed, or its last bit changes"
    limit = context.limits.refusal(graph, result.edit)
    return f"would act here, but {limit}" if limit else f"would act here: {result.sentence}"
