"""Calls that hold the size of a batch in a constant, and the same calls for a batch of any size."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from workbench.errors import counted
from workbench.inference.sizes import contents_of
from workbench.ir import Constant, Graph, Node, TensorType, constant
from workbench.rewrite.core.rule import NoMatch

_STATES = {"GRU": {4: 0, 5: 1}, "LSTM": {4: 0, 5: 1, 6: 1}, "RNN": {4: 0, 5: 1}}  # operand -> its axis of the batch
_EXPANDED = ("Concat", *_STATES)


@dataclass(frozen=True)
class Batched:
    """A call for a batch of any size.

    nodes:  take its place. constants, types: of their operands that are new, the types at the other batch.
    done:   in words; "" if the call stays as it is.
    others: how many other axes the batch may as well lie on.
    inner:  of its result, as in `Sized`; None: as operands have it.
    """

    nodes: tuple[Node, ...]
    constants: dict[str, Constant]
    done: str
    types: dict[str, TensorType] = field(default_factory=dict)
    others: int = 0
    inner: int | None = None


@dataclass(frozen=True)
class Sized:
    """A graph whose types have the sizes of a batch that is `times` as large.

    before: the graph as it was; old: the sizes of its values; counted: an input and its axis, whose size is the batch;
    inner: by value, the part of the axis of the batch that lies within each element of the batch, as of [N*8, 3].
    """

    graph: Graph
    before: Graph
    old: dict[str, tuple[int, ...]]
    times: int
    counted: tuple[str, int]
    inner: dict[str, int] = field(default_factory=dict)

    @property
    def batch(self) -> int:
        """Its size before."""
        value, axis = self.counted
        return self.old[value][axis]

    def stride(self, value: str, axis: int) -> int:
        """Elements between one of the batch and the next, the batch along this axis."""
        old = self.old[value]
        return math.prod(old[axis + 1 :]) * self.inner.get(value, old[axis] // self.batch)

    def inner_of(self, value: str, operands: Sequence[str]) -> int | None:
        """The batch lies within an axis of a result as it does within the axis of an operand that is as long."""
        for operand in filter(self.old.__contains__, operands):
            axis, own = self._grown(value), self._grown(operand)
            if len(axis) == len(own) == 1 and self.old[value][axis[0]] == self.old[operand][own[0]]:
                return self.inner.get(operand, self.old[operand][own[0]] // self.batch)
        return None

    def _grown(self, value: str) -> list[int]:
        """The axes along which the value is longer than it was."""
        old, new = self.old[value], self.graph.shape(value)
        return [axis for axis, (a, b) in enumerate(zip(old, new or (), strict=False)) if a != b]

    def larger(self, value: str, axis: int) -> tuple[int, ...]:
        """Its sizes at the other batch, the batch along this axis."""
        return tuple(size * self.times if place == axis else size for place, size in enumerate(self.old[value]))

    def new(self, value: str, node: Node) -> tuple[int, ...]:
        shape = self.graph.shape(value)
        sizes = () if shape is None else tuple(size for size in shape if isinstance(size, int))
        if shape is None or len(sizes) < len(shape) or value not in self.old:
            raise NoMatch(f"the sizes of '{value}', which {node} reads, are not known for another batch")
        return sizes

    def held(self, node: Node, place: int) -> list[int] | None:
        """The numbers of an operand such as a shape, if they are the same for every batch and all other symbols."""
        value = node.inputs[place]
        before, after = contents_of(self.before, value), contents_of(self.graph, value)
        numbers = None if before is None else before.known
        return list(numbers) if numbers is not None and after == before else None

    def batch_axis(self, value: str, node: Node) -> int | None:
        """The axis along which the value grew with the batch; None if it did not grow."""
        new = self.new(value, node)
        old, grown = self.old[value], self._grown(value)
        if len(old) != len(new):
            raise NoMatch(f"'{value}', which {node} reads, has other axes for another batch")
        if not grown:
            return None
        if len(grown) > 1 or new[grown[0]] != self.times * old[grown[0]]:
            raise NoMatch(f"'{value}', which {node} reads, does not grow along one axis as the batch does")
        return grown[0]


def batched(sized: Sized, node: Node, choice: int = 0) -> Batched | None:
    """The call for a batch of any size; None if it is that as it stands. Raises NoMatch with one sentence.

    choice: which of the axes that a Reshape may give the batch.
    """
    if node.op == "Reshape":
        return _reshape(sized, node, choice)
    if node.op == "Expand":
        return _expand(sized, node)
    if node.op == "Resize" and len(node.inputs) > 3 and node.inputs[3]:
        return _resize(sized, node)
    return _with_expanded_operands(sized, node) if node.op in _EXPANDED else None


def element_sizes(sized: Sized, node: Node) -> dict[str, tuple[int, ...]]:
    """The sizes of an element that a SequenceAt takes out of a SplitToSequence along another axis than the batch's."""
    split = sized.graph.producer(node.inputs[0]) if node.op == "SequenceAt" else None
    if split is None or split.op != "SplitToSequence":
        return {}
    axis, old = sized.batch_axis(split.inputs[0], split), sized.old.get(node.outputs[0])
    if old is None or axis is None or axis == int(split.attr("axis")) % len(old):
        return {}
    return {node.outputs[0]: sized.larger(node.outputs[0], axis)}


