"""Marks of the boxes of a picture by a query or by numbers for nodes, as sent to the browser (docs/view.md)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from workbench.presentation.view.boxes import Boxes
from workbench.presentation.view.finding import Span
from workbench.presentation.view.node_numbers import Column, NodeNumbers

Mark = list[int]  # box, first moment, moment after the last one, number of hits in the box


def hit_marks(boxes: Boxes, spans: Mapping[str, list[Span]], last: int) -> list[Mark]:
    """The marks of boxes with hits. last: the last moment of the scene."""
    counts: Counter[tuple[int, int, int]] = Counter()
    for name, hit_spans in spans.items():
        for born, dies in hit_spans:
            counts[boxes.number[name], born, min(dies, last + 1)] += 1
    return [[*mark, count] for mark, count in counts.items()]


def overlay_data(boxes: Boxes, own: NodeNumbers, nodes: Collection[str]) -> list[dict[str, Any]]:
    """The columns with their ends, and the shade and text of each box; a closed group has its largest number.

    nodes: of the picture; numbers of other nodes are ignored.
    """
    rest = {"origin": own.origin, "note": own.sentence(nodes)}
    return [{**_column_data(boxes, column, nodes), **rest} for column in own.columns]


def _column_data(boxes: Boxes, column: Column, nodes: Collection[str]) -> dict[str, Any]:
    numbers = {name: number for name, number in column.numbers.items() if name in nodes}
    largest: dict[int, str] = {}  # by box: the node with the largest number
    for name, number in numbers.items():
        box = boxes.number[name]
        if box not in largest or _size(number) > _size(numbers[largest[box]]):
            largest[box] = name
    least = 0.0 if column.logarithmic else -math.inf  # logarithms are of positive numbers
    inside = sorted((number, name) for name, number in numbers.items() if math.isfinite(number) and number > least)
    low, high = (inside[0][0], inside[-1][0]) if inside else (0.0, 0.0)
    beyond = sorted({column.text_of(name) for name, number in numbers.items() if not math.isfinite(number)})
    shown_high = [*(column.text_of(name) for _, name in inside[-1:]), *beyond]

    def share(number: float) -> float:
        """Where the number lies between the ends, from 0 to 1."""
        if not math.isfinite(number) or high <= low:
            return 1.0
        if column.logarithmic:
            return math.log(max(number, low) / low) / math.log(high / low)
        return (number / 2 - low / 2) / (high / 2 - low / 2)  # the difference of two large numbers is infinite

    return {
        "title": column.title,
        "unit": column.unit,
        "low": column.text_of(inside[0][1]) if inside else "",
        "high": " or ".join(shown_high),
        "boxes": [[box, share(numbers[name]), column.text_of(name)] for box, name in largest.items()],
    }


def _size(number: float) -> float:
    return math.inf if math.isnan(number) else number
