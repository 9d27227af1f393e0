"""Mutants of a graph: one attribute, constant, operator, operand, element type or shape changed in each.

An example that is rewritten and its mutants tell what a rule takes for granted: as in mutation analysis (DeMillo,
Lipton and Sayward, "Hints on Test Data Selection", 1978), with the graph in place of the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import onnx
from onnx.shape_inference import InferenceError

from workbench.evidence.verification.pass_files.example_graphs import rebuilt, shaped_input
from workbench.ir import DataType, Graph, Node, TensorType
from workbench.ir.types import Constant, Dim, constant

_FAMILIES = (  # of operators that take and give the same kinds of values
    ("Identity", "Neg", "Abs", "Relu", "Exp", "Floor", "Reciprocal", "Sqrt"),
    ("Add", "Sub", "Mul", "Div", "Max", "Pow"),
    ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2"),
    ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"),
    ("And", "Or", "Xor"),
    ("BitwiseAnd", "BitwiseOr", "BitwiseXor"),
    ("ArgMax", "ArgMin"),
    ("Softmax", "LogSoftmax", "Hardmax"),
    ("AveragePool", "MaxPool"),
    ("GlobalAveragePool", "GlobalMaxPool"),
    ("Flatten", "Identity"),
)
_TEXTS = {  # what an attribute may also be
    "approximate": ("none", "tanh"),
    "auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    "coordinate_transformation_mode": ("asymmetric", "half_pixel", "align_corners"),
    "direction": ("LEFT", "RIGHT"),
    "mode": ("constant", "reflect", "edge", "nearest", "linear", "DCR", "CRD"),
    "reduction": ("none", "add", "mul", "max", "min"),
}
_LEFT_ALONE = (  # attributes
    *("num_outputs", "batch_dims"),  # at some of their values, which opening refuses, shape inference ends the process
    "saturate",  # with 2, ONNX Runtime gives other numbers each time
)
_ELEMENT_TYPES = (DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.INT32, DataType.INT64, DataType.BOOL)
_AttrType = onnx.defs.OpSchema.AttrType


@dataclass(frozen=True)
class _Change:
    """What is changed, in words, with the parts that take the place of the graph's own."""

    words: str
    nodes: Sequence[Node] | None = None
    constants: Mapping[str, Constant] | None = None
    inputs: Mapping[str, TensorType] = field(default_factory=dict)


def mutants(graph: Graph, every: int = 1) -> Iterator[tuple[str, Graph]]:
    """What was changed, and the graph with that change, unless shape inference refuses it; one in `every` of them."""
    for change in islice(_changes(graph), 0, None, every):
        nodes = graph.nodes if change.nodes is None else change.nodes
        constants = graph.constants if change.constants is None else change.constants
        with suppress(InferenceError):
            yield change.words, rebuilt(graph, nodes, graph.outputs, change.inputs, constants)


def _changes(graph: Graph) -> Iterator[_Change]:
    yield _Change("as it is")
    for i, node in enumerate(graph.nodes):
        for words, changed in (*_attributes(graph, node), *_operators(node), *_operands(graph, i)):
            yield _Change(f"{node}: {words}", nodes=[changed if n is node else n for n in graph.nodes])
        if node.outputs[0] not in graph.outputs and node.operands:
            rest = [n.with_values_renamed({node.outputs[0]: node.operands[0]}) for n in graph.nodes if n is not node]
            yield _Change(f"{node}: left out", nodes=rest)
    for name, tensor in graph.constants.items():
        for words, array in _arrays(tensor.numpy()):
            yield _Change(f"'{name}': {words}", constants={**graph.constants, name: constant(array, name)})
    yield from _element_types(graph)
    yield from _shapes(graph)


def _attributes(graph: Graph, node: Node) -> Iterator[tuple[str, Node]]:
    """Other values of its attributes, none, and values of attributes that it leaves to their default."""
    for key, was in node.attributes.items():
        if key in _LEFT_ALONE:
            continue
        rest = {k: v for k, v in node.attributes.items() if k != key}
        yield f"no {key}", node.replace(attributes=rest)
        for value in _values(key, was):
            if value != was:
                yield f"{key}={value}", node.replace(attributes={**rest, key: value})
    for key, value in _not_the_default(graph, node):
        yield f"{key}={value}", node.replace(attributes={**node.attributes, key: value})


def _values(key: str, was: object) -> Iterator[object]:
    if isinstance(was, int) and key == "to":
        yield from map(int, _ELEMENT_TYPES)
    elif isinstance(was, int):
        yield from (was + 1, was - 1, 1 - was, -1)
    elif isinstance(was, float):
        yield from (2 * was, -was, 0.0, was + 0.5)
    elif isinstance(was, str):
        yield from _TEXTS.get(key, ())
    elif isinstance(was, tuple) and was and isinstance(was[0], int):
        yield was[::-1]
        yield from ((*was[:i], was[i] + 1, *was[i + 1 :]) for i in range(len(was)))
        yield from ((*was[1:], was[0]), (*was[:-2], *was[-2:][::-1]), was[1:], tuple(range(len(was))))


