"""Converts one node to another layout, as an edit that preserves what the graph computes.

A converted node reads permuted operands and returns permuted results; a
Transpose after each result restores the old order for its remaining users.
The next node converted reads the permuted result, and a restoring Transpose
that becomes unused is removed in the same edit. So transposes move down the
graph one rewrite at a time, and the graph is correct after each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from workbench.ir import Constant, Edit, Graph, Node, ValueType, constant, constant_shape
from workbench.ir.permutation import Permutation, inverse, is_identity, moves_data, perm_of, permuted, permuted_constant
from workbench.layout.conversion.reshape import reshape_to
from workbench.layout.profile import Profile
from workbench.metrics.transpose_cost import elements, moved_by
from workbench.ops import NotPermutable, PermutedCall, layout_of
from workbench.ops.channels_last import (
    DOMAIN,
    GIVES_KERNEL,
    KERNELS,
    WEIGHT_AXES,
    channels_last_op,
    plain_op,
    stored_weights,
    weight_permutation,
    weight_way,
)
from workbench.ops.permutation.kinds import lines_up

RESTORES = "workbench.restores"  # metadata of a Transpose that a strategy inserted after a converted node: the value
REASON = "workbench.reason"  # metadata of such a Transpose that stays: the sentence that says why


@dataclass
class Conversion:
    """The edit, and for the sentence what it does with the operands.

    moved:    operands that a new Transpose permutes, with the number of elements; None if unknown.
    at_hand:  operands of which the permuted value exists already.
    weight:   what is done with the weight; "" if nothing.
    lined_up: operands of lower rank that are reshaped, with their new shape in words.
    """

    edit: Edit
    moved: dict[str, int | None] = field(default_factory=dict)
    at_hand: tuple[str, ...] = ()
    weight: str = ""
    lined_up: dict[str, str] = field(default_factory=dict)

    def said(self) -> str:
        """What moves, and what is done with other operands."""
        moved = ", ".join(f"'{value}' is transposed, {elements(number)}" for value, number in self.moved.items())
        return f"{moved or 'nothing moved'}{self.others_said()}"

    def others_said(self) -> str:
        """What is done with operands of lower rank, and with the weight."""
        reshaped = "".join(f"; '{value}' is reshaped to {shape}" for value, shape in self.lined_up.items())
        return f"{reshaped}; {self.weight}" if self.weight else reshaped


def why_there(node: Node, where: str, target: Profile) -> str:
    """Why a strategy with a cost model runs the node `where`: "in NHWC"."""
    return f"is demanded {where}" if plain_op(node) in target.required_layouts else f"runs {where}, which costs least"


def is_only_reader(graph: Graph, node: Node, value: str) -> bool:
    """Whether the node is the only user of `value`, which is not an output of the graph."""
    return graph.users(value) == (node,) and not graph.is_output(value)


def at_hand(graph: Graph, value: str, perm: Permutation, reader: Node | None) -> str | None:
    """An existing value that equals `value` transposed by `perm` and is not a result of `reader`, if there is one."""
    producer = graph.producer(value)
    if producer is not None and producer.op == "Transpose" and perm_of(graph, producer) == inverse(perm):
        return producer.inputs[0]
    for user in graph.users(value):
        if user.op == "Transpose" and user != reader and perm_of(graph, user) == perm:
            return user.outputs[0]
    return None


def pending(graph: Graph, value: str, perm: Permutation) -> Node | None:
    """The Transpose that restores `value` from its permuted form, if that is its producer."""
    producer = graph.producer(value)
    if producer is None or producer.op != "Transpose" or perm_of(graph, producer) != inverse(perm):
        return None
    return producer


def convert(
    graph: Graph, node: Node, perm: Permutation, layout: str, target: Profile, *, reuse: bool = True
) -> Conversion:
    """The conversion of the node to operands permuted by `perm`, which gives `layout`.

    reuse: use existing permuted values; if false, each operand gets a new Transpose.
    Raises NotPermutable with a sentence if the operator cannot run on permuted operands.
    """
    carried = permuted_call(graph, node, perm, target)
    other = next((node.inputs[i] for i in carried.inputs if graph.rank_of(node.inputs[i]) != len(perm)), None)
    if other is not None:  # its CNN operand only gives a type or a bound, as CastLike's second does
        raise NotPermutable(f"operand '{other}' of {node} has other axes")
    work = _Work(graph, layout, node, reuse)
    inputs = list(node.inputs)
    for index in carried.inputs:
        inputs[index] = work.permuted_operand(node.inputs[index], perm)
    for index in carried.lined_up:
        inputs[index] = work.lined_up_operand(node.inputs[index], perm)
    op_type = carried.op_type or node.op_type
    domain = node.domain if carried.domain is None else carried.domain
    constants = dict(carried.constants)
    weight, order = "", order_of_weight(node, carried, target)
    stored = stored_weights(node) if plain_op(node) in KERNELS else WEIGHT_AXES
    if order != WEIGHT_AXES:
        domain, op_type = channels_last_op(plain_op(node).removeprefix(f"{DOMAIN}."), len(perm), order)
    if order != stored:
        inputs[1], weight = work.weight(node.inputs[1], stored, order, constants.pop(1, None))
    for index, tensor in constants.items():
        inputs += [""] * (index + 1 - len(inputs))
        inputs[index] = work.constant(inputs[index] or f"{node.outputs[0]}_{index}", tensor)

    outputs, restoring = [], []
    for value, out_perm in zip(node.outputs, carried.outputs, strict=False):
        if out_perm is None or not value:
            outputs.append(value)
            continue
        outputs.append(work.name(f"{value}_{layout.lower()}"))
        restoring.append(work.restoring(outputs[-1], value, inverse(out_perm)))
        type_ = graph.tensor_type(value)
        if type_ is not None:
            work.types[outputs[-1]] = type_.permuted(out_perm)
    if carried.picks is not None:
        restoring.append(work.picking(node, carried.picks))
        outputs[0] = restoring[-1].inputs[0]
    changed = node.replace(
        op_type=op_type,
        domain=domain,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        attributes=node.attributes if carried.attributes is None else carried.attributes,
    )
    read = {value for reader in (*work.before, changed) for value in reader.operands}
    dead = _orphaned(graph, node, {v: p for v, p in work.arrive.items() if v not in read}) if reuse else ()
    edit = Edit(
        remove=(node.name, *dead),
        insert=(*work.before, changed, *restoring),
        constants=work.constants,
        types=work.types,
    )
    return Conversion(edit, work.moved, tuple(work.found), weight, work.lined_up)


def permuted_call(graph: Graph, node: Node, perm: Permutation, target: Profile) -> PermutedCall:
    """The call on permuted operands, by the operator's contract; a resulting weight (BPW) has the target's order.

    Raises NotPermutable with a sentence if the operator cannot run on permuted operands.
    """
    carried = layout_of(node).propagate_permutation(graph, node, perm)
    order = target.weights_for("Conv")
    if node.op != GIVES_KERNEL or carried.op_type is None or order == WEIGHT_AXES:
        return carried
    _, op_type = channels_last_op(node.op_type, len(perm), order)
    return replace(carried, op_type=op_type, outputs=(weight_permutation(order, len(perm)),))


def order_of_weight(node: Node, carried: PermutedCall, target: Profile) -> str:
    """The order of the weight that the converted node reads: the target's for a channels-last convolution, else
    ONNX's.
    """
    if plain_op(node) not in KERNELS:
        return WEIGHT_AXES
    if carried.op_type is None:
        return stored_weights(node)
    return target.weights_for("Conv") if node.op in KERNELS else WEIGHT_AXES


def store_weights(graph: Graph, target: Profile) -> Iterator[tuple[Edit, str, tuple[str, ...]]]:
    """Convert the weights of channels-last convolutions to the target's order: (edit, sentence, nodes).

    A target that wants ONNX's order accepts any, as the function bodies for ONNX Runtime do.
    """
    for node in [n for n in graph.nodes if plain_op(n) in KERNELS and n.op not in KERNELS]:
        rank = graph.rank_of(node.inputs[1])
        wanted = target.layout_for(rank or 0, plain_op(node))
        stored, order = stored_weights(node), target.weights_for("Conv")
        if wanted is None or not wanted.endswith("C") or order in (WEIGHT_AXES, stored) or rank is None:
            continue
        work = _Work(graph, wanted, node)
        value, message = work.weight(node.inputs[1], stored, order, None)
        _, op_type = channels_last_op(plain_op(node).removeprefix(f"{DOMAIN}."), rank, order)
        changed = node.replace(op_type=op_type, inputs=(node.inputs[0], value, *node.inputs[2:]))
        edit = Edit(remove=(node.name,), insert=(*work.before, changed), constants=work.constants, types=work.types)
        yield edit, f"{node} is in {wanted}; {message}", (node.name,)


def _orphaned(graph: Graph, node: Node, arrive: Mapping[str, Permutation]) -> tuple[str, ...]:
    """Restoring Transposes that only this node used, before operands that it now reads permuted."""
    dead: dict[str, None] = {}
    for value, perm in arrive.items():
        producer = pending(graph, value, perm)
        if producer is not None and is_only_reader(graph, node, value):
            dead[producer.name] = None
    return tuple(dead)


def is_ours(producer: Node) -> bool:
    """Whether a strategy inserted this restoring Transpose, and has not marked it to stay."""
    return RESTORES in producer.metadata and REASON not in producer.metadata


def mark_restored(graph: Graph, producer: Node, sentence: str) -> Edit:
    """Mark the restoring Transpose to stay, with the reason."""
    return Edit(remove=(producer.name,), insert=(producer.replace(metadata={**producer.metadata, REASON: sentence}),))


def insert_pair(graph: Graph, value: str, perm: Permutation, layout: str) -> Edit:
    """Transpose `value` to `layout` and back; its users then read the result of the second Transpose."""
    work = _Work(graph, layout)
    there = work.name(f"{value}_{layout.lower()}")
    back = work.name(f"{value}_back")
    forward = work.transpose(value, there, perm, f"to_{layout.lower()}_{value}")
    backward = work.restoring(there, back, inverse(perm))
    readers = graph.users(value)
    type_ = graph.tensor_type(value)
    types = {} if type_ is None else {there: type_.permuted(perm), back: type_}
    return Edit(
        remove=tuple(reader.name for reader in readers),
        insert=(forward, backward, *(reader.with_values_renamed({value: back}) for reader in readers)),
        types=types,
    )


class _Work:
    """Collects what a conversion adds, with unique names."""

    def __init__(self, graph: Graph, layout: str, node: Node | None = None, reuse: bool = True) -> None:
        self.graph = graph
        self.node = node
        self.layout = layout
        self.reuse = reuse
        self.before: list[Node] = []
        self.constants: dict[str, Constant] = {}
        self.types: dict[str, ValueType] = {}
        self.moved: dict[str, int | None] = {}
        self.found: dict[str, None] = {}
        self.lined_up: dict[str, str] = {}
        self.arrive: dict[str, Permutation] = {}  # computed operands, and how they are permuted
        self._taken: set[str] = set()
        self._made: dict[str, str] = {}

    def name(self, base: str) -> str:
        fresh = self.graph.fresh(base, self._taken)
        self._taken.add(fresh)
        return fresh

    def transpose(self, source: str, result: str, perm: Permutation, name: str) -> Node:
        return Node("Transpose", (source,), (result,), {"perm": perm}, name=self.name(name))

    def restoring(self, source: str, result: str, perm: Permutation) -> Node:
        return self.transpose(source, result, perm, f"restore_{result}").replace(metadata={RESTORES: result})

    def picking(self, node: Node, picks: tuple[int, ...]) -> Node:
        """A Gather of these elements of the converted node's result; its result has the name of the node's."""
        value = node.outputs[0]
        source, index = self.name(f"{value}_{self.layout.lower()}"), self.name(f"{value}_picks")
        self.constants[index] = constant(np.array(picks, np.int64))
        type_ = self.graph.tensor_type(value)
        if type_ is not None:
            self.types[source] = type_.with_shape((self.graph.rank_of(node.inputs[0]),))
        return Node("Gather", (source, index), (value,), {"axis": 0}, name=self.name(f"pick_{value}"))

    def permuted_operand(self, value: str, perm: Permutation) -> str:
        if value in self._made:
            return self._made[value]
        result = at_hand(self.graph, value, perm, self.node) if self.reuse else None
        tensor = self.graph.constant(value)
        if tensor is None:
            self.arrive[value] = perm
        if tensor is not None:
            result = self.constant(value, permuted_constant(tensor, perm))
        elif result is not None:
            self.found[value] = None
        else:
            result = self.name(f"{value}_{self.layout.lower()}")
            self.moved[value] = moved_by(self.graph, value, perm)
            self.before.append(self.transpose(value, result, perm, f"to_{self.layout.lower()}_{value}"))
            type_ = self.graph.tensor_type(value)
            if type_ is not None:
                self.types[result] = type_.permuted(perm)
        self._made[value] = result
        return result

    def lined_up_operand(self, value: str, perm: Permutation) -> str:
        """Give an operand of lower rank all axes: by a Reshape if no element moves, else after a Transpose."""
        if value in self.lined_up:
            return self._made[value]
        type_ = self.graph.tensor_type(value)
        assert type_ is not None and type_.shape is not None  # otherwise it is not among `lined_up`
        own, new = lines_up(perm, len(type_.shape))
        dims = iter(permuted(type_.shape, own))
        shape = tuple(1 if place in new else next(dims) for place in range(len(perm)))
        target = None if moves_data(own, type_.shape) else reshape_to(shape)
        source = self.permuted_operand(value, own) if target is None and not is_identity(own) else value
        op, numbers = ("Unsqueeze", np.array(new, np.int64)) if target is None else ("Reshape", target)
        result = self.name(f"{value}_{self.layout.lower()}")
        operand = self.name(f"{result}_{'axes' if target is None else 'shape'}")
        self.constants[operand] = constant(numbers)
        self.before.append(Node(op, (source, operand), (result,), name=self.name(f"{op.lower()}_{result}")))
        self.types[result] = type_.with_shape(shape)
        self.lined_up[value] = f"[{', '.join('?' if dim is None else str(dim) for dim in shape)}]"
        self._made[value] = result
        return result

    def constant(self, value: str, tensor: Constant) -> str:
        name = self.name(f"{value}_{self.layout.lower()}")
        self.constants[name] = tensor
        return name

    def weight(self, value: str, stored: str, layout: str, transposed: Constant | None) -> tuple[str, str]:
        """The weight converted from the order `stored` to `layout`, with words for the sentence.

        A constant is permuted now, a computed weight by a Transpose.
        turned: the constant with its spatial axes permuted, if they are.
        """
        perm = weight_way(stored, layout, self.graph.rank_of(value) or 4)
        tensor = self.graph.constant(value) if transposed is None else transposed
        outcome = at_hand(self.graph, value, perm, self.node) if tensor is None else None
        if outcome is not None:
            self.arrive[value] = perm
            return outcome, f"weight reused as {layout}"
        if tensor is None:
            result = self.name(f"{value}_{layout.lower()}")
            self.before.append(self.transpose(value, result, perm, f"to_{layout.lower()}_{value}"))
            type_ = self.graph.tensor_type(value)
            if type_ is not None:
                self.types[result] = type_.permuted(perm)
            return result, f"weight {stored} to {layout} at runtime"
        rewritten = permuted_constant(tensor, perm)
        existing = f"{value}_{layout.lower()}"
        if _same_numbers(self.graph.constant(existing), rewritten):  # a model may have another value of that name
            return existing, f"weight {stored} to {layout} once, shared"
        name = self.name(existing)
        self.constants[name] = rewritten
        return name, f"weight {stored} to {layout} once, here"


def _same_numbers(first: Constant | None, second: Constant) -> bool:
    if first is None or first.dtype != second.dtype or constant_shape(first) != constant_shape(second):
        return False
    return np.array_equal(first.numpy(), second.numpy())
