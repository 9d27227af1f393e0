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

from workbench.analysis.metrics.transpose_cost import elements, moved_by
from workbench.ir import Constant, Edit, Graph, Node, ValueType, constant, constant_shape
from workbench.ir.permutation import Permutation, inverse, is_identity, moves_data, perm_of, permuted, permuted_constant
from workbench.ops import NotPermutable, PermutedCall, layout_of
from workbench.ops.channels_last import (
    DOMAIN,
    KERNELS,
    WEIGHT_AXES,
    WEIGHT_GRADIENT_OP,
    channels_last_op,
    plain_op,
    stored_weights,
    weight_permutation,
    weight_reordering,
)
from workbench.ops.permutation.kinds import alignment_of
from workbench.planning.layout.conversion.reshape import reshape_to
from workbench.planning.layout.profile import Profile

RESTORES = "workbench.restores"  # metadata key of a Transpose after a converted node: the value that it restores
REASON = "workbench.reason"  # metadata key of such a Transpose that stays: a sentence that says why


@dataclass
class Conversion:
    """The edit, and what it does with operands, for the sentence.

    moved:    operands that a new Transpose permutes, with the number of elements; None if unknown.
    reused:   operands of which the permuted value exists already.
    weight:   what is done with the weight; "" if nothing.
    aligned_inputs: operands of lower rank that are reshaped, with their new shape in words.
    """

    edit: Edit
    moved: dict[str, int | None] = field(default_factory=dict)
    reused: tuple[str, ...] = ()
    weight: str = ""
    aligned_inputs: dict[str, str] = field(default_factory=dict)

    def operands_text(self) -> str:
        """Which operands move, and what is done with the others, as clauses of a sentence."""
        moved = ", ".join(f"'{value}' is transposed, {elements(number)}" for value, number in self.moved.items())
        return f"{moved or 'nothing moved'}{self.other_operands_text()}"

    def other_operands_text(self) -> str:
        """What is done with operands of lower rank and with the weight, each with "; " before it."""
        reshaped = "".join(f"; '{value}' is reshaped to {shape}" for value, shape in self.aligned_inputs.items())
        return f"{reshaped}; {self.weight}" if self.weight else reshaped


def why_there(node: Node, where: str, target: Profile) -> str:
    """Why a strategy with a cost model runs the node in a layout, as a clause. where: "in NHWC"."""
    return (
        f"must run {where} on this target"
        if plain_op(node) in target.required_layouts
        else f"runs {where}, which costs least"
    )


def is_only_reader(graph: Graph, node: Node, value: str) -> bool:
    """Whether the node is the only user of `value`, which is not an output of the graph."""
    return graph.users(value) == (node,) and not graph.is_output(value)


def existing_permuted(graph: Graph, value: str, perm: Permutation, reader: Node | None) -> str | None:
    """An existing value that equals `value` transposed by `perm` and is not a result of `reader`, if there is one."""
    producer = graph.producer(value)
    if producer is not None and producer.op == "Transpose" and perm_of(graph, producer) == inverse(perm):
        return producer.inputs[0]
    for user in graph.users(value):
        if user.op == "Transpose" and user != reader and perm_of(graph, user) == perm:
            return user.outputs[0]
    return None


