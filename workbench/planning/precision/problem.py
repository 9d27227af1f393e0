"""The choice between float32 and a narrower type as a minimum cut, as that between two layouts.

An operator that runs in both types is a choice; one whose type is wanted, or that must stay in float32, is fixed.
Values that differ by a Cast between the two types are one value, which is cast once for all its readers. A Cast to
float32 of rounded numbers gives a value that exists in the narrower type already. Constants are cast before the run
and cost nothing; weights that are stored as integers are dequantized in each run, in the type of their scale. Inputs
and outputs keep their types, but for those whose type is free: such an input is a choice that costs nothing, and such
an output is in the type that its operator gives.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from workbench.ir import DataType, Graph, Node
from workbench.planning.layout.problem.cost_model import BYTES, DECIDES
from workbench.planning.precision.cast_cost import bytes_converted, computed_before_run, start_of_chain
from workbench.planning.precision.element_types import WIDE, FloatCall, is_float, is_type_cast, reads_rounded
from workbench.planning.precision.narrow_io import before_casts
from workbench.planning.precision.type_times import TypeTimes
from workbench.planning.solvers.minimum_cut import FIRST_SIDE, LAST_SIDE, Choice, CutProblem, SharedValue

_BREAKS_TIES = 2**32  # as in costs of layouts: bytes, then Casts, then operators changed


@dataclass(frozen=True)
class PrecisionProblem:
    """problem: for `solve_cut`; the first side is float32, the second the narrower type.

    nodes:    the operator of each choice; None for those that stand for a fixed type.
    complete: whether every time that is needed was measured.
    """

    problem: CutProblem
    nodes: tuple[str | None, ...]
    complete: bool


def type_side(dtype: DataType) -> int:
    return FIRST_SIDE if dtype == WIDE else LAST_SIDE


def written_side(graph: Graph, value: str) -> int:
    """The side of a value in float32 or the narrower type, as the graph is written."""
    type_ = graph.tensor_type(value)
    assert type_ is not None  # otherwise it is no operand that changes its type
    return type_side(type_.dtype)


def precision_problem(
    graph: Graph,
    calls: Mapping[str, FloatCall],
    fixed: Mapping[str, int],
    narrow: DataType,
    weigh: str,
    times: TypeTimes | None = None,
    free_border: Collection[str] = (),
) -> PrecisionProblem:
    """The problem of a graph. calls: of the operators that run in both types, by node.

    fixed: the side of those that have no choice. weigh: BYTES or COUNT of Casts, or TIME, which `times` has.
    free_border: inputs and outputs in float32 whose type is free.
    """
    return _Builder(graph, calls, fixed, narrow, weigh, times, free_border).build()


class _Builder:
    """Collects choices and values, and maps names of nodes and values to indices."""

    def __init__(
        self,
        graph: Graph,
        calls: Mapping[str, FloatCall],
        fixed: Mapping[str, int],
        narrow: DataType,
        weigh: str,
        times: TypeTimes | None,
        free_border: Collection[str],
    ) -> None:
        self.graph, self.calls, self.narrow, self.weigh, self.times = graph, calls, narrow, weigh, times
        self.complete, self.free_border = True, free_border
        self.free = computed_before_run(graph)
        self.choices = [Choice((0, None)), Choice((None, 0))]  # what has one type only, by side
        self.nodes: list[str | None] = [None, None]
        self.choice_of: dict[tuple[str, str], int] = {}  # by node and value: the choice that decides its type
        for node in graph.nodes:
            if node.name in calls:
                self._choose(node, calls[node.name], fixed.get(node.name))

    def build(self) -> PrecisionProblem:
        readers: dict[str, list[int]] = {}
        for value in self.graph.values():
            if value not in self.graph.constants and self._side(value) is not None:
                readers.setdefault(self._root(value), []).extend(self._readers(value))
        for root, of_root in readers.items():
            source = before_casts(self.graph, root, self.narrow)
            if source != root and self._is_free_input(source):  # what reads its rounded numbers in float32 keeps it so
                readers[source].extend(of_root)
        values = tuple(self._shared(root, tuple(result)) for root, result in readers.items())
        return PrecisionProblem(CutProblem(tuple(self.choices), values), tuple(self.nodes), self.complete)

    def _choose(self, node: Node, call: FloatCall, fixed: int | None) -> None:
        written = type_side(call.dtype)
        costs = list(self._operator_costs(node))
        costs[1 - written] += 1  # among equal costs, change the fewest operators
        choice = Choice((costs[0], costs[1]))
        if fixed is not None:
            choice = Choice((costs[0], None) if fixed == FIRST_SIDE else (None, costs[1]))
        index = len(self.choices)
        self.choices.append(choice)
        self.nodes.append(node.name)
        values = (*(node.inputs[i] for i in call.inputs), *(node.outputs[i] for i in call.outputs))
        self.choice_of.update({(node.name, value): index for value in values})

    def _side(self, value: str) -> int | None:
        return written_side(self.graph, value) if is_float(self.graph, value, self.narrow) else None

    def _root(self, value: str) -> str:
        """The value at which a chain of Casts between the two types starts."""
        return start_of_chain(self.graph, value, lambda node: is_type_cast(self.graph, node, self.narrow))

    def _readers(self, value: str) -> Iterator[int]:
        side = self._side(value)
        assert side is not None
        for user in self.graph.users(value):
            if not is_type_cast(self.graph, user, self.narrow):
                yield self.choice_of.get((user.name, value), side)
        if self.graph.is_output(value) and value not in self.free_border:
            yield side

    def _shared(self, root: str, readers: tuple[int, ...]) -> SharedValue:
        side, producer = self._side(root), self.graph.producer(root)
        assert side is not None
        if producer is not None and reads_rounded(self.graph, producer, self.narrow):
            side = LAST_SIDE  # where its numbers are already, so that only readers in float32 need the Cast
        if self._is_free_input(root):
            return self._free_input(root, readers)
        choice = side if producer is None else self.choice_of.get((producer.name, root), side)
        return SharedValue(choice, readers, self._cost(root, self.narrow), self._cost(root, WIDE))

    def _is_free_input(self, value: str) -> bool:
        return value in self.free_border and self.graph.is_input(value)

    def _free_input(self, root: str, readers: tuple[int, ...]) -> SharedValue:
        """An input whose readers differ is taken in float32, and cast to the narrower type once."""
        self.choices.append(Choice((0, 1)))  # among equal costs, as in the model
        self.nodes.append(None)
        cost = self._cost(root, self.narrow)
        return SharedValue(len(self.choices) - 1, readers, cost, cost)

    def _operator_costs(self, node: Node) -> tuple[int, int]:
        """In float32 and in the narrower type; 0 unless the cost is time."""
        if self.times is None:
            return 0, 0
        timed = self.times.operator(node.name)
        self.complete &= timed is not None
        wide, narrow = timed or (0, 0)
        return wide * DECIDES, narrow * DECIDES

    def _cost(self, value: str, to: DataType) -> int:
        """Of a Cast of the value to the type."""
        if value in self.free:
            return 0
        size = bytes_converted(self.graph, value, self.narrow) or 0
        if self.times is not None:
            time = self.times.cast(value, to)
            self.complete &= time is not None
            return (time or 0) * DECIDES + size * _BREAKS_TIES
        decides, breaks_ties = (size, 1) if self.weigh == BYTES else (1, size)
        return decides * DECIDES + breaks_ties * _BREAKS_TIES
