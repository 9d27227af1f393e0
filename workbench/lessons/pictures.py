"""Pictures beside the graph, as SVG: plans of memory, and the elements of a tensor in the order of their bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from workbench.charts.memory_drawings import MOST_DRAWN, arena_drawing, conflict_graph, recycle_box
from workbench.charts.svg import TINTS, rectangle, svg, text
from workbench.errors import UserError
from workbench.ir import Graph
from workbench.layout.infer import infer_layouts
from workbench.memory.blocks.actions import labels_of
from workbench.memory.orders import ORDERS, ordered
from workbench.memory.planners import planners
from workbench.memory.planning import MemoryPlan, plan_memory, sharing_of

_MOST_ELEMENTS = 72
_LEFT = 78  # pixels, for the names of orders
_ORDERS = {"NCHW": ("NCHW", "NHWC"), "OIHW": ("OIHW", "HWIO", "HWOI"), "RC": ("RC", "CR")}
_COLOURED = {"NCHW": ("C", "channel"), "OIHW": ("O", "result channel"), "RC": ("R", "row")}  # by family: the axis
_SHOWN = {"RC": "by row", "CR": "by column"}


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
    plan = _plan(words, graph)
    return Picture(_title(plan), arena_drawing(plan), _lines(plan))


def _conflicts(words: Sequence[str], graph: Graph) -> Picture:
    plan = _plan(words, graph)
    return Picture(_title(plan), conflict_graph(plan))


def _recycle(words: Sequence[str], graph: Graph) -> Picture:
    plan = _plan(words, graph)
    if not labels_of(plan.packed):
        raise UserError(f"the planner '{plan.packed.planner}' gives no labels, and so has no recycle box")
    return Picture(_title(plan), recycle_box(plan), _lines(plan))


def _plan(words: Sequence[str], graph: Graph) -> MemoryPlan:
    planner, order = (*words, "exact", "file")[:2] if len(words) != 1 else (words[0], "file")
    if planner not in planners():
        raise UserError(f"there is no planner '{planner}'; there are: {', '.join(planners())}")
    if order not in ORDERS:
        raise UserError(f"there is no execution order '{order}'; there are: {', '.join(ORDERS)}")
    plan = plan_memory(sharing_of(graph, order, ordered(graph, order)), planner)
    if len(plan.sharing.packing.blocks) > MOST_DRAWN:
        raise UserError(f"this graph has {len(plan.sharing.packing.blocks):,} blocks, of at most {MOST_DRAWN} drawn")
    return plan


def _title(plan: MemoryPlan) -> str:
    packed, order = plan.packed, plan.sharing.order
    title = planners()[packed.planner].title
    return f"{title}, order {order}: {packed.total:,} bytes; at least {packed.lower_bound:,}"


def _lines(plan: MemoryPlan) -> tuple[str, ...]:
    refused = [one.sentence for one in plan.sharing.decisions if not one.accepted]
    return (*refused, *(f"step {one.step}: {one.sentence}" for one in plan.packed.actions if one.label is not None))


# ---- elements ----------------------------------------------------------------------------


def _elements(words: Sequence[str], graph: Graph) -> Picture:
    if len(words) != 1:
        raise UserError("the picture 'elements' takes one value, such as `picture: elements x`")
    (name,) = words
    layout, shape = infer_layouts(graph).get(name, ""), graph.shape(name)
    if shape is not None and len(shape) == 2:
        layout = "RC"
    family = next((orders for orders in _ORDERS.values() if sorted(layout) == sorted(orders[0])), None)
    if family is None or shape is None or not all(isinstance(size, int) for size in shape):
        raise UserError(f"'{name}' is no image, kernel or matrix at this moment, so its elements have no orders")
    sizes = {axis: int(size) for axis, size in zip(layout, shape, strict=True) if isinstance(size, int)}
    count = 1
    for size in sizes.values():
        count *= size
    if count > _MOST_ELEMENTS:
        raise UserError(f"'{name}' has {count:,} elements, and a picture has room for {_MOST_ELEMENTS}")
    others = [order for order in family if order != layout]
    shown = [layout, *others] if layout in family else list(family)
    what = "a matrix" if layout == "RC" else layout
    title = f"'{name}' is {what} {list(sizes.values())}; its {count} elements from the first byte to the last"
    return Picture(title, _rows(sizes, shown, *_COLOURED[family[0]]))


def _rows(sizes: Mapping[str, int], orders: Sequence[str], coloured: str, called: str) -> str:
    """A row of cells for each order of the axes, the value's own first. coloured: the axis of colours and letters."""
    count = 1
    for size in sizes.values():
        count *= size
    cell = min(34.0, 620 / count)
    parts = []
    for row, order in enumerate(orders):
        top = 8 + row * (cell + 30)
        parts.append(text(4, top + cell / 2 + 4, _SHOWN.get(order, order), 13, "start", bold=not row))
        for number, index in enumerate(product(*(range(sizes[axis]) for axis in order))):
            at = dict(zip(order, index, strict=True))
            colour = TINTS[at[coloured] % len(TINTS)]
            rest = 0
            for axis in sizes:
                if axis != coloured:
                    rest = rest * sizes[axis] + at[axis]
            place = _LEFT + number * cell, top
            parts.append(rectangle(*place, cell, cell, colour))
            word = f"{chr(ord('a') + at[coloured])}{rest}"
            parts.append(text(place[0] + cell / 2, top + cell / 2 + 4, word, min(12, cell * 0.42), "middle"))
    last = 8 + len(orders) * (cell + 30)
    parts.append(text(_LEFT, last - 4, f"letter and colour: the {called}; number: the place within it", 11, "start"))
    return svg(max(_LEFT + count * cell + 6, 420), last + 4, "Elements in the order of their bytes", parts)


_KINDS: Mapping[str, Callable[[Sequence[str], Graph], Picture]] = {
    "memory": _memory,
    "conflicts": _conflicts,
    "recycle": _recycle,
    "elements": _elements,
}
