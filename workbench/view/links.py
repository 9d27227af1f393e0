"""The lines of a picture, one for each pair of boxes, and their labels over time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

from workbench.view import ids
from workbench.view.boxes import CONSTANT, Boxes
from workbench.view.node_style import PLAIN
from workbench.view.timeline import Edge, EdgeInterval, Timeline

HIGH_FAN_OUT = 8  # users of a value from which on it is drawn as a tick at each of them, without lines

Said = tuple[int, int, str, int]  # from when, to when, words, kind of layout


@dataclass
class Link:
    """A line between boxes, by number. `values`: the most values that it represents. A tick is a stub at the target."""

    source: int
    target: int
    said: list[Said]
    values: int = 1
    is_tick: bool = False


@dataclass
class Links:
    """links: the lines that are drawn; routed: those that are placed, with the lines under nodes on edges."""

    links: list[Link] = field(default_factory=list)
    routed: list[tuple[int, int]] = field(default_factory=list)


def links_of(timeline: Timeline, boxes: Boxes) -> Links:
    """The lines between the boxes, with those of constants that have boxes."""
    pairs: dict[tuple[int, int], list[tuple[Edge, EdgeInterval]]] = {}
    readers: dict[str, set[int]] = {}
    for edge, stretches in timeline.edges.items():
        source, target = boxes.number[edge.source], boxes.number[edge.target]
        if source == target:
            continue
        pairs.setdefault((source, target), []).extend((edge, stretch) for stretch in stretches)
        if not boxes.boxes[target].is_chip:
            readers.setdefault(edge.value, set()).add(target)
    crowded = {value for value, targets in readers.items() if len(targets) >= HIGH_FAN_OUT}
    only = _only_sources(pairs)
    links = Links()
    for (source, target), entries in pairs.items():
        ticked = all(edge.value in crowded for edge, _ in entries) and only[target] > 1
        values = len({edge.value for edge, _ in entries})
        links.links.append(Link(source, target, _said([stretch for _, stretch in entries]), values, ticked))
    links.links += _constant_links(timeline, boxes)
    links.routed = _routed(boxes, links.links)
    return links


def _only_sources(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    """The number of boxes that lead to each: the last line to a box is never reduced to a tick."""
    count: dict[int, int] = {}
    for _, target in pairs:
        count[target] = count.get(target, 0) + 1
    return count


def _said(stretches: list[EdgeInterval]) -> list[Said]:
    """The labels of the line over time: the words of its one value, or the number of values."""
    if len(stretches) == 1:
        only = stretches[0]
        return [(only.born, only.dies, only.words, only.kind)]
    moments = sorted({moment for stretch in stretches for moment in (stretch.born, stretch.dies)})
    sentences: list[Said] = []
    for born, dies in itertools.pairwise(moments):
        alive = [stretch for stretch in stretches if stretch.born <= born < stretch.dies]
        if not alive:
            continue
        words = alive[0].words if len(alive) == 1 else f"{len(alive):,} values"
        kind = alive[0].kind if len({stretch.kind for stretch in alive}) == 1 else PLAIN
        if sentences and sentences[-1][1:] == (born, words, kind):
            sentences[-1] = (sentences[-1][0], dies, words, kind)
        else:
            sentences.append((born, dies, words, kind))
    return sentences


def _constant_links(timeline: Timeline, boxes: Boxes) -> list[Link]:
    """Lines from a constant's box to each node that reads it, while it does."""
    results = []
    for name, versions in timeline.versions.items():
        target = boxes.number[name]
        spans: dict[int, list[Said]] = {}
        for version in versions:
            for value in version.node.operands:
                source = boxes.number.get(f"{ids.CONSTANT_ID}{value}")
                if source is not None and not boxes.boxes[target].members:
                    spans.setdefault(source, []).append((version.born, version.dies, "", PLAIN))
        results += [Link(source, target, message) for source, message in spans.items()]
    return results


def _routed(boxes: Boxes, links: list[Link]) -> list[tuple[int, int]]:
    """Pairs of placed boxes; a node on an edge is followed to the next placed one."""
    out: dict[int, list[int]] = {}
    for link in links:
        if not link.is_tick:
            out.setdefault(link.source, []).append(link.target)
    pairs = dict.fromkeys(
        (link.source, end)
        for link in links
        if not link.is_tick and not boxes.boxes[link.source].is_chip and boxes.boxes[link.source].kind != CONSTANT
        for end in _ends(boxes, out, link.target, set())
    )
    return [(a, b) for a, b in pairs if a != b]


def _ends(boxes: Boxes, out: dict[int, list[int]], number: int, seen: set[int]) -> list[int]:
    if not boxes.boxes[number].is_chip:
        return [number]
    if number in seen:
        return []
    seen.add(number)
    return [end for target in out.get(number, ()) for end in _ends(boxes, out, target, seen)]
