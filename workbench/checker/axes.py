"""Which axes of an operator's operands and results belong together, so that it runs in any order of them.

The axes of a value get a slot each. If an operator runs in another order of axes, the slots lie in that order in all
its operands and results; axes that share a slot, as those that a Reshape joins or splits, stay as they are.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass

from onnx import GraphProto, NodeProto

from workbench.checker.folding import small_constants
from workbench.checker.inference import called_operator, read_in_bodies
from workbench.checker.kernels import LayoutKernel
from workbench.checker.operators import (
    ELEMENTWISE_OPERATORS,
    REDUCTIONS,
    SAME_AXES,
    VIEW_OPERATORS,
    is_known,
    operator_name,
)
from workbench.checker.plain import FunctionKey
from workbench.checker.types import PlainType, sizes_of

Slots = tuple[Hashable, ...]
_FIRST, _LAST, _BLOCKS = "channels first", "channels last", "blocks"
_IN_ANY_ORDER = ("Constant", "Shape", "Size")  # which take and give a value in any


@dataclass(frozen=True)
class AxisUse:
    """An operand or result. slots: of its axes; None if the operator runs only in the order in which they stand."""

    value: str
    slots: Slots | None


class AxisUses:
    """The operands and results of the operators of a graph.

    types: by value. version: of ONNX's own operators. kernels: functions that stand in the graph as calls.
    held: operators whose order of axes a target demands. Where the graph has one of them channels first and last, it
    evidently runs in both; beside blocks of channels, it is held where these do not divide its channels.
    """

    def __init__(
        self,
        graph: GraphProto,
        types: Mapping[str, PlainType],
        version: int,
        kernels: Mapping[FunctionKey, LayoutKernel],
        held: Collection[str],
    ) -> None:
        self.types, self.version, self.kernels, self.held = types, version, kernels, held
        self.numbers = small_constants(graph)
        self.layouts: dict[str, set[str]] = {}
        self.block = max((kernel.block for kernel in kernels.values()), default=0)
        for node in graph.node:
            kernel = kernels.get(called_operator(node))
            kind = _FIRST if kernel is None else _BLOCKS if kernel.block else _LAST
            self.layouts.setdefault(operator_name(node) if kernel is None else kernel.operator, set()).add(kind)

    def of(self, node: NodeProto) -> list[AxisUse]:
        """Those with a known shape. A value is missing if the operator may take it in any order of axes."""
        uses = self._in_any_order(node)
        if uses is None:
            values = (*node.input, *node.output, *read_in_bodies(node))
            uses = [AxisUse(value, None) for value in values]
        return [use for use in uses if use.value and self._shape(use.value) is not None]

    def _shape(self, value: str) -> tuple[int, ...] | None:
        return sizes_of(self.types.get(value))

    def _in_any_order(self, node: NodeProto) -> list[AxisUse] | None:
        """None if the operator is not known, or is held."""
        kernel, name = self.kernels.get(called_operator(node)), operator_name(node)
        if self._is_held(node, name, kernel) or not (kernel or is_known(name, self.version)):
            return None
        if kernel is not None:
            return (
                [] if kernel.layout.startswith("NCHW_") else self._alike(node)
            )  # which gives other axes than it takes
        if name in ELEMENTWISE_OPERATORS:
            return list(self._broadcast(node))
        if name in VIEW_OPERATORS:
            return self._views(node)
        if name in REDUCTIONS:
            return self._reduced(node)
        if name == "Gather":
            return self._gathered(node)
        return self._alike(node) if name in SAME_AXES else [] if name in _IN_ANY_ORDER else None

    def _is_held(self, node: NodeProto, name: str, kernel: LayoutKernel | None) -> bool:
        operator = name if kernel is None else kernel.operator
        layouts = self.layouts[operator]
        if operator not in self.held or _LAST in layouts:
            return operator in self.held and len(layouts) == 1
        channels = (self._shape(node.output[0] if operator == "Conv" else node.input[0]) or (0, 0))[1:2]
        return len(layouts) == 1 or kernel is not None or any(size % self.block for size in channels)

    def _broadcast(self, node: NodeProto) -> Iterator[AxisUse]:
        """Operands of fewer axes have the last ones."""
        rank = len(self._shape(node.output[0]) or ())
        for value in (node.output[0], *(node.input[:1] if node.op_type == "CastLike" else node.input)):
            shape = self._shape(value)
            if shape is not None and len(shape) <= rank:
                yield AxisUse(value, tuple(range(rank - len(shape), rank)))

    def _alike(self, node: NodeProto) -> list[AxisUse]:
        """The first operand, or of a Concat all, and the results that have as many axes."""
        rank = len(self._shape(node.input[0]) or ())
        values = (*(node.input if node.op_type == "Concat" else node.input[:1]), *node.output)
        return [AxisUse(value, tuple(range(rank))) for value in values if len(self._shape(value) or ()) == rank]

    def _reduced(self, node: NodeProto) -> list[AxisUse]:
        shape, result = self._shape(node.input[0]), self._shape(node.output[0])
        if shape is None or result is None:
            return []
        left = list(range(len(shape)))
        if len(result) < len(shape):
            axes = self._axes(node, len(shape))
            left = [axis for axis in left if axis not in axes] if axes is not None else []
        uses = [AxisUse(node.input[0], tuple(range(len(shape))))]
        return [*uses, AxisUse(node.output[0], tuple(left))] if len(left) == len(result) else []

    def _axes(self, node: NodeProto, rank: int) -> set[int] | None:
        """Those that a reduction takes away; None if they are not known."""
        stated = {a.name: [a.i] if a.name == "axis" else list(a.ints) for a in node.attribute}
        given = self.numbers.get(node.input[1]) if len(node.input) > 1 else None
        is_arg = node.op_type in ("ArgMax", "ArgMin")
        axes = stated.get("axis", [0]) if is_arg else stated.get("axes", given)
        return None if axes is None else {axis % rank for axis in axes}

    def _gathered(self, node: NodeProto) -> list[AxisUse]:
        """The axes of the indices stand in place of one axis."""
        shape, indices = self._shape(node.input[0]), self._shape(node.input[1])
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        if shape is None or indices is None or not -len(shape) <= axis < len(shape):
            return []
        slots = tuple(range(len(shape)))
        axis %= len(shape)
        new = tuple(f"index {number}" for number in range(len(indices)))
        return [AxisUse(node.input[0], slots), AxisUse(node.output[0], (*slots[:axis], *new, *slots[axis + 1 :]))]

    def _views(self, node: NodeProto) -> list[AxisUse]:
        shape, result = self._shape(node.input[0]), self._shape(node.output[0])
        slots = None if shape is None or result is None else _joined(shape, result)
        return [] if slots is None else [AxisUse(node.input[0], slots[0]), AxisUse(node.output[0], slots[1])]


def _joined(shape: tuple[int, ...], result: tuple[int, ...]) -> tuple[Slots, Slots] | None:
    """The slots of both shapes of one memory: where axes of both end, a slot ends. None if the shapes do not have the
    same number of elements, or none."""
    if math.prod(shape) != math.prod(result) or not math.prod(shape):
        return None
    ends, ends_of_result = (list(itertools.accumulate(sizes, operator.mul)) for sizes in (shape, result))
    common = sorted({*ends} & {*ends_of_result})
    slots, slots_of_result = (
        tuple(next(slot for slot in common if slot >= end) for end in side) for side in (ends, ends_of_result)
    )
    return slots, slots_of_result
