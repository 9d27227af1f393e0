"""Converts one node to blocked channels, as an edit that preserves what the graph computes; and cleans up afterwards.

A blocked node reads blocked images and returns blocked results; a Transpose and a Reshape after each result
restore it for its remaining users. The next node converted reads the blocked result, and a restoring pair that
becomes unused is removed in the same edit. At the end each value is converted from the layout that its operator
returns, once for each layout in which it is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from workbench.analysis.inference.bound_shapes import bound_shape
from workbench.analysis.metrics.transpose_cost import elements, known_sum, moved_by_node
from workbench.ir import Constant, Edit, Graph, Node, TensorType, ValueType, constant
from workbench.ir.permutation import is_identity
from workbench.ir.types import Dim
from workbench.ops.permuted_blocks import blocked_form
from workbench.planning.layout.conversion.convert import Conversion, is_only_reader
from workbench.planning.layout.conversion.reshape import reshape_to
from workbench.planning.layout.conversion.transpose_cleanup import EditWithSentence
from workbench.planning.layout.problem.tiled_axes import (
    BLOCKED,
    Axes,
    TiledAxes,
    axis_lengths_of,
    conversions_of,
    is_conversion,
    joined,
    lengths,
    letters_in_memory,
    letters_of,
    shape_of,
    tiled_axes,
)
from workbench.support.reachability import reachable

_SHAPE = "workbench.shape"  # metadata of nodes that compute the shape operand of a conversion's Reshape: the result


def convert_to_blocks(
    graph: Graph, node: Node, layout: str, block: int, blocked: dict[str, str]
) -> tuple[Conversion, str]:
    """The conversion of the node to blocked images; and what remains unblocked, for the sentence.

    layout:  the layout of its images in the graph.
    blocked: the blocked counterparts of values, by value; those that this edit creates are added.
    Raises NotPermutable with a sentence if the operator has no blocked form.
    """
    form = blocked_form(graph, node, layout, block)
    additions = _Additions(graph, block)
    inputs, existing, moved = list(node.inputs), [], {}
    for index in form.inputs:
        value = node.inputs[index]
        if value in blocked and value not in moved:
            existing.append(value)
        elif value not in blocked:
            blocked[value] = additions.name(f"{value}_nchw{block}c")
            moves = additions.convert(value, graph.tensor_type(value), joined(layout), BLOCKED, blocked[value])
            moved[value] = _element_count(graph, value) if moves else 0
        inputs[index] = blocked[value]
    aligned_inputs = {}
    for index, (op, numbers, shape) in form.aligned_inputs.items():
        inputs[index] = additions.aligned(node.inputs[index], op, numbers, shape)
        aligned_inputs[node.inputs[index]] = f"[{', '.join('?' if dim is None else str(dim) for dim in shape)}]"
    for index, tensor in form.constants.items():
        inputs[index] = additions.name(f"{node.inputs[index]}_nchw{block}c")
        additions.constants[inputs[index]] = tensor
    before = len(additions.nodes)
    outputs = []
    for value, is_blocked in zip(node.outputs, (*form.outputs, *[False] * len(node.outputs)), strict=False):
        if not value or not is_blocked:
            outputs.append(value)
            continue
        type_ = graph.tensor_type(value)
        assert type_ is not None and type_.shape is not None  # otherwise there is no blocked form
        dims = axis_lengths_of(type_.shape, joined(layout), block)
        blocked[value] = additions.name(f"{value}_nchw{block}c")
        in_blocks = type_.with_shape(shape_of(BLOCKED, dims))
        additions.types[blocked[value]] = in_blocks
        additions.convert(blocked[value], in_blocks, BLOCKED, joined(layout), value)
        outputs.append(blocked[value])
    converted = node.replace(
        op_type=form.op_type or node.op_type,
        domain=form.domain or node.domain,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        attributes=node.attributes if form.attributes is None else form.attributes,
    )
    read = {value for new in (*additions.nodes, converted) for value in new.operands}
    dead = [
        name for value in existing if value not in read for name in _restoring_nodes(graph, node, value, blocked[value])
    ]
    edit = Edit(
        remove=(node.name, *dict.fromkeys(dead)),
        insert=(*additions.nodes[:before], converted, *additions.nodes[before:]),
        constants=additions.constants,
        types=additions.types,
    )
    return Conversion(edit, moved, tuple(existing), aligned_inputs=aligned_inputs), form.note


def _element_count(graph: Graph, value: str) -> int | None:
    shape = bound_shape(graph, value)
    return None if shape is None else math.prod(shape)


def _restoring_nodes(graph: Graph, node: Node, value: str, source: str) -> list[str]:
    """The nodes that compute `value` from `source`; none if `value` has users other than this node."""
    removed: list[str] = []
    producer = graph.producer(value) if is_only_reader(graph, node, value) else None
    while producer is not None and producer.op in ("Transpose", "Reshape") and value != source:
        removed += [producer.name, *_shape_nodes(graph, producer)]
        value = producer.inputs[0]
        producer = graph.producer(value)
    return removed


def _shape_nodes(graph: Graph, node: Node) -> Iterator[str]:
    """The nodes that compute the shape operand of a conversion's Reshape."""

    def shape_nodes_before(node: Node) -> Iterator[Node]:
        producers = (graph.producer(value) for value in node.inputs[1:])
        return (producer for producer in producers if producer is not None and _SHAPE in producer.metadata)

    return (found.name for found in reachable(shape_nodes_before(node), shape_nodes_before))


