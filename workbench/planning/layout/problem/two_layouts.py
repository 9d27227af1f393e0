"""The choice between two layouts as a minimum cut: which operators have a choice, and what transposes cost.

Values that differ by Transposes from channels first to channels last, or back,
are one value: any of those Transposes may be kept or removed. A broadcast operand
of lower rank is reshaped, or transposed once for all its readers. Inputs, outputs
and operands without an image layout are fixed. So are operators whose contract has no form in the
other layout, and operators whose layout the target demands. All others may
run in either. If the cost is measured time, the target's demands are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from workbench.analysis.metrics.transpose_cost import computed_from_constants
from workbench.ir import Graph, Node
from workbench.ir.permutation import Permutation, compose, inverse, perm_of
from workbench.ops import NotPermutable
from workbench.ops.channels_last import plain_op
from workbench.ops.permutation.kinds import PermutedCall, alignment_of
from workbench.planning.layout.conversion.convert import permuted_call
from workbench.planning.layout.infer import PAIRS, infer_layouts, perm_between
from workbench.planning.layout.problem.cost_model import BYTES, TIME, Prices, without_reshapes
from workbench.planning.layout.problem.times import OperatorTimes
from workbench.planning.layout.profile import Profile
from workbench.planning.solvers.minimum_cut import FIRST_SIDE, LAST_SIDE, Choice, CutProblem, SharedValue


@dataclass(frozen=True)
class LayoutProblem:
    """problem: for `solve_cut`.

    nodes:         the operator of each choice; None for inputs, outputs and fixed readers, which are not converted.
    written_sides: the side of each choice in the graph as written.
    always:        the cost of transposes that no choice affects.
    inexact:       why the costs are not those of the graph, as a clause; "" if they are.
    """

    problem: CutProblem
    nodes: tuple[str | None, ...]
    written_sides: tuple[int, ...]
    always: int
    inexact: str


def side_of(layout: str | None) -> int | None:
    """FIRST_SIDE or LAST_SIDE for channels first or last; None for any other layout."""
    for first, last in PAIRS:
        if layout in (first, last):
            return FIRST_SIDE if layout == first else LAST_SIDE
    return None


def other_layout(layout: str) -> tuple[str, Permutation]:
    """For a layout with channels first or last, the other of the two and the permutation to it."""
    first, last = next(pair for pair in PAIRS if layout in pair)
    result = last if layout == first else first
    return result, perm_between(layout, result)


def layout_of_images(node: Node, layouts: Mapping[str, str]) -> str | None:
    """The layout of the first operand or result with channels first or last; None if there is none."""
    known = (layouts.get(value, "") for value in (*node.inputs, *node.outputs))
    return next((layout for layout in known if side_of(layout) is not None), None)


def required_side(target: Profile, op: str) -> int | None:
    """The side that the target demands of an operator, if any; blocked channels count as channels first."""
    layout = target.required_layouts.get(op)
    return None if layout is None else LAST_SIDE if layout.endswith("C") else FIRST_SIDE


def converts_layout(graph: Graph, node: Node, layouts: dict[str, str]) -> bool:
    """Whether the node is a Transpose from channels first to channels last, or back."""
    if node.op != "Transpose" or node.inputs[0] in graph.constants:
        return False
    sides = side_of(layouts.get(node.inputs[0])), side_of(layouts.get(node.outputs[0]))
    return None not in sides and sides[0] != sides[1]


def orders_beyond(graph: Graph) -> str:
    """The orders of axes besides channels first and last that the graph's Transposes make, as a subject for
    `LayoutFacts.beyond`; "" if there are none."""
    layouts = infer_layouts(graph, through_reshapes=True)
    fixed = computed_from_constants(graph)
    others = (node for node in graph.nodes_of(("Transpose",)) if node.inputs[0] not in fixed)
    if all(converts_layout(graph, node, layouts) for node in others):
        return ""
    return "other orders of axes, which optimal-any-order searches,"


def start_of_chain(graph: Graph, value: str, converts: Callable[[Node], bool]) -> str:
    """The value from which a chain of nodes that convert it, each with one operand, leads to `value`."""
    producer = graph.producer(value)
    while producer is not None and converts(producer):
        value = producer.inputs[0]
        producer = graph.producer(value)
    return value


def layout_problem(graph: Graph, layouts: dict[str, str], target: Profile, weigh: str = BYTES) -> LayoutProblem:
    """The choices of `graph`; `weigh` is what to minimize: BYTES moved or the COUNT of transposes."""
    return _Builder(graph, layouts, target, Prices(graph, weigh)).build()


def timed_problem(
    graph: Graph, layouts: dict[str, str], target: Profile, times: OperatorTimes, device: str, dtype: str
) -> LayoutProblem:
    """The choices of `graph`, with the times of operators and transposes on `device` as costs; `times` is filled.

    Raises UserError if nothing can be timed there.
    """
    # This first build only records which times are needed.
    _Builder(graph, layouts, target, Prices(graph, TIME, times, requesting=True)).build()
    times.measure(device, dtype)
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
        self.written_sides: list[int] = []
        self.fixed = tuple(self._add_choice(None, side, _only(side, 0)) for side in (FIRST_SIDE, LAST_SIDE))
        self.choice_of: dict[
            tuple[str, str], int
        ] = {}  # by node and value: the choice on which the value's layout depends
        self.also_as_written: set[tuple[str, str]] = set()  # by node and value: an operand that keeps its axes
        self.aligned_inputs: dict[
            tuple[str, Permutation, int], list[int]
        ] = {}  # by value, permutation and side: choices that may read it permuted
        self.inexact = ""

    def build(self) -> LayoutProblem:
        always = 0
        for node in self.graph.nodes:
            always += self.prices.cost_in_bodies(node)
            if converts_layout(self.graph, node, self.layouts):
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
        values += [self._aligned_input(*key, tuple(result)) for key, result in self.aligned_inputs.items()]
        problem = CutProblem(tuple(self.choices), tuple(values))
        inexact = self.inexact or ("" if self.prices.complete else "not every operator could be timed")
        return LayoutProblem(problem, tuple(self.nodes), tuple(self.written_sides), always, inexact)

    def _add_choice(self, name: str | None, written_side: int, choice: Choice) -> int:
        self.choices.append(choice)
        self.nodes.append(name)
        self.written_sides.append(written_side)
        return len(self.choices) - 1

    def _side(self, value: str) -> int | None:
        return side_of(self.layouts.get(value))

    def _choose(self, node: Node) -> bool:
        """Enter the operator as a choice, if it can run in either layout."""
        image = next((v for v in (*node.inputs, *node.outputs) if v and self._side(v) is not None), None)
        if image is None:
            return False
        _, perm = other_layout(self.layouts[image])
        try:
            call = permuted_call(self.graph, node, perm, self.target)
        except NotPermutable:
            return False
        operands = [node.inputs[index] for index in call.inputs]
        results = [v for v, p in zip(node.outputs, call.outputs, strict=False) if v and self._follows(v, p)]
        following = [v for v in (*operands, *results) if v not in self.graph.constants]
        sides = {self._side(value) for value in following}
        side = self._side(image)
        if side is None or sides != {side}:
            return False
        index = self._add_choice(node.name, side, self._choice(node, side, image, perm, call))
        self.choice_of.update({(node.name, value): index for value in following})
        unpermuted = [v for i, v in enumerate(node.inputs) if i not in call.inputs]
        self.also_as_written.update((node.name, value) for value in unpermuted)
        for value in {node.inputs[i] for i in call.aligned_inputs}:
            order, _ = alignment_of(perm, self.graph.rank_of(value) or 0)
            self.aligned_inputs.setdefault((value, order, side), []).append(index)
        return True

    def _follows(self, result: str, perm: Permutation | None) -> bool:
        """Whether `perm` changes the result from one of the two layouts to the other."""
        return self._side(result) is not None and perm == other_layout(self.layouts[result])[1]

    def _choice(self, node: Node, side: int, image: str, perm: Permutation, call: PermutedCall) -> Choice:
        is_transpose = node.op == "Transpose"
        cost_written, cost_other = (
            (0, 0) if is_transpose else self.prices.operator(node, perm, other_layout(self.layouts[image])[0])
        )
        cost_other += 1  # among equal costs, change the fewest operators
        for result, out_perm in zip(node.outputs, call.outputs, strict=False):
            if (
                result and out_perm is not None and not self._follows(result, out_perm)
            ):  # it has other axes, and a Transpose restores it
                cost_other += self.prices.transpose(result, inverse(out_perm), out_perm)
                if any(user.op == "Transpose" for user in self.graph.users(result)):
                    self.inexact = f"a Transpose after {node} would merge with the one that restores its result"
        if is_transpose:
            cost_written = self.prices.cost_as_written(node)
            cost_other = 1 + self.prices.transpose(image, (call.attributes or {})["perm"], perm)
        demanded = self._required(node)
        if demanded is None:
            return Choice((cost_written, cost_other) if side == FIRST_SIDE else (cost_other, cost_written))
        return _only(demanded, cost_written if demanded == side else cost_other)

    def _choose_result(self, node: Node, chooses: bool) -> int:
        """Let a Transpose give the result in either layout. Returns its cost if that is not part of a choice."""
        value, result = node.inputs[0], node.outputs[0]
        side, perm = self._side(result), perm_of(self.graph, node)
        written = self.prices.cost_as_written(node)
        if side is None or perm is None:
            return 0 if chooses else written
        _, to_other = other_layout(self.layouts[result])
        other = self.prices.transpose(value, compose(perm, to_other))
        if not chooses:
            costs = (written, other) if side == FIRST_SIDE else (other, written)
            self.choice_of[node.name, result] = self._add_choice(None, side, Choice(costs))
            return 0
        _, from_value = other_layout(self.layouts[value])
        from_other = {
            self.prices.transpose(value, compose(inverse(from_value), p), from_value)
            for p in (perm, compose(perm, to_other))
        }
        if len(set(map(without_reshapes, (written, other, *from_other)))) == 1:
            self.choice_of[node.name, result] = self._add_choice(None, side, Choice())
        else:  # four different costs may not be representable as a cut
            self.inexact = f"{node} converts to neither layout, and both its operand and its result may change"
        return 0

    def _required(self, node: Node) -> int | None:
        """The side that the operator must have."""
        return None if self.prices.weigh == TIME else required_side(self.target, plain_op(node))

    def _root(self, value: str) -> str:
        """The value at which a chain of Transposes between the two layouts starts."""
        return start_of_chain(self.graph, value, lambda node: converts_layout(self.graph, node, self.layouts))

    def _readers(self, value: str) -> Iterator[int]:
        side = self._side(value)
        assert side is not None
        for user in self.graph.users(value):
            if converts_layout(self.graph, user, self.layouts):
                continue
            yield self.choice_of.get((user.name, value), self.fixed[side])
            if (user.name, value) in self.also_as_written:
                yield self.fixed[side]
        if self.graph.is_output(value):
            yield self.fixed[side]

    def _shared(self, root: str, readers: tuple[int, ...]) -> SharedValue:
        side = self._side(root)
        assert side is not None
        source = self.graph.producer(root)
        producer = None if source is None else self.choice_of.get((source.name, root))
        _, perm = other_layout(self.layouts[root])
        to_other, from_other = self.prices.both_directions(root, perm)
        weights = (to_other, from_other) if side == FIRST_SIDE else (from_other, to_other)
        return SharedValue(self.fixed[side] if producer is None else producer, readers, *weights)

    def _aligned_input(self, value: str, order: Permutation, side: int, readers: tuple[int, ...]) -> SharedValue:
        """A broadcast operand of lower rank, as read by choices on the side opposite to `side`."""
        weight = self.prices.transpose(value, order)
        if without_reshapes(weight) and self._side(value) is not None:  # a choice may also permute it
            self.inexact = f"'{value}', which is broadcast, may be permuted by two choices"
        return SharedValue(self.fixed[side], readers, weight)


def _only(side: int, cost: int) -> Choice:
    return Choice((cost, None) if side == FIRST_SIDE else (None, cost))
