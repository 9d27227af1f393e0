"""Search by a query (`query.py`) in the whole model, including closed groups and bodies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from workbench.ir import Graph, Node
from workbench.ir.node import Body
from workbench.planning.layout.infer import infer_layouts
from workbench.presentation.view.groups import Group, scope_of
from workbench.presentation.view.node_style import result_layouts, shape_text
from workbench.presentation.view.query import NodeFacts, parse_query
from workbench.presentation.view.source_code import module_of
from workbench.presentation.view.timeline import Timeline, Version

MAX_HITS = 500

Span = tuple[int, int]  # from the first moment, up to the second one


@dataclass(frozen=True)
class SearchHits:
    """The hits of a query.

    hits:  the first hits up to the limit, each a node's name and a text. Hits whose operator or name is a word of the
           query come first, the others in the graph's order. A node of a body has the name of its If, Loop or Scan.
    total: the number of all hits.
    spans: by node, when the query holds for it, since a node's operator and layout may change.
    """

    hits: list[tuple[str, str]] = field(default_factory=list)
    total: int = 0
    spans: Mapping[str, list[Span]] = field(default_factory=dict)


def find(timeline: Timeline, query: str, root: Group | None = None, limit: int = MAX_HITS) -> SearchHits:
    """The nodes for which the query holds at any moment. Raises QueryError.

    root: the groups of the picture. They count as scopes, since inserted nodes have no other scope.
    """
    parsed = parse_query(query)
    if not parsed.terms:
        return SearchHits()
    groups = dict(_paths(root)) if root is not None else {}
    ranked: list[tuple[int, tuple[str, str]]] = []
    spans: dict[str, list[Span]] = {}
    for name, versions in timeline.versions.items():
        modules = timeline.modules.get(name, ())
        for facts, text, spans_of_facts in _candidates(name, versions, groups.get(name, ""), modules):
            matching = [span for each, span in zip(facts, spans_of_facts, strict=True) if parsed.holds(each)]
            if matching:
                ranked.append((min(parsed.rank(each) for each in facts), (name, text)))
                spans.setdefault(name, []).extend(matching)
    ranked.sort(key=lambda hit: hit[0])
    return SearchHits([hit for _, hit in ranked[:limit]], len(ranked), spans)


def matching_nodes(graph: Graph, query: str) -> list[str]:
    """The names of the nodes of a graph for which the query holds. Raises QueryError."""
    parsed, layouts = parse_query(query), infer_layouts(graph)
    found = []
    for node in graph.nodes:
        shapes = tuple(shape_text(graph, value) for value in node.outputs if value)
        scopes = tuple(filter(None, ("/".join(scope_of(node)),)))
        facts = NodeFacts(node.op, node.name, scopes, shapes, result_layouts(graph, node, layouts), (module_of(node),))
        if parsed.holds(facts):
            found.append(node.name)
    return found


def _paths(group: Group) -> Iterator[tuple[str, str]]:
    """Yields each node that is in a group, with the group's path."""
    for child in group.children:
        if isinstance(child, Group):
            yield from _paths(child)
        elif group.path:
            yield child, "/".join(group.path)


_Candidate = tuple[list[NodeFacts], str, list[Span]]  # facts of each version, the text of a hit, span of each version


def _candidates(name: str, versions: list[Version], group: str, modules: tuple[str, ...]) -> Iterator[_Candidate]:
    """Yields the node and each node in its bodies as candidates; the text of a hit begins with the operator."""
    scopes = tuple(dict.fromkeys(filter(None, ("/".join(scope_of(versions[0].node)), group))))
    facts = [NodeFacts(v.node.op, name, scopes, v.shapes, v.layouts, modules) for v in versions]
    spans = [(version.born, version.dies) for version in versions]
    ops = dict.fromkeys(version.style.op for version in versions)
    results = dict.fromkeys(" ".join((*version.shapes[:1], version.style.detail)) for version in versions)
    yield facts, f"{', then '.join(ops)}  {name}  {', then '.join(results)}", spans
    last = versions[-1]
    for body, inner in _in_bodies(last.node):
        shapes = tuple(_shape(body, value) for value in inner.outputs if value)
        text = f"{inner.op}  {inner.name}, inside {name}"
        own = tuple(filter(None, (module_of(inner),))) or modules
        yield [NodeFacts(inner.op, inner.name, scopes, shapes, modules=own)], text, [(last.born, last.dies)]


def _shape(body: Body, value: str) -> str:
    type_ = body.tensor_type(value)
    return "" if type_ is None or type_.shape is None else "x".join(map(str, type_.shape))


def _in_bodies(node: Node) -> Iterator[tuple[Body, Node]]:
    for body in node.bodies.values():
        for inner in body.nodes:
            yield body, inner
            yield from _in_bodies(inner)