def restoring_transpose_of(graph: Graph, value: str, perm: Permutation) -> Node | None:
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
    call = permuted_call(graph, node, perm, target)
    mismatched = next((node.inputs[i] for i in call.inputs if graph.rank_of(node.inputs[i]) != len(perm)), None)
    if mismatched is not None:  # the image operand only supplies a type or a bound, like CastLike's second
        raise NotPermutable(f"operand '{mismatched}' of {node} has another rank than the permutation")
    additions = _Additions(graph, layout, node, reuse)
    inputs = list(node.inputs)
    for index in call.inputs:
        inputs[index] = additions.permuted_operand(node.inputs[index], perm)
    for index in call.aligned_inputs:
        inputs[index] = additions.aligned_operand(node.inputs[index], perm)
    op_type = call.op_type or node.op_type
    domain = node.domain if call.domain is None else call.domain
    constants = dict(call.constants)
    weight, order = "", order_of_weight(node, call, target)
    stored = stored_weights(node) if plain_op(node) in KERNELS else WEIGHT_AXES
    if order != WEIGHT_AXES:
        domain, op_type = channels_last_op(plain_op(node).removeprefix(f"{DOMAIN}."), len(perm), order)
    if order != stored:
        inputs[1], weight = additions.weight(node.inputs[1], stored, order, constants.pop(1, None))
    for index, tensor in constants.items():
        inputs += [""] * (index + 1 - len(inputs))
        inputs[index] = additions.constant(inputs[index] or f"{node.outputs[0]}_{index}", tensor)

    outputs, restoring = [], []
    for value, out_perm in zip(node.outputs, call.outputs, strict=False):
        if out_perm is None or not value:
            outputs.append(value)
            continue
        outputs.append(additions.name(f"{value}_{layout.lower()}"))
        restoring.append(additions.restoring(outputs[-1], value, inverse(out_perm)))
        type_ = graph.tensor_type(value)
        if type_ is not None:
            additions.types[outputs[-1]] = type_.permuted(out_perm)
    if call.picks is not None:
        restoring.append(additions.picking(node, call.picks))
        outputs[0] = restoring[-1].inputs[0]
    converted = node.replace(
        op_type=op_type,
        domain=domain,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        attributes=node.attributes if call.attributes is None else call.attributes,
    )
    read = {value for reader in (*additions.before, converted) for value in reader.operands}
    dead = (
        _orphaned(graph, node, {v: p for v, p in additions.permuted_operands.items() if v not in read}) if reuse else ()
    )
    edit = Edit(
        remove=(node.name, *dead),
        insert=(*additions.before, converted, *restoring),
        constants=additions.constants,
        types=additions.types,
    )
    return Conversion(edit, additions.moved, tuple(additions.reused), weight, additions.aligned_inputs)


def permuted_call(graph: Graph, node: Node, perm: Permutation, target: Profile) -> PermutedCall:
    """The call on permuted operands, by the operator's contract; the result of the weight gradient operator BPW has the
    target's order.

    Raises NotPermutable with a sentence if the operator cannot run on permuted operands.
    """
    call = layout_of(node).propagate_permutation(graph, node, perm)
    order = target.weights_for("Conv")
    if node.op != WEIGHT_GRADIENT_OP or call.op_type is None or order == WEIGHT_AXES:
        return call
    _, op_type = channels_last_op(node.op_type, len(perm), order)
    return replace(call, op_type=op_type, outputs=(weight_permutation(order, len(perm)),))


def order_of_weight(node: Node, call: PermutedCall, target: Profile) -> str:
    """The order of the converted node's weight: the target's for a channels-last convolution, else ONNX's."""
    if plain_op(node) not in KERNELS:
        return WEIGHT_AXES
    if call.op_type is None:
        return stored_weights(node)
    return target.weights_for("Conv") if node.op in KERNELS else WEIGHT_AXES


def store_weights(graph: Graph, target: Profile) -> Iterator[tuple[Edit, str, tuple[str, ...]]]:
    """Convert the weights of channels-last convolutions to the target's order: (edit, sentence, nodes).

    If the target's order is ONNX's, nothing is converted: the function bodies that ONNX Runtime runs accept any order.
    """
    for node in [n for n in graph.nodes if plain_op(n) in KERNELS and n.op not in KERNELS]:  # channels-last variants
        rank = graph.rank_of(node.inputs[1])
        layout = target.layout_for(rank or 0, plain_op(node))
        stored, order = stored_weights(node), target.weights_for("Conv")
        if layout is None or not layout.endswith("C") or order in (WEIGHT_AXES, stored) or rank is None:
            continue
        additions = _Additions(graph, layout, node)
        value, weight_text = additions.weight(node.inputs[1], stored, order, None)
        _, op_type = channels_last_op(plain_op(node).removeprefix(f"{DOMAIN}."), rank, order)
        converted = node.replace(op_type=op_type, inputs=(node.inputs[0], value, *node.inputs[2:]))
        edit = Edit(
            remove=(node.name,),
            insert=(*additions.before, converted),
            constants=additions.constants,
            types=additions.types,
        )
        yield edit, f"{node} is in {layout}; {weight_text}", (node.name,)