def _not_the_default(graph: Graph, node: Node) -> Iterator[tuple[str, object]]:
    if node.domain or not onnx.defs.has(node.op_type, graph.opset_imports[""], ""):
        return
    rank = next((graph.rank_of(v) for v in node.inputs if v), None) or 0
    for key, attribute in onnx.defs.get_schema(node.op_type, graph.opset_imports[""], "").attributes.items():
        if key in node.attributes or key in _LEFT_ALONE:
            continue
        default = onnx.helper.get_attribute_value(attribute.default_value) if attribute.default_value.name else 0
        if attribute.type == _AttrType.INT:
            yield from ((key, default + 1), (key, default - 1))
        elif attribute.type == _AttrType.FLOAT:
            yield key, default + 0.5
        elif attribute.type == _AttrType.INTS and key in ("strides", "dilations") and rank > 2:
            yield key, (2,) * (rank - 2)
        elif attribute.type == _AttrType.INTS and key == "pads" and rank > 2:
            yield key, (1,) * 2 * (rank - 2)
        elif attribute.type == _AttrType.INTS and key == "perm":
            yield key, tuple(range(rank))
        yield from ((key, text) for text in _TEXTS.get(key, ()))


def _operators(node: Node) -> Iterator[tuple[str, Node]]:
    for family in _FAMILIES:
        if node.op in family:
            yield from ((f"{op} in its place", node.replace(op_type=op)) for op in family if op != node.op)


def _operands(graph: Graph, at: int) -> Iterator[tuple[str, Node]]:
    """With two operands exchanged, one that an earlier value of the same type replaces, or without the last."""
    node = graph.nodes[at]
    there = [v for v in (*graph.inputs, *(o for n in graph.nodes[:at] for o in n.outputs), *graph.constants) if v]
    for i, operand in enumerate(node.inputs):
        for value in there:
            if operand and value != operand and graph.type(value) == graph.type(operand):
                yield (
                    f"'{value}' for '{operand}'",
                    node.replace(inputs=(*node.inputs[:i], value, *node.inputs[i + 1 :])),
                )
    if len(node.inputs) > 1:
        yield "first operands exchanged", node.replace(inputs=(node.inputs[1], node.inputs[0], *node.inputs[2:]))
        yield "without its last operand", node.replace(inputs=node.inputs[:-1])


def _arrays(was: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Other numbers, and the same in another shape."""
    if was.dtype == bool:
        yield "negated", ~was
    elif was.dtype.kind in "iuf":
        with np.errstate(all="ignore"):
            yield "doubled", (was * 2).astype(was.dtype)
            yield "negated", (0 - was).astype(was.dtype)
            yield "one more", (was + 1).astype(was.dtype)
        yield "zeros", np.zeros_like(was)
        yield "ones", np.ones_like(was)
    if was.dtype.kind == "f":
        yield from ((str(number), np.full_like(was, number)) for number in (np.nan, np.inf, -0.0, 1e38))
    if was.size > 1:
        yield "backward", was.ravel()[::-1].reshape(was.shape)
        other = was.copy()
        other.flat[0] = not other.flat[0] if was.dtype == bool else other.flat[0] + 1
        yield "another first element", other
        yield "one element", was.ravel()[:1].reshape((1,) * was.ndim)
        yield "axes reversed", was.T
    yield "an axis before", was[np.newaxis]


def _element_types(graph: Graph) -> Iterator[_Change]:
    """All inputs and constants of one element type with another one, and an input alone."""
    types = {value: shaped_input(graph, value) for value in graph.inputs}
    for was in dict.fromkeys(dtype for dtype, _ in types.values()):
        for dtype in _ELEMENT_TYPES:
            if dtype == was:
                continue
            inputs = {v: TensorType(dtype, shape) for v, (own, shape) in types.items() if own == was}
            cast = {v: _as_type(c, was, dtype) for v, c in graph.constants.items()}
            yield _Change(f"{was.name} is {dtype.name}", constants=cast, inputs=inputs)
            for value, type_ in inputs.items():
                yield _Change(f"'{value}' is {dtype.name}", inputs={value: type_})


def _as_type(tensor: Constant, was: DataType, dtype: DataType) -> Constant:
    if tensor.dtype != was:
        return tensor
    with np.errstate(all="ignore"):
        return constant(tensor.numpy().astype(dtype.numpy()), tensor.name)


def _shapes(graph: Graph) -> Iterator[_Change]:
    """One axis of an input of another size or symbolic, an axis more, or an axis less."""
    for value in graph.inputs:
        dtype, own = shaped_input(graph, value)
        shapes: list[tuple[Dim, ...]] = [(2, *own), own[1:]]
        for axis, size in enumerate(own):
            others: tuple[Dim, ...] = (1, 2 * size, "D") if isinstance(size, int) else (1, 3)
            shapes += [(*own[:axis], other, *own[axis + 1 :]) for other in others]
        for shape in shapes:
            yield _Change(f"'{value}' is {list(shape)}", inputs={value: TensorType(dtype, shape)})
