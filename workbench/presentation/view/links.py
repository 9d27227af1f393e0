"""The links of a picture: one line for each pair of connected boxes, with its labels over time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

from workbench.presentation.view import ids
from workbench.presentation.view.boxes import CONSTANT, Boxes
from workbench.presentation.view.node_style import PLAIN
from workbench.presentation.view.timeline import Edge, Timeline
from workbench.presentation.view.value_types import EdgeInterval

HIGH_FAN_OUT = 8  # number of users of a value from which it is drawn as a tick at each user, without lines

Label = tuple[int, int, str, int, bool]  # first moment, moment after the last, text, kind of layout, a narrower type


@dataclass
class Link:
    """A line between two boxes, given by their numbers.

    values:  the number of values that it represents. is_tick: whether it is only a stub at the target.
    """

    source: int
    target: int
    labels: list[Label]
    values: int = 1
    is_tick: bool = False


@dataclass
class Links:
    """The links of a picture. routed_pairs: pairs of placed boxes with routed lines, also under chips."""

    links: list[Link] = field(default_factory=list)
    routed_pairs: list[tuple[int, int]] = field(default_factory=list)


def links_of(timeline: Timeline, boxes: Boxes) -> Links:
    """The links between the boxes, and those from constants that have boxes."""
    pairs: dict[tuple[int, int], list[tuple[Edge, EdgeInterval]]] = {}
    readers: dict[str, set[int]] = {}
    for edge, intervals in timeline.edges.items():
        source, target = boxes.number[edge.source], boxes.number[edge.target]
        if source == target:
            continue
        pairs.setdefault((source, target), []).extend((edge, interval) for interval in intervals)
        if not boxes.boxes[target].is_chip:
            readers.setdefault(edge.value, set()).add(target)
    with_high_fan_out = {value for value, targets in readers.items() if len(targets) >= HIGH_FAN_OUT}
    source_counts = _source_counts(pairs)
    links = Links()
    for (source, target), entries in pairs.items():
        is_tick = all(edge.value in with_high_fan_out for edge, _ in entries) and source_counts[target] > 1
        values = len({edge.value for edge, _ in entries})
        links.links.append(Link(source, target, _labels(entries), values, is_tick))
    links.links += _constant_links(timeline, boxes)
    links.routed_pairs = _routed(boxes, links.links)
    return links


def _source_counts(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    """By box, the number of boxes with a line to it; the only line to a box is never reduced to a tick."""
    count: dict[int, int] = {}
    for _, target in pairs:
        count[target] = count.get(target, 0) + 1
    return count


def _labels(entries: list[tuple[Edge, EdgeInterval]]) -> list[Label]:
    """The labels of a line over time: the label of its value, or the number of its values."""
    if len(entries) == 1:
        ((_, interval),) = entries
        return [(interval.born, interval.dies, interval.label, interval.kind, interval.is_narrow)]
    moments = sorted({moment for _, interval in entries for moment in (interval.born, interval.dies)})
    labels: list[Label] = []
    for born, dies in itertools.pairwise(moments):
        alive = {edge.value: interval for edge, interval in entries if interval.born <= born < interval.dies}
        if not alive:
            continue
        intervals = list(alive.values())
        text = intervals[0].label if len(alive) == 1 else _text_of_several(intervals)
        is_narrow = all(interval.is_narrow for interval in intervals)
        kind = intervals[0].kind if len({interval.kind for interval in intervals}) == 1 else PLAIN
        if labels and labels[-1][1:] == (born, text, kind, is_narrow):
            labels[-1] = (labels[-1][0], dies, text, kind, is_narrow)
        else:
            labels.append((born, dies, text, kind, is_narrow))
    return labels


def _text_of_several(intervals: list[EdgeInterval]) -> str:
    """Such as "3 values", or "3 values, float16 and float32" where edges name element types."""
    types = sorted({interval.type for interval in intervals if interval.type})
    return ", ".join(filter(None, (f"{len(intervals):,} values", " and ".join(types))))


def _constant_links(timeline: Timeline, boxes: Boxes) -> list[Link]:
    """Links from each constant's box to the nodes that read it, while they do."""
    results = []
    for name, versions in timeline.versions.items():
        target = boxes.number[name]
        spans: dict[int, list[Label]] = {}
        for version in versions:
            for value in version.node.operands:
                source = boxes.number.get(f"{ids.CONSTANT_ID}{value}")
                if source is not None and not boxes.boxes[target].members:
                    spans.setdefault(source, []).append((version.born, version.dies, "", PLAIN, False))
        results += [Link(source, target, labels) for source, labels in spans.items()]
    return results


def _routed(boxes: Boxes, links: list[Link]) -> list[tuple[int, int]]:
    """Pairs of placed boxes that are connected directly or by chips."""
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
