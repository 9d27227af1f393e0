"""Calls that hold the size of a batch in a constant, and the same calls for a batch of any size."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from workbench.analysis.inference.sizes import symbolic_value_of
from workbench.errors import counted
from workbench.ir import Constant, Graph, Node, TensorType, constant
from workbench.rewrite.core.rule import NoMatch

_STATES = {"GRU": {4: 0, 5: 1}, "LSTM": {4: 0, 5: 1, 6: 1}, "RNN": {4: 0, 5: 1}}  # operand -> its axis of the batch
_EXPANDED = ("Concat", *_STATES)


@dataclass(frozen=True)
class Batched:
    """A call for a batch of any size.

    nodes:     replace it.
    constants: new operands of these nodes.
    done:      the change as a sentence; "" if the call stays as it is.
    types:     the types of the new values, for the larger batch.
    others:    the number of further axes on which the batch may lie.
    inner:     the inner sizes of its result, as in `Sized`; None: as in the operands.
    """

    nodes: tuple[Node, ...]
    constants: dict[str, Constant]
    done: str
    types: dict[str, TensorType] = field(default_factory=dict)
    others: int = 0
    inner: int | None = None


@dataclass(frozen=True)
class Sized:
    """A graph with the types for a batch that is `times` as large.

    before:  the graph with the original batch.
    old:     the sizes of its values.
    counted: an input and its axis, whose size is the batch.
    inner:   by value, the part of the batch axis that belongs to each element of the batch: 8 of [N*8, 3].
    """

    graph: Graph
    before: Graph
    old: dict[str, tuple[int, ...]]
    times: int
    counted: tuple[str, int]
    inner: dict[str, int] = field(default_factory=dict)

    @property
    def batch(self) -> int:
        """The original size of the batch."""
        value, axis = self.counted
        return self.old[value][axis]

    def stride(self, value: str, axis: int) -> int:
        """The number of elements of `value` per element of a batch along this axis."""
        old = self.old[value]
        return math.prod(old[axis + 1 :]) * self.inner.get(value, old[axis] // self.batch)

    def inner_of(self, value: str, operands: Sequence[str]) -> int | None:
        """The `inner` of a result: that of the first operand whose batch axis is as long; None if there is none."""
        for operand in filter(self.old.__contains__, operands):
            axes, operand_axes = self._grown_axes(value), self._grown_axes(operand)
            if len(axes) != 1 or len(operand_axes) != 1:
                continue
            size = self.old[operand][operand_axes[0]]
            if self.old[value][axes[0]] == size:
                return self.inner.get(operand, size // self.batch)
        return None

    def _grown_axes(self, value: str) -> list[int]:
        """The axes along which the value is longer than it was."""
        old, new = self.old[value], self.graph.shape(value)
        return [axis for axis, (a, b) in enumerate(zip(old, new or (), strict=False)) if a != b]

    def larger(self, value: str, axis: int) -> tuple[int, ...]:
        """The sizes of the value for the larger batch, with the batch along this axis."""
        return tuple(size * self.times if index == axis else size for index, size in enumerate(self.old[value]))

    def new(self, value: str, node: Node) -> tuple[int, ...]:
        shape = self.graph.shape(value)
        sizes = () if shape is None else tuple(size for size in shape if isinstance(size, int))
        if shape is None or len(sizes) < len(shape) or value not in self.old:
            raise NoMatch(f"the sizes of '{value}', which {node} reads, are not known for another batch")
        return sizes

    def fixed_numbers(self, node: Node, index: int) -> list[int] | None:
        """The numbers of an operand such as a shape, if they depend on no batch and no symbol; else None."""
        value = node.inputs[index]
        before, after = symbolic_value_of(self.before, value), symbolic_value_of(self.graph, value)
        numbers = None if before is None else before.known
        return list(numbers) if numbers is not None and after == before else None

    def batch_axis(self, value: str, node: Node) -> int | None:
        """The axis along which the value grew with the batch; None if it did not grow."""
        new = self.new(value, node)
        old, grown = self.old[value], self._grown_axes(value)
        if len(old) != len(new):
            raise NoMatch(f"'{value}', which {node} reads, has other axes for another batch")
        if not grown:
            return None
        if len(grown) > 1 or new[grown[0]] != self.times * old[grown[0]]:
            raise NoMatch(f"'{value}', which {node} reads, does not grow along one axis as the batch does")
        return grown[0]


def batched(sized: Sized, node: Node, choice: int = 0) -> Batched | None:
    """The call for a batch of any size; None if the node is one already. Raises NoMatch.

    choice: the index of the axis on which a Reshape puts the batch, the likeliest first.
    """
    if node.op == "Reshape":
        return _reshape(sized, node, choice)
    if node.op == "Expand":
        return _expand(sized, node)
    if node.op == "Resize" and len(node.inputs) > 3 and node.inputs[3]:
        return _resize(sized, node)
    return _with_expanded_operands(sized, node) if node.op in _EXPANDED else None


def element_sizes(sized: Sized, node: Node) -> dict[str, tuple[int, ...]]:
    """The sizes of an element of a SplitToSequence along another axis than the batch, which a SequenceAt takes out."""
    split = sized.graph.producer(node.inputs[0]) if node.op == "SequenceAt" else None
    if split is None or split.op != "SplitToSequence":
        return {}
    axis, old = sized.batch_axis(split.inputs[0], split), sized.old.get(node.outputs[0])
    if old is None or axis is None or axis == int(split.attr("axis")) % len(old):
        return {}
    return {node.outputs[0]: sized.larger(node.outputs[0], axis)}


def _reshape(sized: Sized, node: Node, choice: int) -> Batched | None:
    numbers = sized.fixed_numbers(node, 1)
    if numbers is None:
        return None  # computed from sizes
    source = sized.batch_axis(node.inputs[0], node)
    if source is None:
        return None
    before, after = sized.old[node.inputs[0]], sized.old[node.outputs[0]]
    stride = sized.stride(node.inputs[0], source)
    axes = _axes_of_batch(before, after, source, stride, sized.batch)
    if not axes:
        raise NoMatch(f"{node} mixes the batch, axis {source} of '{node.inputs[0]}', with other axes")
    axis = axes[choice]
    copies = axis == source and before[axis] == after[axis] and not node.attr("allowzero")
    if not copies and numbers[axis] != -1 and -1 in numbers:
        other, shape = numbers.index(-1), sized.before.shape(node.outputs[0])
        if shape is None or not isinstance(shape[other], int):
            raise NoMatch(f"{node} computes axis {other} from the size of its operand")
        numbers[other] = after[other]
    others = len(axes) - 1 - choice
    inner = stride // math.prod(after[axis + 1 :])
    if numbers[axis] == -1 or (copies and numbers[axis] == 0):
        return Batched((node,), {}, "", others=others, inner=inner)
    numbers[axis] = 0 if copies else -1
    done = f"Reshape '{node.name}' no longer fixes axis {axis}"
    return replace(_with_operand(sized.graph, node, 1, numbers, done), others=others, inner=inner)


def _axes_of_batch(before: tuple[int, ...], after: tuple[int, ...], source: int, stride: int, batch: int) -> list[int]:
    """The axes of a reshaped value on which the batch may lie, the likeliest first; it was on axis `source`.

    Axes before and after it that keep their sizes are unlikely. An axis of the batch alone is likelier than an axis
    that the batch shares. stride: as in `Sized.stride`.
    """
    results = []
    for axis in range(len(after)):
        following = math.prod(after[axis + 1 :])
        if following and following <= stride and stride * batch <= following * after[axis] and stride % following == 0:
            results.append(axis)
    ahead = _equal(before[:source], after)
    first_after = len(after) - _equal(before[:source:-1], after[::-1])
    return sorted(results, key=lambda axis: (axis >= first_after, axis < ahead, after[axis] != batch))


def _equal(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    """The number of equal sizes at the beginning of both."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _expand(sized: Sized, node: Node) -> Batched | None:
    numbers = sized.fixed_numbers(node, 1)
    if numbers is None:
        return None
    source = sized.batch_axis(node.inputs[0], node)
    if source is None:
        return None
    index = source - len(sized.old[node.inputs[0]]) + len(numbers)
    if index < 0 or numbers[index] == 1:
        return None
    numbers[index] = 1  # Expand keeps the operand's size there
    return _with_operand(sized.graph, node, 1, numbers, f"Expand '{node.name}' no longer fixes axis {index}")


