"""The choice of NCHW, NHWC or blocked channels for every operator, as an integer program.

A conversion between any two of the three is one Transpose, with Reshapes that cost nothing; a value
costs one for each layout in which it is read and not computed. Values that differ by existing conversions
are one value. Inputs and outputs of the graph, values that bodies read, operators without another form,
and operators whose layout the target demands are fixed. Constants, and values computed from
constants only, cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from workbench.analysis.metrics.transpose_cost import computed_from_constants
from workbench.ir import Graph, Node
from workbench.ir.permutation import Permutation, identity, permuted
from workbench.ops import NotPermutable
from workbench.ops.blocked import block_of
from workbench.ops.channels_last import KERNELS, plain_op, stored_weights, weight_reordering
from workbench.ops.permutation.kinds import alignment_of
from workbench.ops.permuted_blocks import blocked_form
from workbench.planning.layout.conversion.convert import order_of_weight, permuted_call
from workbench.planning.layout.problem.image_layouts import layout_of_images, other_layout, required_side, side_of
from workbench.planning.layout.problem.orders import CHANGED, FREE, always_paid, weight_of
from workbench.planning.layout.problem.tiled_axes import (
    BLOCKED,
    Axes,
    is_conversion,
    lengths,
    letters_in_memory,
    members_of,
    tiled_axes,
)
from workbench.planning.layout.profile import Profile
from workbench.planning.solvers.integer_program import Form, IntegerProgram, OrderedValue

BLOCK: Literal["blocked"] = "blocked"
OperandLayout = Permutation | Literal["blocked"] | None  # how a form permutes its operands; None: as written
_Use = tuple[str, Axes]  # a root, and the axes with which it is computed or read


@dataclass(frozen=True)
class BlockProblem:
    """problem: for `solve_integer_program`.

    nodes:           the operator of each choice; None for inputs and outputs.
    operand_layouts: for each form of each choice, how its operands are permuted.
    always:          the cost of transposes that no choice affects.
    refused:         operators without the blocked form that the target demands, each with a sentence that says why.
    """

    problem: IntegerProgram
    nodes: tuple[str | None, ...]
    operand_layouts: tuple[tuple[OperandLayout, ...], ...]
    always: int
    refused: dict[str, str]


def block_problem(graph: Graph, layouts: dict[str, str], target: Profile, block: int, weigh: str) -> BlockProblem:
    """The choices of `graph` for blocks of `block` channels.

    weigh: what to minimize, bytes moved or the count of transposes.
    """
    return _Builder(graph, layouts, target, block, weigh).build()


def _without_duplicates(forms: dict[OperandLayout, Form]) -> dict[OperandLayout, Form]:
    """The forms, without those that need and give the same values as an earlier one."""
    first: dict[tuple[Any, ...], OperandLayout] = {}
    for operand_layout, form in forms.items():
        first.setdefault((form.gives, form.needs), operand_layout)
    return {operand_layout: forms[operand_layout] for operand_layout in first.values()}


class _Builder:
    """Collects the forms of every operator, and maps values to indices."""

    def __init__(self, graph: Graph, layouts: dict[str, str], target: Profile, block: int, weigh: str) -> None:
        self.graph = graph
        self.layouts = layouts
        self.target = target
        self.block = block
        self.weigh = weigh
        self.fixed = computed_from_constants(graph)
        self.tiled = tiled_axes(graph, layouts, block)
        members = {root: axes for root, axes in members_of(self.tiled).items() if root not in self.fixed}
        self.index = {root: number for number, root in enumerate(members)}
        self.lengths = {root: lengths(graph, root, axes, block, weigh) for root, axes in members.items()}
        self.weights = tuple(weight_of(graph, root, axes, weigh) for root, axes in members.items())
        self.refused: dict[str, str] = {}

    def build(self) -> BlockProblem:
        inputs = Form(FREE, gives=self._used(self._as_written(self.graph.inputs)))
        outputs = Form(FREE, needs=self._used(self._as_written(self.graph.outputs)))
        choices: list[tuple[Form, ...]] = [(inputs,), (outputs,)]
        nodes: list[str | None] = [None, None]
        operand_layouts: list[tuple[OperandLayout, ...]] = [(None,), (None,)]
        for node in self.graph.nodes:
            if node.outputs and is_conversion(node, self.tiled):
                continue
            forms = self._forms(node)
            choices.append(tuple(forms.values()))
            nodes.append(node.name)
            operand_layouts.append(tuple(forms))
        always = always_paid(self.graph, self.fixed, self.weigh)
        return BlockProblem(
            IntegerProgram(tuple(choices), self.weights), tuple(nodes), tuple(operand_layouts), always, self.refused
        )

    def _forms(self, node: Node) -> dict[OperandLayout, Form]:
        """The forms from which the operator may choose: the one that the target demands, or all."""
        layout = layout_of_images(node, self.layouts)
        written: dict[OperandLayout, Form] = {None: self._written_form(node)}
        if layout is None:
            return written
        demanded = self.target.required_layouts.get(plain_op(node))
        transposed = self._transposed_form(node, layout)
        if demanded is None:
            blocked = self._blocked_form(node, layout)
            return _without_duplicates(written | (blocked | transposed if self.target.block else transposed | blocked))
        if block_of(demanded) is not None:
            only_blocked = self._blocked_form(node, layout)
            if only_blocked:
                return only_blocked
        return written if side_of(layout) == required_side(self.target, plain_op(node)) else transposed or written

    def _written_form(self, node: Node) -> Form:
        gives = self._as_written(value for value in node.outputs if value)
        return Form(FREE, self._used(gives), self._used(self._as_written(node.operands)))

    def _transposed_form(self, node: Node, layout: str) -> dict[OperandLayout, Form]:
        """The form with channels last instead of first, or first instead of last, if there is one."""
        _, perm = other_layout(layout)
        try:
            call = permuted_call(self.graph, node, perm, self.target)
        except NotPermutable:
            return {}
        if any(self.graph.rank_of(node.inputs[index]) != len(perm) for index in call.inputs):
            return {}  # the image operand supplies only a type or a bound, like the second of CastLike
        orders = list(zip(node.outputs, call.outputs, strict=False))
        if any(value and order is not None and self.graph.rank_of(value) != len(order) for value, order in orders):
            return {}  # a result of unknown rank cannot be permuted
        inputs: dict[int, Permutation] = dict.fromkeys(call.inputs, perm)
        inputs |= {i: alignment_of(perm, self.graph.rank_of(node.inputs[i]) or 0)[0] for i in call.aligned_inputs}
        if plain_op(node) in KERNELS:
            stored, order = stored_weights(node), order_of_weight(node, call, self.target)
            if order != stored:
                inputs[1] = weight_reordering(stored, order, len(perm))
        transposed = {index: permuted(self._axes(node.inputs[index]), order) for index, order in inputs.items()}
        results = [
            self._axes(value) if order is None else permuted(self._axes(value), order) for value, order in orders
        ]
        return {perm: self._changed_form(node, transposed, results)}

    def _blocked_form(self, node: Node, layout: str) -> dict[OperandLayout, Form]:
        """The form on blocked images, if there is one."""
        try:
            form = blocked_form(self.graph, node, layout, self.block)
        except NotPermutable as error:
            if block_of(self.target.required_layouts.get(plain_op(node), "")) is not None:
                self.refused[node.name] = str(error)
            return {}
        results = [v for v, is_blocked in zip(node.outputs, form.outputs, strict=False) if v and is_blocked]
        images = [*(node.inputs[index] for index in form.inputs), *results]
        if any(value in self.fixed or self.layouts.get(value) != layout for value in images):
            return {}
        if not all(self.tiled[value].is_image for value in images):
            return {}
        blocked = dict.fromkeys(form.inputs, BLOCKED)
        return {
            BLOCK: self._changed_form(node, blocked, [BLOCKED if v in results else self._axes(v) for v in node.outputs])
        }

    def _changed_form(self, node: Node, transposed: dict[int, Axes], results: list[Axes]) -> Form:
        """The operator on operands with other axes, with these results."""
        needs = [
            (self.tiled[value].root, transposed.get(index, self._axes(value)))
            for index, value in enumerate(node.inputs)
            if value in self.tiled
        ]
        needs += self._as_written(value for value in node.operands if value not in node.inputs)
        gives = [(value, axes) for value, axes in zip(node.outputs, results, strict=False) if value]
        return Form(CHANGED, self._used(gives), self._used(needs))

    # ---- values ------------------------------------------------------------------------

    def _axes(self, value: str) -> Axes:
        """The axes of a value; those of a constant do not matter."""
        tiled = self.tiled.get(value)
        return tuple(map(str, identity(self.graph.rank_of(value) or 0))) if tiled is None else tiled.axes

    def _as_written(self, values: Iterable[str]) -> list[_Use]:
        return [(self.tiled[value].root, self.tiled[value].axes) for value in values if value in self.tiled]

    def _used(self, uses: list[_Use]) -> tuple[OrderedValue, ...]:
        """The values as indices, without those that cost nothing."""
        counted = [(root, axes) for root, axes in uses if root in self.index]
        return tuple((self.index[root], letters_in_memory(axes, self.lengths[root])) for root, axes in counted)
