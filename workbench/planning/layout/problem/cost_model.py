"""The cost of a choice of layouts, in bytes moved, transposes, or measured time.

A cost is one integer with four fields, from the highest bits down: the main
cost, a tie-breaker, the number of Reshapes in place of a Transpose that moves
no element, and the number of operators changed.
"""

from __future__ import annotations

import math

from workbench.analysis.inference.bound_shapes import bound_shape
from workbench.analysis.metrics.transpose_cost import count_transposes, element_bytes, moved_by_node
from workbench.ir import Graph, Node
from workbench.ir.permutation import Permutation, inverse, is_identity, moves_data, perm_of, permuted
from workbench.planning.layout.problem.times import OperatorTimes

BYTES, COUNT, TIME = "bytes", "count", "time"
DECIDES, _BREAKS_TIES, _RESHAPED = 2**128, 2**64, 2**32  # each larger than any sum of the lower fields


def in_unit(cost: int) -> int:
    """The main part of a cost: bytes, transposes or nanoseconds."""
    return cost // DECIDES


def tie_break(cost: int) -> int:
    """The tie-breaking part of a cost: transposes if the main part is bytes, else bytes."""
    return cost % DECIDES // _BREAKS_TIES


def without_reshapes(cost: int) -> int:
    """A cost in its first two fields alone."""
    return cost // _BREAKS_TIES * _BREAKS_TIES


class Prices:
    """Costs of the transposes and operators of one graph.

    times:      the measured times, if the cost is time.
    requesting: only request from `times` what will be needed; all costs are then 0.
    """

    def __init__(self, graph: Graph, weigh: str, times: OperatorTimes | None = None, requesting: bool = False) -> None:
        self.graph = graph
        self.weigh = weigh
        self.times = times
        self.requesting = requesting
        self.complete = True  # whether everything that was needed was timed

    def transpose(self, value: str, perm: Permutation, applied: Permutation | None = None) -> int:
        """A Transpose by `perm` of `value`, already transposed by `applied`, or the Reshape that moves no element."""
        if is_identity(perm):
            return 0
        shape = bound_shape(self.graph, value)
        if shape is None or len(shape) != len(perm):
            return self._cost(value, perm, applied, None)
        permuted_shape = shape if applied is None else permuted(shape, applied)
        return self._cost(value, perm, applied, math.prod(shape) if moves_data(perm, permuted_shape) else 0)

    def cost_as_written(self, node: Node) -> int:
        """The cost of the Transpose `node` as written."""
        perm = perm_of(self.graph, node)
        return 0 if perm is None else self._cost(node.inputs[0], perm, None, moved_by_node(self.graph, node))

    def cost_in_bodies(self, node: Node) -> int:
        """The cost of the transposes in the node's bodies, which stay; if the cost is time, only to break ties."""
        counts = [count_transposes(body) for body in node.bodies.values()]
        size, transposes = sum(c.bytes_moved for c in counts), sum(c.transposes for c in counts)
        if self.weigh == TIME:
            return size * _BREAKS_TIES
        decides, breaks_ties = (size, transposes) if self.weigh == BYTES else (transposes, size)
        return decides * DECIDES + breaks_ties * _BREAKS_TIES

    def operator(self, node: Node, perm: Permutation, layout: str) -> tuple[int, int]:
        """The node as written and on operands transposed by `perm`; 0 unless the cost is time."""
        if self.times is None:
            return 0, 0
        if self.requesting:
            self.times.request_operator(node, perm, layout)
            return 0, 0
        result = self.times.operator(node.name)
        self.complete &= result is not None
        written, other = result or (0, 0)
        return written * DECIDES, other * DECIDES

    def both_directions(self, value: str, perm: Permutation) -> tuple[int, int]:
        """The costs of transposing `value` by `perm`, and back."""
        return self.transpose(value, perm), self.transpose(value, inverse(perm), perm)

    def _cost(self, value: str, perm: Permutation, applied: Permutation | None, moved: int | None) -> int:
        if moved == 0:
            return _RESHAPED
        size = (moved or 0) * element_bytes(self.graph, value)
        if self.times is not None:
            return self._time(value, perm, applied) * DECIDES + size * _BREAKS_TIES
        decides, breaks_ties = (size, 1) if self.weigh == BYTES else (1, size)
        return decides * DECIDES + breaks_ties * _BREAKS_TIES

    def _time(self, value: str, perm: Permutation, applied: Permutation | None) -> int:
        assert self.times is not None
        if self.requesting:
            self.times.request_transpose(value, perm, applied)
            return 0
        result = self.times.transpose(value, perm, applied)
        self.complete &= result is not None
        return result or 0