def _resize(sized: Sized, node: Node) -> Batched | None:
    sizes, source = sized.fixed_numbers(node, 3), sized.batch_axis(node.inputs[0], node)
    if sizes is None or source is None:
        return None
    axes = list(node.attr("axes", range(len(sizes))))
    rank = len(sized.old[node.inputs[0]])
    remaining = [(axis, size) for axis, size in zip(axes, sizes, strict=True) if axis % rank != source]
    if len(remaining) == len(axes):
        return None
    result = _with_operand(
        sized.graph, node, 3, [size for _, size in remaining], f"Resize '{node.name}' leaves the batch"
    )
    (new,) = result.nodes
    attributes = {**new.attributes, "axes": tuple(axis for axis, _ in remaining)}
    return Batched((new.replace(attributes=attributes),), result.constants, result.done)


def _with_operand(graph: Graph, node: Node, index: int, numbers: Sequence[int], done: str) -> Batched:
    name = graph.fresh(f"{node.inputs[index]}_of_any_batch")
    inputs = tuple(name if i == index else value for i, value in enumerate(node.inputs))
    return Batched((node.replace(inputs=inputs),), {name: constant(np.array(numbers, np.int64))}, done)


def _with_expanded_operands(sized: Sized, node: Node) -> Batched | None:
    """Expand operands of one row, which do not depend on the batch, to as many rows as the batch has."""
    axes = _joined(sized, node) if node.op == "Concat" else _STATES[node.op]
    if all(sized.batch_axis(value, node) is None for value in filter(None, node.inputs)):
        return None
    taken: set[str] = set()
    inputs, nodes = list(node.inputs), list[Node]()
    constants: dict[str, Constant] = {}
    types: dict[str, TensorType] = {}
    for index, axis in axes.items():
        value = node.inputs[index] if index < len(node.inputs) else ""
        if not value or sized.batch_axis(value, node) is not None:
            continue
        if sized.old[value][axis] != 1:
            raise NoMatch(f"'{value}', which {node} reads, has {sized.old[value][axis]:,} rows of its own for a batch")
        expanded = _expanded(sized, value, axis, taken)
        inputs[index] = expanded.nodes[-1].outputs[0]
        nodes += expanded.nodes
        constants |= expanded.constants
        types |= expanded.types
    if not nodes:
        return None
    changed = sum(a != b for a, b in zip(inputs, node.inputs, strict=True))
    done = f"{counted(changed, 'operand')} of {node.op} '{node.name}' get{'s' * (changed == 1)} the rows of the batch"
    return Batched((*nodes, node.replace(inputs=tuple(inputs))), constants, done, types)


