"""How the operators of a graph run in a narrower type: which of their operands and results are rounded, by what nodes.

A rounded value stays in float32: it is cast, or quantized, and brought back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from workbench.ir import Constant, DataType, Graph, Node
from workbench.planning.precision.element_types import WIDE, FloatCall, NotConvertible, float_call


class NewNodes:
    """New nodes, in order, each with one result, and the constants that they read."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.nodes: list[Node] = []
        self.constants: dict[str, Constant] = {}

    def add(self, op: str, *inputs: str, **attributes: int | float | Graph) -> str:
        name = f"{self.prefix}_{len(self.nodes)}"
        self.nodes.append(Node(op, inputs, (name,), attributes, name=name))
        return name


class Rounding(ABC):
    """Which values of one graph are rounded, and how.

    compares_outputs: whether operators that stay as they are count too, where they give an output of the graph.
    """

    compares_outputs: ClassVar[bool] = False

    @abstractmethod
    def call(self, graph: Graph, node: Node) -> FloatCall | None:
        """The operands and results of the operator that are rounded; None if it stays as it is."""

    @abstractmethod
    def round(self, new: NewNodes, value: str, of: str) -> str:
        """Add the nodes that round a value; the result's name. of: the value of the graph for which it stands."""

    def is_shared(self, value: str) -> bool:
        """Whether every reader of this value gets it rounded, also one that stays as it is."""
        return False

    def part_that_counts(self, new: NewNodes, result: str) -> str:
        """The result as it is compared with the rounded one."""
        return result


@dataclass(frozen=True)
class CastRounding(Rounding):
    """Operators that run in float32 and may run in `narrow` by their schemas; all their floats are cast to it."""

    narrow: DataType

    def call(self, graph: Graph, node: Node) -> FloatCall | None:
        try:
            call = float_call(graph, node, self.narrow)
        except NotConvertible:
            return None
        return call if call.dtype == WIDE else None

    def round(self, new: NewNodes, value: str, of: str) -> str:
        return new.add("Cast", new.add("Cast", value, to=self.narrow.value), to=WIDE.value)
