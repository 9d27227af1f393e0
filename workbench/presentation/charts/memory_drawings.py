"""Drawings of memory plans as SVG: the arena, the conflict graph, and labels that are given and come back."""

from __future__ import annotations

import math

from workbench.planning.memory.blocks.actions import free_labels, labels_of
from workbench.planning.memory.planning import MemoryPlan
from workbench.presentation.charts.svg import INK, TINTS, circle, line, rectangle, svg, text

MOST_DRAWN = 40  # blocks
_FREE = "#aaaaaa"
_NAME = 13  # pixels of a value's name


def arena_drawing(plan: MemoryPlan) -> str:
    """Steps from left to right, bytes from bottom to top; a colour and a number for each block."""
    wide, high, left, top = 560, 190, 14, 18
    steps = plan.sharing.lifetimes.steps
    drawn = [value for value in plan.values if value.offset is not None and value.bytes and value.dies > value.born]
    labels = labels_of(plan.packed)
    word = "label" if labels else "block"
    ends = {value.alias_of: value.born for value in reversed(drawn) if value.how == "in place"}
    x = wide / max(len(steps), 1)
    y = high / max(plan.packed.total, 1)
    parts = []
    for value in drawn:
        width = (ends.get(value.name, value.dies) - value.born) * x
        height, bottom = (value.bytes or 0) * y, (value.offset or 0) * y
        place = left + value.born * x, top + high - bottom - height
        label = labels.get(value.block or 0, value.block or 0)
        colour = TINTS[label % len(TINTS)]
        parts.append(rectangle(*place, width, height, colour))
        middle = place[0] + width / 2, place[1] + height / 2
        words = [f"{value.bytes:,} B", *([str(value.how)] if value.how else []), f"{word} {label}"]
        room = int((height - 18) // 12)
        first = middle[1] + 4 - 6 * min(room, len(words)) if room > 0 else middle[1] + 4
        if height < _NAME:
            first = place[1] - 4  # above the rectangle, which would strike it through
        parts.append(text(middle[0], first, value.name, _NAME, "middle", bold=True))
        for row, message in enumerate(words[: max(room, 0)], 1):
            parts.append(text(middle[0], first + 1 + 12 * row, message, 10, "middle"))
    for number, step in enumerate(steps):
        parts.append(text(left + (number + 0.5) * x, top + high + 16, f"{number}: {step.label}", 11, "middle"))
    parts.append(f'<path d="M{left} {top}V{top + high}H{left + wide}" fill="none" stroke="{INK}"/>')
    return svg(wide + left + 6, high + top + 24, "Memory over the steps", parts)


def conflict_graph(plan: MemoryPlan) -> str:
    """A node for each block, an edge between two that are in use at once; a colour and a number for each label.

    Nodes stand on a circle in order of birth. A planner without labels leaves them grey. Source: Chaitin et al.,
    Register Allocation via Coloring, 1981.
    """
    packing, labels = plan.sharing.packing, labels_of(plan.packed)
    count = len(packing.blocks)
    around = max(70.0, 13.0 * count)
    middle, radius = around + 80, 22.0
    turns = [2 * math.pi * number / max(count, 1) - math.pi / 2 for number in range(count)]
    places = [(middle + around * math.cos(turn), middle + around * math.sin(turn)) for turn in turns]
    parts = []
    for one, others in enumerate(packing.conflicts):
        for other in sorted(others):
            if one < other:
                parts.append(_between(places[one], places[other], radius))
    for number, (block, (x, y)) in enumerate(zip(packing.blocks, places, strict=True)):
        label = labels.get(number)
        parts.append(circle(x, y, radius, _FREE if label is None else TINTS[label % len(TINTS)]))
        parts.append(text(x, y + (4 if label is None else 0), block.name, 13, "middle", bold=True))
        if label is not None:
            parts.append(text(x, y + 13, f"colour {label}", 9, "middle"))
        out = 1 + (radius + 16) / around  # away from the edges
        beside = middle + (x - middle) * out, middle + (y - middle) * out + 4
        anchor = "middle" if abs(x - middle) < radius else "start" if x > middle else "end"
        parts.append(text(*beside, f"{block.bytes:,} B", 10, anchor))
    return svg(2 * middle, 2 * middle + 10, "Conflict graph of the blocks of memory", parts)


def _between(one: tuple[float, float], other: tuple[float, float], radius: float) -> str:
    """A line from the edge of one circle to that of another."""
    across, down = other[0] - one[0], other[1] - one[1]
    length = math.hypot(across, down) or 1.0
    x, y = across / length * radius, down / length * radius
    return line(one[0] + x, one[1] + y, other[0] - x, other[1] - y)


def recycle_box(plan: MemoryPlan) -> str:
    """A row for each label, a column for each step: the value that has the label then; below, the recycle box, with the
    labels that nobody has."""
    packing, labels, steps = plan.sharing.packing, labels_of(plan.packed), plan.sharing.lifetimes.steps
    rows = max(labels.values(), default=-1) + 1
    left, top, high = 66.0, 12.0, 30.0
    wide = max(54.0, 560.0 / max(len(steps), 1))
    parts = [text(4, top + row * high + 19, f"label {row}", 12, "start") for row in range(rows)]
    for number, block in enumerate(packing.blocks):
        label = labels[number]
        x, y = left + block.born * wide, top + label * high
        width = (min(block.dies, len(steps)) - block.born) * wide
        parts.append(rectangle(x, y + 3, width, high - 6, TINTS[label % len(TINTS)]))
        parts.append(text(x + width / 2, y + 19, block.name, 13, "middle", bold=True))
    box = top + rows * high + 10
    parts.append(text(4, box + 19, "recycle", 12, "start"))
    for step, at in enumerate(steps):
        x = left + step * wide
        tray = f"M{x + 4:.1f} {box:.1f}v{high:.1f}h{wide - 8:.1f}v{-high:.1f}"
        parts.append(f'<path d="{tray}" fill="none" stroke="{INK}" stroke-width="1.5"/>')
        for place, label in enumerate(free_labels(plan.packed, step)):
            spot = x + 16 + place * 20
            parts.append(circle(spot, box + high / 2 + 3, 9, TINTS[label % len(TINTS)]))
            parts.append(text(spot, box + high / 2 + 7, str(label), 10, "middle"))
        parts.append(text(x + wide / 2, box + high + 16, f"{step}: {at.label}", 11, "middle"))
    return svg(left + len(steps) * wide + 8, box + high + 24, "Labels over the steps, and the recycle box", parts)
