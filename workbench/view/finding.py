"""Search in the whole model, closed groups and bodies included, by a query (`query.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from workbench.ir import Node
from workbench.ir.node import Body
from workbench.view.groups import Group, scope_of
from workbench.view.query import NodeFacts, parse_query
from workbench.view.timeline import Timeline, Version

MOST_HITS = 500

Span = tuple[int, int]  # from the first moment, up to the second one


@dataclass(frozen=True)
class SearchHits:
    """The hits of a query.

    hits:  at most so many as were asked for, each a node's name and its words; those first whose operator or name a
           word of the query is, else in the graph's order. A node of a body is listed under the name of the If, Loop
           or Scan that holds it.
    total: the number of all hits.
    spans: for each node with a hit, when it is one, since a node's operator and layout may change.
    """

    hits: list[tuple[str, str]] = field(default_factory=list)
    total: int = 0
    spans: Mapping[str, list[Span]] = field(default_factory=dict)


def find(timeline: Timeline, query: str, root: Group | None = None, limit: int = MOST_HITS) -> SearchHits:
    """The nodes for which the query holds at any moment. Raises QueryError with a sentence.

    root: the groups of the picture, which are scopes too: a node that a pass inserted is in no other.
    """
    wanted = parse_query(query)
    if not wanted.terms:
        return SearchHits()
    groups = dict(_paths(root)) if root is not None else {}
    ranked: list[tuple[int, tuple[str, str]]] = []
    spans: dict[str, list[Span]] = {}
    for name, versions in timeline.versions.items():
        for facts, words, when in _candidates(name, versions, groups.get(name, "")):
            held = [span for each, span in zip(facts, when, strict=True) if wanted.holds(each)]
            if held:
                ranked.append((min(wanted.rank(each) for each in facts), (name, words)))
                spans.setdefault(name, []).extend(held)
    ranked.sort(key=lambda hit: hit[0])
    return SearchHits([hit for _, hit in ranked[:limit]], len(ranked), spans)


def _paths(group: Group) -> Iterator[tuple[str, str]]:
    """Every node in a group with the group's path."""
    for child in group.children:
        if isinstance(child, Group):
            yield from _paths(child)
        elif group.path:
            yield child, "/".join(group.path)


_Candidate = tuple[list[NodeFacts], str, list[Span]]  # of each version, its words, and when it exists


def _candidates(name: str, versions: list[Version], group: str) -> Iterator[_Candidate]:
    """The node, and every node in its bodies; each with its versions and the words of a hit, the operator first."""
    scopes = tuple(dict.fromkeys(filter(None, ("/".join(scope_of(versions[0].node)), group))))
    facts = [NodeFacts(v.node.op, name, scopes, v.shapes, v.layouts) for v in versions]
    spans = [(version.born, version.dies) for version in versions]
    ops = dict.fromkeys(version.style.op for version in versions)
    results = dict.fromkeys(" ".join((*version.shapes[:1], version.style.detail)) for version in versions)
    yield facts, f"{', then '.join(ops)}  {name}  {', then '.join(results)}", spans
    last = versions[-1]
    for body, inner in _in_bodies(last.node):
        shapes = tuple(_shape(body, value) for value in inner.outputs if value)
        words = f"{inner.op}  {inner.name}, inside {name}"
        yield [NodeFacts(inner.op, inner.name, scopes, shapes)], words, [(last.born, last.dies)]


def _shape(body: Body, value: str) -> str:
    type_ = body.tensor_type(value)
    return "" if type_ is None or type_.shape is None else "x".join(map(str, type_.shape))


def _in_bodies(node: Node) -> Iterator[tuple[Body, Node]]:
    for body in node.bodies.values():
        for inner in body.nodes:
            yield body, inner
            yield from _in_bodies(inner)