def _joined(sized: Sized, node: Node) -> dict[int, int]:
    """The axis of the batch for each operand of a Concat along another axis."""
    axes = {axis for value in node.inputs if (axis := sized.batch_axis(value, node)) is not None}
    rank = len(sized.old[node.inputs[0]])
    if len(axes) != 1 or axes == {int(node.attr("axis")) % rank}:
        return {}
    return dict.fromkeys(range(len(node.inputs)), axes.pop())


def _expanded(sized: Sized, value: str, axis: int, taken: set[str]) -> Batched:
    """The value with the size of the batch along the axis: Expand to [1, .., N, .., 1]."""

    def fresh(base: str) -> str:
        taken.add(name := sized.graph.fresh(base, taken))
        return name

    def ones(count: int) -> list[str]:
        if not count:
            return []
        constants[name := fresh(f"{value}_ones")] = constant(np.ones(count, np.int64))
        return [name]

    constants: dict[str, Constant] = {}
    source, source_axis = sized.counted
    batch, shape, result = (fresh(f"{value}_{part}") for part in ("batch", "sizes", "expanded"))
    old = sized.old[value]
    parts = (*ones(axis), batch, *ones(len(old) - axis - 1))
    span = {"start": source_axis, "end": source_axis + 1}
    nodes = (
        Node("Shape", (source,), (batch,), span, fresh(f"Shape_{batch}")),
        Node("Concat", parts, (shape,), {"axis": 0}, fresh(f"Concat_{shape}")),
        Node("Expand", (value, shape), (result,), {}, fresh(f"Expand_{result}")),
    )
    type_ = sized.graph.tensor_type(value)
    assert type_ is not None  # its sizes are known
    types = {result: type_.with_shape(sized.larger(value, axis))}
    return Batched(nodes, constants, "", types)
