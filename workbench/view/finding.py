"""Search in the whole model, closed groups and bodies included: by name, operator, shape, layout."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.ir import Node
from workbench.view.timeline import Timeline

MOST_HITS = 500


def find(timeline: Timeline, query: str, limit: int = MOST_HITS) -> tuple[list[tuple[str, str]], int]:
    """Nodes whose words contain every word of `query`, in the graph's order, each with what was found in it.

    A node of a body is listed under the name of the If, Loop or Scan that holds it. Returns at most `limit` nodes,
    and their total number. Case is ignored.
    """
    wanted = query.casefold().split()
    hits: list[tuple[str, str]] = []
    total = 0
    for name, words in _all_words(timeline) if wanted else ():
        if not all(word in words.casefold() for word in wanted):
            continue
        total += 1
        if len(hits) < limit:
            hits.append((name, words))
    return hits, total


def _all_words(timeline: Timeline) -> Iterator[tuple[str, str]]:
    """Every node with its words; for one that changes, those of all its versions."""
    for name, versions in timeline.versions.items():
        looks = dict.fromkeys(f"{version.look.op} {version.look.detail}" for version in versions)
        yield name, f"{name} {timeline.shapes[name]} {', then '.join(looks)}"
        for inner in _in_bodies(versions[-1].node):
            yield name, f"{inner.op} {inner.name}, inside {name}"


def _in_bodies(node: Node) -> Iterator[Node]:
    for body in node.bodies.values():
        for inner in body.nodes:
            yield inner
            yield from _in_bodies(inner)