def _orphaned(graph: Graph, node: Node, permuted_operands: Mapping[str, Permutation]) -> tuple[str, ...]:
    """The restoring Transposes that become unused, since this node, their only reader, now reads their input."""
    dead: dict[str, None] = {}
    for value, perm in permuted_operands.items():
        producer = restoring_transpose_of(graph, value, perm)
        if producer is not None and is_only_reader(graph, node, value):
            dead[producer.name] = None
    return tuple(dead)


def is_removable(producer: Node) -> bool:
    """Whether the node is a restoring Transpose that no strategy has marked to stay."""
    return RESTORES in producer.metadata and REASON not in producer.metadata


def mark_kept(graph: Graph, producer: Node, sentence: str) -> Edit:
    """Mark the restoring Transpose to be kept, with the reason."""
    return Edit(remove=(producer.name,), insert=(producer.replace(metadata={**producer.metadata, REASON: sentence}),))


def insert_pair(graph: Graph, value: str, perm: Permutation, layout: str) -> Edit:
    """Transpose `value` to `layout` and back; its users then read the result of the second Transpose."""
    additions = _Additions(graph, layout)
    permuted_value = additions.name(f"{value}_{layout.lower()}")
    restored_value = additions.name(f"{value}_back")
    forward = additions.transpose(value, permuted_value, perm, f"to_{layout.lower()}_{value}")
    backward = additions.restoring(permuted_value, restored_value, inverse(perm))
    readers = graph.users(value)
    type_ = graph.tensor_type(value)
    types = {} if type_ is None else {permuted_value: type_.permuted(perm), restored_value: type_}
    return Edit(
        remove=tuple(reader.name for reader in readers),
        insert=(forward, backward, *(reader.with_values_renamed({value: restored_value}) for reader in readers)),
        types=types,
    )


