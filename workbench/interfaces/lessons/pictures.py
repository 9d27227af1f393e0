"""Pictures beside the graph, as SVG: memory plans, and the elements of a tensor in the order of their bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from workbench.errors import UserError
from workbench.ir import Graph
from workbench.planning.layout.infer import infer_layouts
from workbench.planning.memory.blocks.actions import labels_of
from workbench.planning.memory.orders import ORDERS, ordered
from workbench.planning.memory.planners import planners
from workbench.planning.memory.planning import MemoryPlan, plan_memory, sharing_of
from workbench.presentation.charts.memory_drawings import MOST_DRAWN, arena_drawing, conflict_graph, recycle_box
from workbench.presentation.charts.svg import TINTS, rectangle, svg, text

_MAX_ELEMENTS = 72
_LEFT = 78  # pixels of width for the names of orders
_ORDERS = {"NCHW": ("NCHW", "NHWC"), "OIHW": ("OIHW", "HWIO", "HWOI"), "RC": ("RC", "CR")}
# of each family of orders: the axis that colours show, and its name
_COLOURED = {"NCHW": ("C", "channel"), "OIHW": ("O", "result channel"), "RC": ("R", "row")}
_TITLES = {"RC": "by row", "CR": "by column"}


@dataclass(frozen=True)
class Picture:
    """An SVG, a sentence above it, and lines below."""

    title: str
    svg: str
    lines: tuple[str, ...] = ()


def picture_of(name: str, graph: Graph) -> Picture | None:
    """The picture that a stop names, such as "memory exact file"; None for "". Raises UserError."""
    if not name:
        return None
    kind, _, arguments = name.partition(" ")
    if kind not in _KINDS:
        raise UserError(f"there is no picture '{kind}'; there are: {', '.join(_KINDS)}")
    return _KINDS[kind](arguments.split(), graph)


# ---- memory ------------------------------------------------------------------------------


def _memory(arguments: Sequence[str], graph: Graph) -> Picture:
    plan = _plan(arguments, graph)
    return Picture(_title(plan), arena_drawing(plan), _lines(plan))


def _conflicts(arguments: Sequence[str], graph: Graph) -> Picture:
    plan = _plan(arguments, graph)
    return Picture(_title(plan), conflict_graph(plan))


def _recycle(arguments: Sequence[str], graph: Graph) -> Picture:
    plan = _plan(arguments, graph)
    if not labels_of(plan.packed):
        raise UserError(f"the planner '{plan.packed.planner}' gives no labels, so that it has no recycle box")
    return Picture(_title(plan), recycle_box(plan), _lines(plan))


def _plan(arguments: Sequence[str], graph: Graph) -> MemoryPlan:
    """The plan by a planner and an execution order, "exact" and "file" by default."""
    planner, order = (*arguments, "exact", "file")[:2] if len(arguments) != 1 else (arguments[0], "file")
    if planner not in planners():
        raise UserError(f"there is no planner '{planner}'; there are: {', '.join(planners())}")
    if order not in ORDERS:
        raise UserError(f"there is no execution order '{order}'; there are: {', '.join(ORDERS)}")
    plan = plan_memory(sharing_of(graph, order, ordered(graph, order)), planner)
    if len(plan.sharing.packing.blocks) > MOST_DRAWN:
        raise UserError(f"this graph has {len(plan.sharing.packing.blocks):,} blocks; at most {MOST_DRAWN} are drawn")
    return plan


def _title(plan: MemoryPlan) -> str:
    packed, order = plan.packed, plan.sharing.order
    title = planners()[packed.planner].title
    return f"{title}, order {order}: {packed.total:,} bytes; at least {packed.lower_bound:,}"


def _lines(plan: MemoryPlan) -> tuple[str, ...]:
    """Why values do not share memory, and the planner's actions that have a label."""
    refused = [decision.sentence for decision in plan.sharing.decisions if not decision.accepted]
    labelled = [action for action in plan.packed.actions if action.label is not None]
    return (*refused, *(f"step {action.step}: {action.sentence}" for action in labelled))


# ---- elements ----------------------------------------------------------------------------


def _elements(arguments: Sequence[str], graph: Graph) -> Picture:
    if len(arguments) != 1:
        raise UserError("the picture 'elements' takes one value, such as `picture: elements x`")
    (name,) = arguments
    layout, shape = infer_layouts(graph).get(name, ""), graph.shape(name)
    if shape is not None and len(shape) == 2:
        layout = "RC"
    family = next((orders for orders in _ORDERS.values() if sorted(layout) == sorted(orders[0])), None)
    if family is None or shape is None or not all(isinstance(size, int) for size in shape):
        raise UserError(
            f"'{name}' is not an image, kernel or matrix at this moment, so that its elements have no orders"
        )
    sizes = {axis: int(size) for axis, size in zip(layout, shape, strict=True) if isinstance(size, int)}
    count = 1
    for size in sizes.values():
        count *= size
    if count > _MAX_ELEMENTS:
        raise UserError(f"'{name}' has {count:,} elements, and a picture has room for {_MAX_ELEMENTS}")
    others = [order for order in family if order != layout]
    shown = [layout, *others] if layout in family else list(family)
    kind = "a matrix" if layout == "RC" else layout
    title = f"'{name}' is {kind} {list(sizes.values())}; its {count} elements from the first byte to the last"
    return Picture(title, _rows(sizes, shown, *_COLOURED[family[0]]))


def _rows(sizes: Mapping[str, int], orders: Sequence[str], coloured: str, called: str) -> str:
    """An SVG with a row of cells for each order of the axes, that of the value first.

    coloured: the axis that colours and letters show. called: its name.
    """
    count = 1
    for size in sizes.values():
        count *= size
    cell = min(34.0, 620 / count)
    parts = []
    for row, order in enumerate(orders):
        top = 8 + row * (cell + 30)
        parts.append(text(4, top + cell / 2 + 4, _TITLES.get(order, order), 13, "start", bold=not row))
        for number, index in enumerate(product(*(range(sizes[axis]) for axis in order))):
            position = dict(zip(order, index, strict=True))
            colour = TINTS[position[coloured] % len(TINTS)]
            inner = 0
            for axis in sizes:
                if axis != coloured:
                    inner = inner * sizes[axis] + position[axis]
            left = _LEFT + number * cell
            parts.append(rectangle(left, top, cell, cell, colour))
            label = f"{chr(ord('a') + position[coloured])}{inner}"
            parts.append(text(left + cell / 2, top + cell / 2 + 4, label, min(12, cell * 0.42), "middle"))
    bottom = 8 + len(orders) * (cell + 30)
    parts.append(text(_LEFT, bottom - 4, f"letter and colour: the {called}; number: the index within it", 11, "start"))
    return svg(max(_LEFT + count * cell + 6, 420), bottom + 4, "Elements in the order of their bytes", parts)


_KINDS: Mapping[str, Callable[[Sequence[str], Graph], Picture]] = {
    "memory": _memory,
    "conflicts": _conflicts,
    "recycle": _recycle,
    "elements": _elements,
}