class _Additions:
    """Collects the nodes of conversions, with unique names."""

    def __init__(self, graph: Graph, block: int) -> None:
        self.graph = graph
        self.block = block
        self.nodes: list[Node] = []
        self.constants: dict[str, Constant] = {}
        self.types: dict[str, ValueType] = {}
        self._taken: set[str] = set()

    def name(self, base: str) -> str:
        fresh = self.graph.fresh(base, self._taken)
        self._taken.add(fresh)
        return fresh

    def aligned(self, value: str, op: str, numbers: tuple[int, ...], shape: tuple[Dim, ...]) -> str:
        """Reshape a broadcast operand so that it has an axis for the block; no element moves."""
        result = self.name(f"{value}_nchw{self.block}c")
        type_ = self.graph.tensor_type(value)
        assert type_ is not None  # it has a shape
        operand = self.name(f"{result}_{'axes' if op == 'Unsqueeze' else 'shape'}")
        self.constants[operand] = constant(np.array(numbers, np.int64))
        self._node(op, (value, operand), result, type_.with_shape(shape))
        return result

    def convert(self, source: str, type_: TensorType | None, source_axes: Axes, result_axes: Axes, result: str) -> bool:
        """Add the nodes that convert `source`, an image of that type, to `result`; returns whether elements move."""
        assert type_ is not None and type_.shape is not None  # every image has both
        dims = axis_lengths_of(type_.shape, source_axes, self.block)
        shape = shape_of(result_axes, dims)
        target = (
            reshape_to(shape) if letters_in_memory(source_axes, dims) == letters_in_memory(result_axes, dims) else None
        )
        if target is not None:
            self._node("Reshape", (source, self._constant(result, target)), result, type_.with_shape(shape))
            return False
        split, split_result = tuple(letters_of(source_axes)), tuple(letters_of(result_axes))
        if source_axes != split and result_axes != split_result:  # channels stay whole
            split, split_result = source_axes, result_axes
        if source_axes != split:
            source = self._reshaped(source, source_axes, split, dims, type_, self.name(f"{result}_apart"))
        perm = tuple(split.index(letter) for letter in split_result)
        if not is_identity(perm):
            transposed = result if split_result == result_axes else self.name(f"{result}_apart")
            type_ends = type_.with_shape(shape_of(split_result, dims))
            self._node("Transpose", (source,), transposed, type_ends, perm=perm)
            source = transposed
        if split_result != result_axes:
            self._reshaped(source, split_result, result_axes, dims, type_, result)
        return letters_in_memory(source_axes, dims) != letters_in_memory(result_axes, dims)

    def _reshaped(
        self, source: str, source_axes: Axes, result_axes: Axes, dims: Mapping[str, Dim], type_: TensorType, result: str
    ) -> str:
        """Split the channels into blocks, or join them; dims after them that are unknown are read at runtime."""
        channel_axis = source_axes.index("Cc" if "Cc" in source_axes else "C")
        after = channel_axis + (1 if "Cc" in source_axes else 2)
        shape = shape_of(result_axes, dims)
        numbers = [dim if isinstance(dim, int) else 0 for dim in shape]  # 0 copies the dim on the same axis
        if all(isinstance(dim, int) for dim in shape_of(source_axes, dims)[after:]):
            operand = self._constant(result, np.array(numbers, np.int64))
        else:
            ahead = len(result_axes) - (len(source_axes) - after)
            front = self._constant(result, np.array(numbers[:ahead], np.int64))
            metadata = {_SHAPE: result}
            rest, operand = self.name(f"{result}_rest"), self.name(f"{result}_dims")
            self.nodes.append(
                Node("Shape", (source,), (rest,), {"start": after}, name=self.name(rest), metadata=metadata)
            )
            concat = Node("Concat", (front, rest), (operand,), {"axis": 0}, name=self.name(operand), metadata=metadata)
            self.nodes.append(concat)
        self._node("Reshape", (source, operand), result, type_.with_shape(shape))
        return result

    def _constant(self, result: str, numbers: np.ndarray) -> str:
        name = self.name(f"{result}_shape")
        self.constants[name] = constant(numbers)
        return name

    def _node(self, op: str, inputs: tuple[str, ...], result: str, type_: TensorType, **attributes: object) -> None:
        name = self.name(f"{'to' if op == 'Transpose' else 'shape'}_{result}")
        self.nodes.append(Node(op, inputs, (result,), attributes, name=name))
        if not self.graph.has_value(result):
            self.types[result] = type_


