"""Marks of the boxes of a picture by a query or by the user's numbers, as sent to the browser (docs/view.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from workbench.view.boxes import Boxes
from workbench.view.finding import Span
from workbench.view.own_numbers import Column, OwnNumbers

Mark = list[int]  # box, first moment, moment after the last one, number of hits in the box


def hit_marks(boxes: Boxes, spans: Mapping[str, list[Span]], last: int) -> list[Mark]:
    """The marks of boxes with hits. last: the last moment of the scene."""
    counts: Counter[tuple[int, int, int]] = Counter()
    for name, hit_spans in spans.items():
        for born, dies in hit_spans:
            counts[boxes.number[name], born, min(dies, last + 1)] += 1
    return [[*mark, count] for mark, count in counts.items()]


def overlay_data(boxes: Boxes, own: OwnNumbers, nodes: Collection[str]) -> dict[str, Any]:
    """The columns with their ranges and the number of each box; a closed group has the largest number in it.

    nodes: of the picture; numbers of other nodes are ignored.
    """
    columns = [_column_data(boxes, column, nodes) for column in own.columns]
    return {"file": own.file, "sentence": own.sentence(nodes), "columns": columns}


def _column_data(boxes: Boxes, column: Column, nodes: Collection[str]) -> dict[str, Any]:
    max_of_box: dict[int, float] = {}
    numbers = {name: number for name, number in column.numbers.items() if name in nodes}
    for name, number in numbers.items():
        box = boxes.number[name]
        max_of_box[box] = max(number, max_of_box.get(box, number))
    ends = {"low": min(numbers.values()), "high": max(numbers.values())} if numbers else {}
    return {"title": column.title, "unit": column.unit, **ends, "boxes": list(max_of_box.items())}
