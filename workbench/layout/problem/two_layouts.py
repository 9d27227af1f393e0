"""The choice between two layouts as a minimum cut: which operators have a choice, and what transposes cost.

Values that differ by Transposes from channels first to channels last, or back,
are one value: any of those Transposes may be kept or removed. A broadcast operand
of lower rank is reshaped, or transposed once for all its readers. Inputs, outputs,
Tensor operands, and operators whose contract has no form in the other layout are
fixed, and so are operators of which the target demands a layout. All others may
run in either. If the cost is measured time, the target's demands are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from workbench.ir import Graph, Node
from workbench.ir.permutation import Permutation, inverse, perm_of, then
from workbench.layout.conversion.convert import permuted_call
from workbench.layout.infer import PAIRS, perm_between
from workbench.layout.problem.cost_model import BYTES, TIME, Prices
from workbench.layout.problem.times import OperatorTimes
from workbench.layout.profile import Profile
from workbench.ops import NotPermutable
from workbench.ops.channels_last import plain_op
from workbench.ops.permutation.kinds import PermutedCall, lines_up
from workbench.solvers.minimum_cut import FIRST_SIDE, LAST_SIDE, Choice, CutProblem, SharedValue


@dataclass(frozen=True)
class LayoutProblem:
    """problem: for `solve_cut`.

    nodes:  the operator of each choice; None for inputs, outputs and fixed readers, which are not converted.
    own:    the side of each choice in the graph as written.
    always: the cost of transposes that no choice affects.
    inexact: why the costs are not those of the graph, in words; "" if they are.
    """

    problem: CutProblem
    nodes: tuple[str | None, ...]
    own: tuple[int, ...]
    always: int
    inexact: str


def side_of(layout: str | None) -> int | None:
    """FIRST_SIDE or LAST_SIDE for channels first or last; None for any other layout."""
    for first, last in PAIRS:
        if layout in (first, last):
            return FIRST_SIDE if layout == first else LAST_SIDE
    return None


def way_between(layout: str) -> tuple[str, Permutation]:
    """The other layout of a value that is channels first or last, and the permutation to it."""
    first, last = next(pair for pair in PAIRS if layout in pair)
    other = last if layout == first else first
    return other, perm_between(layout, other)


def layout_of_images(node: Node, layouts: Mapping[str, str]) -> str | None:
    """The layout of the first operand or result that is channels first or last; None if there is none."""
    own = (layouts.get(value, "") for value in (*node.inputs, *node.outputs))
    return next((layout for layout in own if side_of(layout) is not None), None)


def required_side(target: Profile, op: str) -> int | None:
    """The side that the target demands of an operator, if any; blocked channels count as channels first."""
    layout = target.required_layouts.get(op)
    return None if layout is None else LAST_SIDE if layout.endswith("C") else FIRST_SIDE


def is_between(graph: Graph, node: Node, layouts: dict[str, str]) -> bool:
    """Whether the node is a Transpose from channels first to channels last, or back."""
    if node.op != "Transpose" or node.inputs[0] in graph.constants:
        return False
    sides = side_of(layouts.get(node.inputs[0])), side_of(layouts.get(node.outputs[0]))
    return None not in sides and sides[0] != sides[1]


def layout_problem(graph: Graph, layouts: dict[str, str], target: Profile, weigh: str = BYTES) -> LayoutProblem:
    """The choices of `graph`; `weigh` is what to minimize: BYTES moved or the COUNT of transposes."""
    return _Builder(graph, layouts, target, Prices(graph, weigh)).build()


def timed_problem(
    graph: Graph, layouts: dict[str, str], target: Profile, times: OperatorTimes, device: str, dtype: str
) -> LayoutProblem:
    """The choices of `graph`, with the times of operators and transposes on `device` as costs; `times` is filled.

    Raises UserError if nothing can be timed there.
    """
    _Builder(graph, layouts, target, Prices(graph, TIME, times, noting=True)).build()
    times.take(device, dtype)
    return _Builder(graph, layouts, target, Prices(graph, TIME, times)).build()


class _Builder:
    """Collects choices and values, and maps names of nodes and values to indices."""

    def __init__(self, graph: Graph, layouts: dict[str, str], target: Profile, prices: Prices) -> None:
        self.graph = graph
        self.layouts = layouts
        self.target = target
        self.prices = prices
        self.choices: list[Choice] = []
        self.nodes: list[str | None] = []
        self.own: list[int] = []
        self.as_written = tuple(self._enter(None, side, _only(side, 0)) for side in (FIRST_SIDE, LAST_SIDE))
        self.choice_of: dict[tuple[str, str], int] = {}  # by node and value: the operator runs in the value's layout
        self.also_as_written: set[tuple[str, str]] = set()  # by node and value: an operand that keeps its axes
        self.lined_up: dict[tuple[str, Permutation, int], list[int]] = {}  # possible readers of the value so permuted
        self.inexact = ""

    def build(self) -> LayoutProblem:
        always = 0
        for node in self.graph.nodes:
            always += self.prices.in_bodies(node)
            if is_between(self.graph, node, self.layouts):
                continue
            chooses = self._choose(node)
            if node.op == "Transpose" and node.inputs[0] not in self.graph.constants:
                always += self._choose_result(node, chooses)
        readers: dict[str, list[int]] = {}
        for value in self.graph.values():
            if self._side(value) is None or value in self.graph.constants:
                continue
            readers.setdefault(self._root(value), []).extend(self._readers(value))
        values = [self._shared(root, tuple(result)) for root, result in readers.items()]
        values += [self._lined_up(*key, tuple(result)) for key, result in self.lined_up.items()]
        problem = CutProblem(tuple(self.choices), tuple(values))
        inexact = self.inexact or ("" if self.prices.complete else "not every operator could be timed")
        return LayoutProblem(problem, tuple(self.nodes), tuple(self.own), always, inexact)

    def _enter(self, name: str | None, own: int, choice: Choice) -> int:
        self.choices.append(choice)
        self.nodes.append(name)
        self.own.append(own)
        return len(self.choices) - 1

    def _side(self, value: str) -> int | None:
        return side_of(self.layouts.get(value))

    def _choose(self, node: Node) -> bool:
        """Enter the operator as a choice, if it can run in either layout."""
        image = next((v for v in (*node.inputs, *node.outputs) if v and self._side(v) is not None), None)
        if image is None:
            return False
        _, perm = way_between(self.layouts[image])
        try:
            carried = permuted_call(self.graph, node, perm, self.target)
        except NotPermutable:
            return False
        operands = [node.inputs[index] for index in carried.inputs]
        results = [v for v, p in zip(node.outputs, carried.outputs, strict=False) if v and self._follows(v, p)]
        follow = [v for v in (*operands, *results) if v not in self.graph.constants]
        sides = {self._side(value) for value in follow}
        own = self._side(image)
        if own is None or sides != {own}:
            return False
        index = self._enter(node.name, own, self._choice(node, own, image, perm, carried))
        self.choice_of.update({(node.name, value): index for value in follow})
        others = [v for i, v in enumerate(node.inputs) if i not in carried.inputs]
        self.also_as_written.update((node.name, value) for value in others)
        for value in {node.inputs[i] for i in carried.lined_up}:
            order, _ = lines_up(perm, self.graph.rank_of(value) or 0)
            self.lined_up.setdefault((value, order, own), []).append(index)
        return True

    def _follows(self, result: str, perm: Permutation | None) -> bool:
        """Whether `perm` changes the result from one of the two layouts to the other."""
        return self._side(result) is not None and perm == way_between(self.layouts[result])[1]

    def _choice(self, node: Node, own: int, image: str, perm: Permutation, carried: PermutedCall) -> Choice:
        moves = node.op == "Transpose"
        here, there = (0, 0) if moves else self.prices.operator(node, perm, way_between(self.layouts[image])[0])
        there += 1  # among equal costs, change the fewest operators
        for result, out in zip(node.outputs, carried.outputs, strict=False):
            if result and out is not None and not self._follows(result, out):  # it has fewer axes, and must be restored
                there += self.prices.transpose(result, inverse(out), out)
                if any(user.op == "Transpose" for user in self.graph.users(result)):
                    self.inexact = f"a Transpose after {node} would merge with the one that restores its result"
        if moves:
            here = self.prices.as_written(node)
            there = 1 + self.prices.transpose(image, (carried.attributes or {})["perm"], perm)
        demanded = self._required(node)
        if demanded is None:
            return Choice((here, there) if own == FIRST_SIDE else (there, here))
        return _only(demanded, here if demanded == own else there)

    def _choose_result(self, node: Node, chooses: bool) -> int:
        """Let a Transpose give the result in either layout. Returns its cost if that is not part of a choice."""
        value, result = node.inputs[0], node.outputs[0]
        own, perm = self._side(result), perm_of(self.graph, node)
        written = self.prices.as_written(node)
        if own is None or perm is None:
            return 0 if chooses else written
        _, way = way_between(self.layouts[result])
        other = self.prices.transpose(value, then(perm, way))
        if not chooses:
            costs = (written, other) if own == FIRST_SIDE else (other, written)
            self.choice_of[node.name, result] = self._enter(None, own, Choice(costs))
            return 0
        _, back = way_between(self.layouts[value])
        from_other = {self.prices.transpose(value, then(inverse(back), p), back) for p in (perm, then(perm, way))}
        if len({written, other, *from_other}) == 1:
            self.choice_of[node.name, result] = self._enter(None, own, Choice())
        else:  # four different costs may not be representable as a cut
            self.inexact = f"{node} gives a third order of axes, between two values that may both change"
        return 0

    def _required(self, node: Node) -> int | None:
        """The side that the operator must have."""
        return None if self.prices.weigh == TIME else required_side(self.target, plain_op(node))

    def _root(self, value: str) -> str:
        """The value at which a chain of Transposes between the two layouts starts."""
        producer = self.graph.producer(value)
        while producer is not None and is_between(self.graph, producer, self.layouts):
            value = producer.inputs[0]
            producer = self.graph.producer(value)
        return value

    def _readers(self, value: str) -> Iterator[int]:
        side = self._side(value)
        assert side is not None
        for user in self.graph.users(value):
            if is_between(self.graph, user, self.layouts):
                continue
            yield self.choice_of.get((user.name, value), self.as_written[side])
            if (user.name, value) in self.also_as_written:
                yield self.as_written[side]
        if self.graph.is_output(value):
            yield self.as_written[side]

    def _shared(self, root: str, readers: tuple[int, ...]) -> SharedValue:
        side = self._side(root)
        assert side is not None
        source = self.graph.producer(root)
        producer = None if source is None else self.choice_of.get((source.name, root))
        _, perm = way_between(self.layouts[root])
        there, back = self.prices.both_ways(root, perm)
        weights = (there, back) if side == FIRST_SIDE else (back, there)
        return SharedValue(self.as_written[side] if producer is None else producer, readers, *weights)

    def _lined_up(self, value: str, order: Permutation, own: int, readers: tuple[int, ...]) -> SharedValue:
        """A broadcast operand of lower rank, as used by readers that are not in the layout `own`."""
        weight = self.prices.transpose(value, order)
        if weight and self._side(value) is not None:  # a choice may also permute it so
            self.inexact = f"'{value}', which is broadcast, may be permuted by two choices"
        return SharedValue(self.as_written[own], readers, weight)


def _only(side: int, cost: int) -> Choice:
    return Choice((cost, None) if side == FIRST_SIDE else (None, cost))
