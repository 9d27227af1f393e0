"""Tries rules on every node of a graph and of its bodies, until none applies."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Protocol

from workbench.errors import UserError
from workbench.ir import Edit, Graph, Node
from workbench.rewrite.core.bodies import closed_body, opened_body, with_body
from workbench.rewrite.core.limits import BodyParent, Parents
from workbench.rewrite.core.rule import NoMatch, Rewrite, Rule
from workbench.rewrite.core.value_types import with_inferred_types

IsAllowed = Callable[[Graph, Rewrite, Parents], bool]  # whether the rewrite of the graph may be made

_MAX_REWRITES_PER_NODE = 20  # beyond this, a pass has two rules that undo each other
_MAX_USERS = 64  # with more, users are not revisited when their value changes: n of them would be tried n times each


class PassLike(Protocol):
    """The pass, as rules see it: rules read its options, errors name it."""

    @property
    def name(self) -> str: ...


class RunawayError(UserError):
    """A pass rewrites without end, which is a bug of the pass."""


def apply_rules(
    rules: Sequence[Rule], graph: Graph, pass_: PassLike, is_allowed: IsAllowed = lambda *_: True
) -> Iterator[Rewrite]:
    """Try the rules on every node in topological order, and again around each change; then in bodies."""
    yield from _in_graph(rules, graph, pass_, is_allowed)
    while graph.with_bodies:
        changed = False
        for name in [node.name for node in graph.with_bodies]:
            for result in _in_bodies(rules, graph, name, pass_, is_allowed):
                changed = True
                yield result
        if not changed:
            return
        yield from _in_graph(rules, graph, pass_, is_allowed)  # a value that a body captured may have lost its user


def _in_graph(rules: Sequence[Rule], graph: Graph, pass_: PassLike, is_allowed: IsAllowed) -> Iterator[Rewrite]:
    candidates = _by_operator(rules)
    operators = {op for rule in rules for op in rule.operators}
    queue = deque(node.name for node in (graph.nodes if "*" in operators else graph.nodes_of(operators)))
    waiting = set(queue)
    budget = _MAX_REWRITES_PER_NODE * len(graph) + 100
    while queue:
        name = queue.popleft()
        waiting.remove(name)
        node = graph.find(name)
        result = None if node is None else _first_match(candidates(node.op), graph, node, pass_, is_allowed)
        if result is None:
            continue
        growth = len(result.edit.insert) - len(result.edit.remove)  # nodes of an inlined function have a budget too
        budget += _MAX_REWRITES_PER_NODE * max(growth, 0) - 1
        if budget < 0:
            raise RunawayError(f"pass {pass_.name} does not end; its last rewrite: {result.sentence}")
        removed_nodes = [graph.node(removed) for removed in result.edit.remove]
        changed = [reader.name for value in result.edit.replace for reader in graph.users(value)]
        yield result
        for neighbour in (*(name for name in changed if name in graph), *_around(graph, result, removed_nodes)):
            if neighbour not in waiting:
                waiting.add(neighbour)
                queue.append(neighbour)


def _in_bodies(
    rules: Sequence[Rule], graph: Graph, name: str, pass_: PassLike, is_allowed: IsAllowed
) -> Iterator[Rewrite]:
    """Rewrites inside the node's bodies, each as a replacement of the node."""
    for key in graph.node(name).bodies:
        body = graph.node(name).bodies[key]
        inside = opened_body(graph, body)
        where = f"in {key} of {graph.node(name)}: "

        def as_outer(inner: Rewrite, where: str = where, path: str = f"{name}/{key}") -> Rewrite:
            return replace(inner, sentence=where + inner.sentence, matched_at=f"{path}/{inner.root}")

        def is_allowed_inside(innermost: Graph, proposed: Rewrite, parents: Parents, key: str = key) -> bool:
            return is_allowed(innermost, as_outer(proposed), (*parents, BodyParent(graph, name, key)))

        for inner in apply_rules(rules, inside, pass_, is_allowed_inside):
            inside.apply(inner.edit)
            node = graph.node(name)
            changed = with_body(node, key, closed_body(inside, body, graph))
            edit = Edit(remove=(name,), insert=(changed,))
            yield replace(as_outer(inner), edit=edit, nodes=(name,))


def _by_operator(rules: Sequence[Rule]) -> Callable[[str], list[Rule]]:
    """The rules for an operator, in order; cached."""

    @cache
    def rules_for(op: str) -> list[Rule]:
        return [rule for rule in rules if op in rule.operators or "*" in rule.operators]

    return rules_for


def _first_match(
    rules: Sequence[Rule], graph: Graph, node: Node, pass_: PassLike, is_allowed: IsAllowed
) -> Rewrite | None:
    for rule in rules:
        if rule.may_match is not None and not rule.may_match(graph, node):
            continue
        try:
            proposed = rule.match(graph, node, pass_).proposed_by(rule, node)
        except NoMatch:
            continue
        if is_allowed(graph, proposed, ()):
            return replace(proposed, edit=with_inferred_types(graph, proposed.edit))
    return None


def _around(graph: Graph, rewrite: Rewrite, removed: list[Node]) -> Iterator[str]:
    """Nodes near the change: new ones, and producers and users of their values and of newly typed values.

    Users of constants are skipped, and so are the users of a value that has very many: no rule depends on them.
    """
    values = dict.fromkeys((*rewrite.edit.replace.values(), *rewrite.edit.types))
    for node in (*rewrite.edit.insert, *removed):
        if node.name in graph:
            yield node.name
        values.update(dict.fromkeys(value for value in node.operands if graph.constant(value) is None))
        values.update(dict.fromkeys(node.outputs))
    for value in values:
        producer = graph.producer(value)
        if producer is not None:
            yield producer.name
        if graph.count_users(value) <= _MAX_USERS:
            yield from (user.name for user in graph.users(value))
