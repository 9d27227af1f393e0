"""What a query and a user's own numbers mark in a picture, box by box, as sent to the browser (docs/view.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from workbench.view.boxes import Boxes
from workbench.view.finding import Span
from workbench.view.own_numbers import Column, OwnNumbers

Mark = list[int]  # box, first moment, moment after the last one, number of hits in the box


def hit_marks(boxes: Boxes, spans: Mapping[str, list[Span]], last: int) -> list[Mark]:
    """The boxes with hits; `last` is the last moment of the scene."""
    counts: Counter[tuple[int, int, int]] = Counter()
    for name, held in spans.items():
        for born, dies in held:
            counts[boxes.number[name], born, min(dies, last + 1)] += 1
    return [[*where, count] for where, count in counts.items()]


def told_numbers(boxes: Boxes, own: OwnNumbers, nodes: Collection[str]) -> dict[str, Any]:
    """The columns with their ranges and, for each box, its number; for a closed group the largest in it.

    nodes: those of the picture, the only ones whose numbers count.
    """
    columns = [_told(boxes, column, nodes) for column in own.columns]
    return {"file": own.file, "sentence": own.sentence(nodes), "columns": columns}


def _told(boxes: Boxes, column: Column, nodes: Collection[str]) -> dict[str, Any]:
    largest: dict[int, float] = {}
    known = {name: number for name, number in column.numbers.items() if name in nodes}
    for name, number in known.items():
        box = boxes.number[name]
        largest[box] = max(number, largest.get(box, number))
    ends = {"low": min(known.values()), "high": max(known.values())} if known else {}
    return {"title": column.title, "unit": column.unit, **ends, "boxes": list(largest.items())}
