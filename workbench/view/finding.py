"""Search over the whole model: name, operator, shape, layout; closed groups hide nothing from it."""

from __future__ import annotations

from workbench.view.timeline import Timeline

MOST_HITS = 500


def find(timeline: Timeline, query: str, limit: int = MOST_HITS) -> tuple[list[tuple[str, str]], int]:
    """Nodes in whose words every word of `query` stands, in the graph's order, each with what was found in it.

    Returns at most `limit` of them, and how many there are. Upper and lower case are one.
    """
    wanted = query.casefold().split()
    hits: list[tuple[str, str]] = []
    if not wanted:
        return hits, 0
    total = 0
    for name, versions in timeline.versions.items():
        for version in versions:
            look = version.look
            words = f"{look.op} {name} {timeline.shapes[name]} {look.detail}"
            if all(word in words.casefold() for word in wanted):
                total += 1
                if len(hits) < limit:
                    hits.append((name, words))
                break
    return hits, total