# ---- cleanup --------------------------------------------------------------------------------


def one_conversion_per_layout(
    graph: Graph, layouts: Mapping[str, str], block: int, weigh: str
) -> Iterator[EditWithSentence]:
    """Keep one conversion of a value for each other layout in which it is read, if it has more."""
    known = tiled_axes(graph, layouts, block)
    for root, nodes in list(conversions_of(graph, known)):
        if all(node.op == "Transpose" for node in nodes):
            continue
        members = {root: known[root].axes} | {node.outputs[0]: known[node.outputs[0]].axes for node in nodes}
        dims = lengths(graph, root, members, block, weigh)
        memory = {value: letters_in_memory(axes, dims) for value, axes in members.items()}
        transposes = [node for node in nodes if node.op == "Transpose"]
        moving = [node for node in transposes if memory[node.inputs[0]] != memory[node.outputs[0]]]
        read = [node.outputs[0] for node in nodes if _is_read(graph, node.outputs[0], known)]
        layouts_read = {memory[value] for value in read} - {memory[root]}
        if len(moving) <= len(layouts_read):
            continue
        moved = known_sum(moved_by_node(graph, node) for node in moving[len(layouts_read) :])
        read_in = {0: "no other layout", 1: "1 other layout"}.get(
            len(layouts_read), f"{len(layouts_read)} other layouts"
        )
        times = "once" if len(moving) == 1 else f"{len(moving)} times"
        enough = "; once for each" if layouts_read else ""
        sentence = f"'{root}' is read in {read_in} and converted {times}{enough}; {elements(moved)} no longer moved"
        names = [name for node in nodes for name in (node.name, *_shape_nodes(graph, node))]
        yield _once_each(graph, root, read, members, memory, names, block), sentence, tuple(names)


def _is_read(graph: Graph, value: str, known: Mapping[str, TiledAxes]) -> bool:
    users = [user for user in graph.users(value) if _SHAPE not in user.metadata]
    return graph.is_output(value) or any(not is_conversion(user, known) for user in users)


def _once_each(
    graph: Graph,
    root: str,
    read: list[str],
    axes: Mapping[str, Axes],
    memory: Mapping[str, tuple[str, ...]],
    removed: list[str],
    block: int,
) -> Edit:
    """Convert the first value of each layout from the root, the others of that layout from the first."""
    additions = _Additions(graph, block)
    first, replaced = {memory[root]: root}, {}
    for value in sorted(read, key=lambda value: not graph.is_output(value)):  # an output keeps its name
        source = first.setdefault(memory[value], value)
        source = root if source == value else source
        if axes[source] != axes[value]:
            additions.convert(source, graph.tensor_type(source), axes[source], axes[value], value)
        elif graph.is_output(value):
            additions.nodes.append(Node("Identity", (source,), (value,), name=additions.name(f"same_{value}")))
        else:
            replaced[value] = source
    return Edit(
        remove=tuple(removed),
        insert=tuple(additions.nodes),
        constants=additions.constants,
        types=additions.types,
        replace=replaced,
    )