def _reshape(sized: Sized, node: Node, choice: int) -> Batched | None:
    wanted = sized.held(node, 1)
    if wanted is None:
        return None  # computed from sizes, so that it follows
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
    if not copies and wanted[axis] != -1 and -1 in wanted:
        other, shape = wanted.index(-1), sized.before.shape(node.outputs[0])
        if shape is None or not isinstance(shape[other], int):
            raise NoMatch(f"{node} computes axis {other} from the size of its operand")
        wanted[other] = after[other]
    others = len(axes) - 1 - choice
    inner = stride // math.prod(after[axis + 1 :])
    if wanted[axis] == -1 or (copies and wanted[axis] == 0):
        return Batched((node,), {}, "", others=others, inner=inner)
    wanted[axis] = 0 if copies else -1
    done = f"Reshape '{node.name}' takes axis {axis} as it comes"
    return replace(_with_operand(sized.graph, node, 1, wanted, done), others=others, inner=inner)


def _axes_of_batch(before: tuple[int, ...], after: tuple[int, ...], source: int, stride: int, batch: int) -> list[int]:
    """The axes of a reshaped value on which the batch may lie, which was on axis `source`; the likeliest is the first.

    Unlikely are axes ahead of it and after it that stay as they were; an axis of the batch alone is likelier than one
    that it shares. stride: elements between one of the batch and the next.
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
    """How many sizes both begin with."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _expand(sized: Sized, node: Node) -> Batched | None:
    wanted = sized.held(node, 1)
    if wanted is None:
        return None
    source = sized.batch_axis(node.inputs[0], node)
    if source is None:
        return None
    place = source - len(sized.old[node.inputs[0]]) + len(wanted)
    if place < 0 or wanted[place] == 1:
        return None
    wanted[place] = 1  # an axis of another size keeps it
    return _with_operand(sized.graph, node, 1, wanted, f"Expand '{node.name}' takes axis {place} as it comes")


def _resize(sized: Sized, node: Node) -> Batched | None:
    sizes, source = sized.held(node, 3), sized.batch_axis(node.inputs[0], node)
    if sizes is None or source is None:
        return None
    axes = list(node.attr("axes", range(len(sizes))))
    rank = len(sized.old[node.inputs[0]])
    kept = [(axis, size) for axis, size in zip(axes, sizes, strict=True) if axis % rank != source]
    if len(kept) == len(axes):
        return None
    result = _with_operand(sized.graph, node, 3, [size for _, size in kept], f"Resize '{node.name}' leaves the batch")
    (new,) = result.nodes
    attributes = {**new.attributes, "axes": tuple(axis for axis, _ in kept)}
    return Batched((new.replace(attributes=attributes),), result.constants, result.done)


def _with_operand(graph: Graph, node: Node, place: int, numbers: Sequence[int], done: str) -> Batched:
    name = graph.fresh(f"{node.inputs[place]}_of_any_batch")
    inputs = tuple(name if index == place else value for index, value in enumerate(node.inputs))
    return Batched((node.replace(inputs=inputs),), {name: constant(np.array(numbers, np.int64))}, done)


def _with_expanded_operands(sized: Sized, node: Node) -> Batched | None:
    """Operands of one row, which do not come from the inputs, get as many rows as the batch has."""
    places = _joined(sized, node) if node.op == "Concat" else _STATES[node.op]
    if all(sized.batch_axis(value, node) is None for value in filter(None, node.inputs)):
        return None
    taken: set[str] = set()
    inputs, nodes = list(node.inputs), list[Node]()
    constants: dict[str, Constant] = {}
    types: dict[str, TensorType] = {}
    for place, axis in places.items():
        value = node.inputs[place] if place < len(node.inputs) else ""
        if not value or sized.batch_axis(value, node) is not None:
            continue
        if sized.old[value][axis] != 1:
            raise NoMatch(f"'{value}', which {node} reads, has {sized.old[value][axis]:,} rows of its own for a batch")
        expanded = _expanded(sized, value, axis, taken)
        inputs[place] = expanded.nodes[-1].outputs[0]
        nodes += expanded.nodes
        constants |= expanded.constants
        types |= expanded.types
    if not nodes:
        return None
    changed = sum(a != b for a, b in zip(inputs, node.inputs, strict=True))
    words = f"{counted(changed, 'operand')} of {node.op} '{node.name}' get{'s' * (changed == 1)} the rows of the batch"
    return Batched((*nodes, node.replace(inputs=tuple(inputs))), constants, words, types)


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
