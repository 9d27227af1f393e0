"""Why a pass left nodes as they are: what each of its rules says of them.

Nothing is kept while a pass runs: the sentences of NoMatch are asked for again, on the graph that it left behind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from workbench.ir import Graph, Node
from workbench.layout.conversion.convert import permuted_call
from workbench.layout.infer import infer_layouts, is_cnn
from workbench.layout.profile import Profile
from workbench.ops import NotPermutable
from workbench.ops.blocked import block_of
from workbench.rewrite.bodies import opened_body
from workbench.rewrite.exactness import EXACT
from workbench.rewrite.packing import packed_anew
from workbench.rewrite.pass_context import PassContext
from workbench.rewrite.passes import Pass
from workbench.rewrite.rule import NoMatch, Rewrite, Rule


@dataclass(frozen=True)
class RuleRefusal:
    """What a rule said of a node; rule: "" for a pass without rules.

    node: its name, or that of the If, Loop or Scan of the main graph that holds it.
    """

    rule: str
    node: str
    sentence: str


def refused_by(
    pass_: Pass,
    graph: Graph,
    context: PassContext,
    names: Collection[str] | None = None,
    left_out: Collection[str] = (),
) -> Iterator[RuleRefusal]:
    """What the pass says of each node that it looks at, bodies included; of those with these names, if given.

    graph:    as the pass left it.
    left_out: sentences of rewrites that were left out.
    """
    if pass_.rules:
        yield from _by_rules(pass_, graph, context, names, left_out)
    elif pass_.is_layout:
        yield from _by_layout(graph, context.target, names)


def _by_rules(
    pass_: Pass, graph: Graph, context: PassContext, names: Collection[str] | None, left_out: Collection[str]
) -> Iterator[RuleRefusal]:
    rules = pass_.rules_of_run() if names is None else pass_.rules  # for a run a pass may enter all nodes in a table
    for node in _chosen(graph, names):
        for rule in rules:
            if node.op in rule.operators or "*" in rule.operators:
                yield RuleRefusal(rule.name, node.name, _sentence(rule, graph, node, pass_, context, left_out))
        for key, body in node.bodies.items():
            for refused in _by_rules(pass_, opened_body(graph, body), context, None, left_out):
                yield RuleRefusal(refused.rule, node.name, f"in {key} of {node}: {refused.sentence}")


def _chosen(graph: Graph, names: Collection[str] | None) -> Iterable[Node]:
    return graph.nodes if names is None else filter(None, map(graph.find, names))


def rewrite_or_refusal(rule: Rule, graph: Graph, node: Node, pass_: Pass, mode: str) -> Rewrite | str:
    """What the rule would do at the node, or why it does nothing there."""
    try:
        found = rule.match(graph, node, pass_)
    except NoMatch as no:
        return str(no)
    except Exception as error:  # a fault of the rule: shown beside the refusals of the others
        return f"the rule failed with {type(error).__name__}: {error}"
    if not rule.exactness.runs_in(mode):
        return f"would act here, but not in mode {mode}, since its results are {rule.results}"
    return found


def _sentence(
    rule: Rule, graph: Graph, node: Node, pass_: Pass, context: PassContext, left_out: Collection[str]
) -> str:
    mode = context.mode
    found = rewrite_or_refusal(rule, graph, node, pass_, mode)
    if isinstance(found, str):
        return found
    if found.sentence in left_out:
        return f"left out, since results differ with it: {found.sentence}"
    packed = packed_anew(graph, found.edit) if mode == EXACT else None
    if packed is not None:
        return f"would act here, but in mode exact {packed} must keep its operand computed, or its last bit changes"
    limit = context.limits.refusal(graph, found.edit)
    return f"would act here, but {limit}" if limit else f"would act here: {found.sentence}"


def _by_layout(graph: Graph, target: Profile, names: Collection[str] | None) -> Iterator[RuleRefusal]:
    """Operators whose results are images in another layout than the target's, and what their contracts say of it."""
    if block_of(target.layout):
        return  # blocked channels are no permutation
    layouts: Mapping[str, str] = infer_layouts(graph)
    for node in _chosen(graph, names):
        layout = layouts.get(node.outputs[0], "") if node.outputs else ""
        wanted = target.layout_for(len(layout)) if is_cnn(layout) else None
        if not wanted or layout == wanted or sorted(layout) != sorted(wanted) or node.op == "Transpose":
            continue
        try:
            permuted_call(graph, node, tuple(map(layout.index, wanted)), target)
        except NotPermutable as no:
            yield RuleRefusal("", node.name, str(no))
        else:
            yield RuleRefusal("", node.name, f"{node} could run in {wanted}, and the strategy left it in {layout}")
