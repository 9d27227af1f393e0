"""Labels of nodes that do not depend on names, with which nodes of two graphs are compared."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterator
from typing import Any

import onnx_ir

from workbench.ir import AttrRef, Constant, DataType, Graph, Node, constant_shape
from workbench.ops.blocked import parse_blocked
from workbench.ops.channels_last import PLAIN_FORM, parse_channels_last

COMPLETE = "exact"  # operator, attributes, contents of constant operands
SHAPES = "shapes"  # operator, attributes, types of constant operands
BARE = "bare"  # operator, where a channels-last or blocked form is the plain operator
COLOUR = "colour"  # COMPLETE, with that of the neighbours up to three edges away
_ROUNDS = 3
_WEIGHTS = 16  # elements; a larger constant distinguishes its node


class Labels:
    """The labels of a graph's nodes, comparable between two graphs."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._labels: dict[tuple[str, str], int] = {}
        self._contents: dict[str, Hashable] = {}
        self._colours: dict[str, int] | None = None

    def label(self, node: Node, kind: str) -> int:
        """The node's label of that kind, as a hash."""
        if kind == COLOUR:
            return self._all_colours()[node.name]
        key = (node.name, kind)
        if key not in self._labels:
            self._labels[key] = hash(self._label_content(node, kind))
        return self._labels[key]

    def content(self, value: str) -> Hashable:
        """A key of a constant; equal keys mean equal type and bytes."""
        if value not in self._contents:
            self._contents[value] = content_key(self.graph.constants[value])
        return self._contents[value]

    def _label_content(self, node: Node, kind: str) -> Hashable:
        if kind == BARE:
            return _family(node)
        operands = [(i, v) for i, v in enumerate(node.inputs) if v in self.graph.constants]
        if kind == COMPLETE:
            constants: tuple[Hashable, ...] = tuple((i, self.content(v)) for i, v in operands)
        else:
            constants = tuple((i, _type_key(self.graph.constants[v])) for i, v in operands)
        return node.op, len(node.outputs), attributes_key(node), constants

    def _all_colours(self) -> dict[str, int]:
        if self._colours is None:
            input_numbers = {value: index + 1 for index, value in enumerate(self.graph.inputs)}
            colours = {node.name: self.label(node, COMPLETE) for node in self.graph.nodes}
            for _ in range(_ROUNDS):
                colours = {node.name: self._with_neighbours(node, colours, input_numbers) for node in self.graph.nodes}
            self._colours = colours
        return self._colours

    def _with_neighbours(self, node: Node, colours: dict[str, int], input_numbers: dict[str, int]) -> int:
        operand_colours = []
        for value in node.inputs:
            producer = self.graph.producer(value)
            operand_colours.append(input_numbers.get(value, 0) if producer is None else colours[producer.name])
        user_colours = [colours[reader.name] for value in node.outputs if value for reader in self.graph.users(value)]
        are_outputs = tuple(self.graph.is_output(value) for value in node.outputs)
        return hash((colours[node.name], tuple(operand_colours), tuple(sorted(user_colours)), are_outputs))


def has_weights(graph: Graph, node: Node) -> bool:
    """Whether the node reads a constant of more than _WEIGHTS elements."""
    constants = (graph.constant(value) for value in node.inputs)
    return any(t is not None and math.prod(constant_shape(t)) > _WEIGHTS for t in constants)


def _family(node: Node) -> str:
    form = parse_blocked(node.domain, node.op_type) or parse_channels_last(node.domain, node.op_type)
    return node.op if form is None else PLAIN_FORM.get(form.op_type, form.op_type)


def attributes_key(node: Node) -> Hashable:
    """A key of all attributes; bodies are compared by their operators in order, without names."""
    return tuple(sorted((name, _plain(value)) for name, value in node.attributes.items()))


def content_key(tensor: Constant) -> Hashable:
    """A key of a tensor; equal keys mean equal element type, shape and bytes."""
    is_text = tensor.dtype == DataType.STRING
    content = repr(tensor.numpy().tolist()).encode() if is_text else tensor.tobytes()
    return (*_type_key(tensor), hashlib.blake2b(content, digest_size=16).hexdigest())


def _type_key(tensor: Constant) -> tuple[str, tuple[int, ...]]:
    return tensor.dtype.name, constant_shape(tensor)


def _plain(value: Any) -> str:
    """An attribute's complete value as text."""
    if isinstance(value, int | float | str):
        return repr(value)
    if isinstance(value, Graph):
        return f"body {list(_body(value))}"
    if isinstance(value, AttrRef):
        return f"reference {value.name}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_plain, value))})"
    if isinstance(value, onnx_ir.TensorProtocol):
        return f"tensor {content_key(value)}"
    return repr(value)


def _body(graph: Graph) -> Iterator[Hashable]:
    for node in graph.nodes:
        yield node.op, attributes_key(node)
