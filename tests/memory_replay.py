"""Plays a memory plan byte by byte, knowing nothing of lifetimes: each operator reads what it should, or the plan is
wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from workbench.analysis.inference.bound_shapes import bound_shape
from workbench.ir import Graph, Node
from workbench.planning.memory.planning import MemoryPlan, PlannedValue


class Wrong(AssertionError):
    """An operator reads bytes that another value has overwritten."""


def replay(graph: Graph, plan: MemoryPlan, order: Sequence[Node] | None = None) -> None:
    """Runs the steps of a plan of a graph without bodies on numbers that name bytes. Raises Wrong.

    order: of the nodes, by default that of the plan.
    """
    player = _Player(graph, plan)
    for node in [step.node for step in plan.sharing.lifetimes.steps] if order is None else order:
        player.run(node)
    for value in graph.outputs:
        player.read(value, "the caller")


class _Player:
    def __init__(self, graph: Graph, plan: MemoryPlan) -> None:
        self.graph = graph
        self.values: Mapping[str, PlannedValue] = {value.name: value for value in plan.values}
        self.arena = np.zeros(plan.packed.total, np.int32)
        self.content: dict[str, np.ndarray] = {}  # the right bytes of each value, as numbers that occur once
        self.count = 1
        for value in plan.values:
            if not value.kind.lies_in_arena and value.bytes is not None:
                self.content[value.name] = self.fresh(value.bytes)

    def fresh(self, size: int) -> np.ndarray:
        self.count += size
        return np.arange(self.count - size, self.count, dtype=np.int32)

    def run(self, node: Node) -> None:
        made = [self.values[value] for value in node.outputs if value]
        if not all(value.how == "view" for value in made):  # what makes only views touches no memory
            for value in dict.fromkeys(filter(None, node.operands)):
                self.read(value, str(node))
        for value in filter(None, node.outputs):
            self.content[value] = self.result(node, value)
            self.write(node, value)

    def read(self, value: str, reader: str) -> None:
        place = self.values[value].offset
        if place is None:
            return
        right = self.content[value]
        wrong = np.flatnonzero(self.arena[place : place + len(right)] != right)
        if len(wrong):
            raise Wrong(f"{reader} reads '{value}', of which {len(wrong):,} bytes hold something else")

    def result(self, node: Node, value: str) -> np.ndarray:
        """What moves bytes unchanged has those of its operands."""
        size = self.values[value].bytes
        assert size is not None
        if node.op in ("Reshape", "Identity", "Flatten", "Squeeze", "Unsqueeze"):
            return self.content[node.inputs[0]]
        if node.op in ("Concat", "Slice", "Split") or (node.op == "Transpose" and self.values[value].alias_of):
            return self.moved(node, value)
        return self.fresh(size)

    def moved(self, node: Node, value: str) -> np.ndarray:
        arrays = [self.array(operand) for operand in node.inputs if operand]
        axis = node.attr("axis", 0)
        if node.op == "Concat":
            return np.concatenate(arrays, axis).ravel()
        if node.op == "Split":
            sizes = [bound_shape(self.graph, part)[axis] for part in node.outputs]
            place = node.outputs.index(value)
            return np.split(arrays[0], np.cumsum(sizes)[:-1], axis)[place].ravel()
        if node.op == "Transpose":
            return arrays[0].transpose((*node.attr("perm"), arrays[0].ndim - 1)).ravel()
        starts, ends, *more = [self.graph.constants[v].numpy().ravel() for v in node.inputs[1:]]
        axes, steps = more[0] if more else range(len(starts)), more[1] if len(more) > 1 else [1] * len(starts)
        chosen = [slice(None)] * arrays[0].ndim
        for one, start, end, step in zip(axes, starts, ends, steps, strict=True):
            chosen[one] = slice(start, end, step)
        return arrays[0][tuple(chosen)].ravel()

    def array(self, value: str) -> np.ndarray:
        """The bytes by element."""
        shape = bound_shape(self.graph, value)
        return self.content[value].reshape(*shape, -1) if len(self.content[value]) else np.zeros((*shape, 1), np.int32)

    def write(self, node: Node, value: str) -> None:
        """Bytes that are there already need not be moved; what computes writes all of its result."""
        place = self.values[value].offset
        if place is None:
            return
        right = self.content[value]
        if node.op == "Concat" and not any(
            size > 1 for size in bound_shape(self.graph, value)[: self.axis(node, value)]
        ):
            begin = 0
            for operand in node.inputs:
                size = len(self.content[operand])
                if not self.lies_at(operand, place + begin):
                    self.arena[place + begin : place + begin + size] = self.content[operand]
                begin += size
        elif self.values[value].how != "view":
            self.arena[place : place + len(right)] = right

    def axis(self, node: Node, value: str) -> int:
        return node.attr("axis", 0) % len(bound_shape(self.graph, value))

    def lies_at(self, value: str, place: int) -> bool:
        return self.values[value].offset == place