class _Additions:
    """Collects the nodes, constants and types that a conversion adds, with unique names."""

    def __init__(self, graph: Graph, layout: str, node: Node | None = None, reuse: bool = True) -> None:
        self.graph = graph
        self.node = node
        self.layout = layout
        self.reuse = reuse
        self.before: list[Node] = []
        self.constants: dict[str, Constant] = {}
        self.types: dict[str, ValueType] = {}
        self.moved: dict[str, int | None] = {}
        self.reused: dict[str, None] = {}
        self.aligned_inputs: dict[str, str] = {}
        self.permuted_operands: dict[str, Permutation] = {}  # computed operand -> its permutation
        self._taken: set[str] = set()
        self._converted: dict[str, str] = {}

    def name(self, base: str) -> str:
        fresh = self.graph.fresh(base, self._taken)
        self._taken.add(fresh)
        return fresh

    def transpose(self, source: str, result: str, perm: Permutation, name: str) -> Node:
        return Node("Transpose", (source,), (result,), {"perm": perm}, name=self.name(name))

    def restoring(self, source: str, result: str, perm: Permutation) -> Node:
        return self.transpose(source, result, perm, f"restore_{result}").replace(metadata={RESTORES: result})

    def picking(self, node: Node, picks: tuple[int, ...]) -> Node:
        """A Gather of the elements `picks` of the converted node's result, which takes over the name of the result."""
        value = node.outputs[0]
        source, index = self.name(f"{value}_{self.layout.lower()}"), self.name(f"{value}_picks")
        self.constants[index] = constant(np.array(picks, np.int64))
        type_ = self.graph.tensor_type(value)
        if type_ is not None:
            self.types[source] = type_.with_shape((self.graph.rank_of(node.inputs[0]),))
        return Node("Gather", (source, index), (value,), {"axis": 0}, name=self.name(f"pick_{value}"))

    def permuted_operand(self, value: str, perm: Permutation) -> str:
        """The name of the permuted operand: a constant, an existing value, or the result of a new Transpose."""
        if value in self._converted:
            return self._converted[value]
        result = existing_permuted(self.graph, value, perm, self.node) if self.reuse else None
        tensor = self.graph.constant(value)
        if tensor is None:
            self.permuted_operands[value] = perm
        if tensor is not None:
            result = self.constant(value, permuted_constant(tensor, perm))
        elif result is not None:
            self.reused[value] = None
        else:
            result = self.name(f"{value}_{self.layout.lower()}")
            self.moved[value] = moved_by(self.graph, value, perm)
            self.before.append(self.transpose(value, result, perm, f"to_{self.layout.lower()}_{value}"))
            type_ = self.graph.tensor_type(value)
            if type_ is not None:
                self.types[result] = type_.permuted(perm)
        self._converted[value] = result
        return result

    def aligned_operand(self, value: str, perm: Permutation) -> str:
        """Give an operand of lower rank all axes, by a Reshape if no element moves, else by Transpose and Unsqueeze."""
        if value in self.aligned_inputs:
            return self._converted[value]
        type_ = self.graph.tensor_type(value)
        assert type_ is not None and type_.shape is not None  # otherwise it is not among `aligned_inputs`
        order, new_axes = alignment_of(perm, len(type_.shape))
        dims = iter(permuted(type_.shape, order))
        shape = tuple(1 if axis in new_axes else next(dims) for axis in range(len(perm)))
        target = None if moves_data(order, type_.shape) else reshape_to(shape)
        source = self.permuted_operand(value, order) if target is None and not is_identity(order) else value
        op, numbers = ("Unsqueeze", np.array(new_axes, np.int64)) if target is None else ("Reshape", target)
        result = self.name(f"{value}_{self.layout.lower()}")
        operand = self.name(f"{result}_{'axes' if target is None else 'shape'}")
        self.constants[operand] = constant(numbers)
        self.before.append(Node(op, (source, operand), (result,), name=self.name(f"{op.lower()}_{result}")))
        self.types[result] = type_.with_shape(shape)
        self.aligned_inputs[value] = f"[{', '.join('?' if dim is None else str(dim) for dim in shape)}]"
        self._converted[value] = result
        return result

    def constant(self, value: str, tensor: Constant) -> str:
        name = self.name(f"{value}_{self.layout.lower()}")
        self.constants[name] = tensor
        return name

    def weight(self, value: str, stored: str, order: str, transposed: Constant | None) -> tuple[str, str]:
        """The name of the weight converted from the order `stored` to `order`, and a clause for the sentence.

        A constant is permuted now, a computed weight by a Transpose at runtime.
        transposed: the constant with its spatial axes permuted, if they are.
        """
        perm = weight_reordering(stored, order, self.graph.rank_of(value) or 4)
        tensor = self.graph.constant(value) if transposed is None else transposed
        reused = existing_permuted(self.graph, value, perm, self.node) if tensor is None else None
        if reused is not None:
            self.permuted_operands[value] = perm
            return reused, f"weight reused as {order}"
        if tensor is None:
            result = self.name(f"{value}_{order.lower()}")
            self.before.append(self.transpose(value, result, perm, f"to_{order.lower()}_{value}"))
            type_ = self.graph.tensor_type(value)
            if type_ is not None:
                self.types[result] = type_.permuted(perm)
            return result, f"weight converted from {stored} to {order} at runtime"
        rewritten = permuted_constant(tensor, perm)
        existing = f"{value}_{order.lower()}"
        if _same_numbers(self.graph.constant(existing), rewritten):  # a model may have another value of that name
            return existing, f"weight converted from {stored} to {order}, shared"
        name = self.name(existing)
        self.constants[name] = rewritten
        return name, f"weight converted from {stored} to {order}"


def _same_numbers(first: Constant | None, second: Constant) -> bool:
    if first is None or first.dtype != second.dtype or constant_shape(first) != constant_shape(second):
        return False
    return np.array_equal(first.numpy(), second.numpy())
