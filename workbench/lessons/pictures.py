"""Pictures beside the graph, as SVG: a plan of memory, and the elements of a tensor in the order of their bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import product

from workbench.errors import UserError
from workbench.ir import Graph
from workbench.layout.infer import infer_layouts
from workbench.memory.orders import ORDERS, ordered
from workbench.memory.planners import planners
from workbench.memory.planning import MemoryPlan, plan_memory, sharing_of

_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")  # Tol's, for the colour-blind
_MOST_ELEMENTS = 72
_INK = ".wb-ink {fill: #24262b} @media (prefers-color-scheme: dark) {.wb-ink {fill: #f0f1f3}}"
_ORDERS = {"NCHW": ("NCHW", "NHWC"), "OIHW": ("OIHW", "HWIO", "HWOI")}


@dataclass(frozen=True)
class Picture:
    """An SVG, a sentence above it, and lines below."""

    title: str
    svg: str
    lines: tuple[str, ...] = ()


def picture_of(words: str, graph: Graph) -> Picture | None:
    """The picture that a stop names, None if it names none. Raises UserError."""
    if not words:
        return None
    kind, _, rest = words.partition(" ")
    if kind not in _KINDS:
        raise UserError(f"there is no picture '{kind}'; there are: {', '.join(_KINDS)}")
    return _KINDS[kind](rest.split(), graph)


# ---- memory ------------------------------------------------------------------------------


def _memory(words: Sequence[str], graph: Graph) -> Picture:
    planner, order = (*words, "exact", "file")[:2] if len(words) != 1 else (words[0], "file")
    if planner not in planners():
        raise UserError(f"there is no planner '{planner}'; there are: {', '.join(planners())}")
    if order not in ORDERS:
        raise UserError(f"there is no execution order '{order}'; there are: {', '.join(ORDERS)}")
    plan = plan_memory(sharing_of(graph, order, ordered(graph, order)), planner)
    packed = plan.packed
    title = f"{planners()[planner].title}, order {order}: {packed.total:,} bytes; at least {packed.lower_bound:,}"
    refused = [one.sentence for one in plan.sharing.decisions if not one.accepted]
    actions = [f"step {one.step}: {one.sentence}" for one in packed.actions if one.label is not None]
    return Picture(title, _arena(plan), (*refused, *actions))


def _arena(plan: MemoryPlan) -> str:
    """Steps from left to right, bytes from bottom to top; a colour and a number for each block."""
    wide, high, left, top = 560, 190, 14, 12
    steps = plan.sharing.lifetimes.steps
    drawn = [value for value in plan.values if value.offset is not None and value.bytes and value.dies > value.born]
    given = [action for action in plan.packed.actions if action.label is not None and action.does != "free"]
    labels = {action.block: action.label for action in given if action.label is not None}
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
        colour = _COLOURS[label % len(_COLOURS)]
        parts.append(_rectangle(*place, width, height, colour))
        middle = place[0] + width / 2, place[1] + height / 2
        words = [f"{value.bytes:,} B", *([str(value.how)] if value.how else []), f"{word} {label}"]
        room = int((height - 18) // 12)
        first = middle[1] + 4 - 6 * min(room, len(words)) if room > 0 else middle[1] + 4
        parts.append(_text(middle[0], first, value.name, 13, "middle", bold=True))
        for line, said in enumerate(words[: max(room, 0)], 1):
            parts.append(_text(middle[0], first + 1 + 12 * line, said, 10, "middle"))
    for number, step in enumerate(steps):
        parts.append(_text(left + (number + 0.5) * x, top + high + 16, f"{number}: {step.label}", 11, "middle"))
    parts.append(f'<path d="M{left} {top}V{top + high}H{left + wide}" fill="none" stroke="#888888"/>')
    return _svg(wide + left + 6, high + top + 24, "Memory over the steps", parts)


# ---- elements ----------------------------------------------------------------------------


def _elements(words: Sequence[str], graph: Graph) -> Picture:
    if len(words) != 1:
        raise UserError("the picture 'elements' takes one value, such as `picture: elements x`")
    (name,) = words
    layout, shape = infer_layouts(graph).get(name, ""), graph.shape(name)
    family = next((orders for orders in _ORDERS.values() if sorted(layout) == sorted(orders[0])), None)
    if family is None or shape is None or not all(isinstance(size, int) for size in shape):
        raise UserError(f"'{name}' is no image and no kernel at this moment, so its elements have no layouts")
    sizes = {axis: int(size) for axis, size in zip(layout, shape, strict=True) if isinstance(size, int)}
    count = 1
    for size in sizes.values():
        count *= size
    if count > _MOST_ELEMENTS:
        raise UserError(f"'{name}' has {count:,} elements, and a picture has room for {_MOST_ELEMENTS}")
    others = [order for order in family if order != layout]
    shown = [layout, *others] if layout in family else list(family)
    title = f"'{name}' is {layout} {list(sizes.values())}; its {count} elements from the first byte to the last"
    return Picture(title, _rows(sizes, shown, family[0][:1] if family[0] == "OIHW" else "C"))


def _rows(sizes: Mapping[str, int], orders: Sequence[str], coloured: str) -> str:
    """A row of cells for each order of the axes, the value's own first. coloured: the axis of colours and letters."""
    count = 1
    for size in sizes.values():
        count *= size
    cell = min(34.0, 620 / count)
    parts = []
    for row, order in enumerate(orders):
        top = 8 + row * (cell + 30)
        parts.append(_text(4, top + cell / 2 + 4, order, 13, "start", bold=not row))
        for number, index in enumerate(product(*(range(sizes[axis]) for axis in order))):
            at = dict(zip(order, index, strict=True))
            colour = _COLOURS[at[coloured] % len(_COLOURS)]
            rest = 0
            for axis in sizes:
                if axis != coloured:
                    rest = rest * sizes[axis] + at[axis]
            place = 58 + number * cell, top
            parts.append(_rectangle(*place, cell, cell, colour))
            word = f"{chr(ord('a') + at[coloured])}{rest}"
            parts.append(_text(place[0] + cell / 2, top + cell / 2 + 4, word, min(12, cell * 0.42), "middle"))
    words = "channel" if coloured == "C" else "result channel"
    last = 8 + len(orders) * (cell + 30)
    parts.append(_text(58, last - 4, f"letter and colour: the {words}; number: the place within it", 11, "start"))
    return _svg(max(58 + count * cell + 6, 420), last + 4, "Elements in the order of their bytes", parts)


# ---- svg ---------------------------------------------------------------------------------


def _svg(width: float, height: float, label: str, parts: Sequence[str]) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}"><style>{_INK}</style>'
    return f"{head}{''.join(parts)}</svg>"


def _rectangle(x: float, y: float, width: float, height: float, colour: str) -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {where} fill="{colour}" fill-opacity="0.45" stroke="{colour}" stroke-width="1.5"/>'


def _text(x: float, y: float, words: str, size: float, anchor: str, bold: bool = False) -> str:
    weight = ' font-weight="700"' if bold else ""
    where = f'x="{x:.1f}" y="{y:.1f}" font-size="{size:.1f}" text-anchor="{anchor}"{weight}'
    return f'<text {where} class="wb-ink" font-family="sans-serif">{escape(words)}</text>'


_KINDS: Mapping[str, Callable[[Sequence[str], Graph], Picture]] = {"memory": _memory, "elements": _elements}
