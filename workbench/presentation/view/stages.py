"""Cuts a long list of a graph's nodes and groups into stages: where the size of the data changes, else where few values
cross.

A stage is a run of the topological order, so it is convex: no path leaves it and returns.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

_REACH, _REACH_SHARE = 8, 1 / 20  # entries on either side of a cut, among which no position is crossed by fewer values
_LEAST_SHARE = 1 / 60  # of the nodes; a smaller stage is a part of its neighbour
_MIN_NODES, _MIN_BLOCK = 3, 8  # nodes of a stage, and of a block
_LONG_CHAIN = 6  # positions; a longer chain between two blocks is a stage of its own


@dataclass(frozen=True)
class Entry:
    """A node or group of the list.

    nodes: how many it has. scale: of its last result, such as "56x56"; "" if unknown.
    """

    nodes: int
    scale: str


def size_of_data(shape: str, layout: str) -> str:
    """The size of the data without batch and channels; "" if the shape is unknown.

    shape: such as "1x64x56x56". layout: such as "NCHW"; of anything else, the scale is the number of axes.
    """
    dims = shape.split("x") if shape else []
    if not dims:
        return ""
    if layout.startswith("NC") and len(dims) > 2:
        return "x".join(dims[2:])
    if layout.startswith("N") and layout.endswith("C") and len(dims) > 2:
        return "x".join(dims[1:-1])
    return f"{len(dims)} axes"


@dataclass(frozen=True)
class Crossings:
    """The values that cross each position of a list; position i is between entries i - 1 and i.

    counts: by position, how many values cross.
    newest: by position, the last entry before it whose value crosses, or -1.
    """

    counts: tuple[int, ...]
    newest: tuple[int, ...]


def crossings_in(count: int, edges: Iterable[tuple[int, int]]) -> Crossings:
    """The crossings of a list of `count` entries. edges: the entries that a value flows from and to."""
    last_use: dict[int, int] = {}
    for source, target in edges:
        if target > source:
            last_use[source] = max(last_use.get(source, 0), target)
    steps = np.zeros(count + 2, dtype=int)
    for source, target in last_use.items():
        steps[source + 1] += 1
        steps[target + 1] -= 1
    newest, living = [], list[int]()
    for position in range(count + 1):
        if position - 1 in last_use:
            living.append(position - 1)
        while living and last_use[living[-1]] < position:
            living.pop()
        newest.append(living[-1] if living else -1)
    return Crossings(tuple(np.cumsum(steps)[: count + 1].tolist()), tuple(newest))


def stages(entries: Sequence[Entry], crossings: Crossings, most: int, parts: int) -> list[int]:
    """The positions at which stages begin, without the first, which is 0: at most `most` - 1.

    parts: how many stages there are if nothing else tells where to cut.
    """
    nodes = [entry.nodes for entry in entries]
    least = max(_MIN_NODES, round(sum(nodes) * _LEAST_SHARE))
    return (
        _without_small(_scale_changes(entries, crossings), nodes, most, least)
        or _without_small(_between_blocks(crossings.counts), nodes, most, max(_MIN_BLOCK, least))
        or _equal_parts(crossings.counts, parts)
    )


def _scale_changes(entries: Sequence[Entry], crossings: Crossings) -> list[int]:
    """The last position that few values cross before each change of the data's size."""
    crossing, newest = crossings.counts, crossings.newest
    reach = max(_REACH, round(len(entries) * _REACH_SHARE))
    cuts, scale, before = [], "", 0
    for position in range(1, len(entries)):
        near = crossing[max(1, position - reach) : min(position + reach + 1, len(entries))]
        if crossing[position] > min(near) or newest[position] < 0:
            continue
        here = entries[newest[position]].scale
        if here and scale and here != scale and before:
            cuts.append(before)
        scale, before = here or scale, position
    return cuts


def _without_small(cuts: Sequence[int], nodes: Sequence[int], most: int, least: int) -> list[int]:
    """The cuts without those around stages of less than `least` nodes, and at most `most` - 1 of them."""
    kept = list(cuts)
    while kept:
        sizes = [sum(nodes[a:b]) for a, b in itertools.pairwise([0, *kept, len(nodes)])]
        smallest = min(range(len(sizes)), key=sizes.__getitem__)
        if sizes[smallest] >= least and len(sizes) <= most:
            return kept
        # it joins the smaller one of its neighbours
        is_last = smallest == len(sizes) - 1
        joins_before = smallest > 0 and (is_last or sizes[smallest - 1] <= sizes[smallest + 1])
        kept.pop(smallest - 1 if joins_before else smallest)
    return []


def _between_blocks(crossing: Sequence[int]) -> list[int]:
    """Positions between blocks, such as residual ones: the narrowest ones, with more values crossing on both sides.

    A chain between two blocks belongs to the first one if it is short.
    """
    inner = crossing[1:-1]
    if not inner:
        return []
    narrowest = min(inner)
    cuts: list[int] = []
    for is_narrow, run in itertools.groupby(range(1, len(crossing) - 1), key=lambda i: crossing[i] == narrowest):
        positions = list(run)
        if not is_narrow:
            continue
        if positions[0] > 1 and len(positions) >= _LONG_CHAIN:
            cuts.append(positions[0])
        if positions[-1] < len(crossing) - 2:
            cuts.append(positions[-1])
    return cuts


def _equal_parts(crossing: Sequence[int], parts: int) -> list[int]:
    """Positions that split the list into about equal parts, where the fewest values cross."""
    count = len(crossing) - 1
    size = count / parts
    cuts = []
    for number in range(1, parts):
        middle = round(number * size)
        near = range(max(1, middle - int(size / 3)), min(count, middle + int(size / 3)) + 1)
        cuts.append(min(near, key=lambda i: (crossing[i], abs(i - middle))))
    return sorted({cut for cut in cuts if 0 < cut < count})
