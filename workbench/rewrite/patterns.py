"""Finding a standard operator in the nodes that it was decomposed into, from the last of them backward."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.ir import Constant, DataType, Edit, Graph, Node, ValueType, constant_shape
from workbench.rewrite.rule import NoMatch, Rewrite

_OPENED = 4  # products in a row that are looked into, so that a long chain is not walked from each of its nodes
_ROUNDED = 2 * float(np.finfo(np.float32).eps)


def is_near(number: float | None, wanted: float) -> bool:
    """Is it the wanted number, as float32 holds it after one or two operations?"""
    return number is not None and math.isclose(number, wanted, rel_tol=_ROUNDED)


def number_of(graph: Graph, value: str) -> float | None:
    """The number of a constant of one element."""
    tensor = graph.constant(value)
    if tensor is None or math.prod(constant_shape(tensor)) != 1:
        return None
    return float(tensor.numpy().reshape(())) if tensor.dtype.is_floating_point() else None


def producer_of(graph: Graph, value: str | None, *operators: str) -> Node | None:
    """The node that makes `value` where it is one of these operators."""
    node = graph.producer(value) if value else None
    return node if node is not None and node.op in operators else None


def either_order(values: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Two values in both orders; nothing where they are not two."""
    if len(values) == 2:
        yield values[0], values[1]
        yield values[1], values[0]


def factors(graph: Graph, node: Node) -> tuple[float, list[str]]:
    """The result of a Mul or Div as a number times values, products that only it reads opened.

    A value with two readers is not opened: it is what the operator that is looked for works on.
    """
    return _factors(graph, node, _OPENED)


def _factors(graph: Graph, node: Node, depth: int) -> tuple[float, list[str]]:
    number, values = 1.0, []
    for place, value in enumerate(node.inputs):
        divides = node.op == "Div" and place == 1
        own = number_of(graph, value)
        if own is not None and not (divides and own == 0):
            number *= 1 / own if divides else own
            continue
        inner = producer_of(graph, value, "Mul", "Div")
        if divides:
            values.append("")  # one over a value is no factor
        elif inner is None or depth == 0 or graph.is_output(value) or len(graph.users(value)) > 1:
            values.append(value)
        else:
            inside, opened = _factors(graph, inner, depth - 1)
            number *= inside
            values += opened
    return number, values


def is_scaled(graph: Graph, value: str, wanted: float, *of: str) -> bool:
    """Is `value` the wanted number times the values `of`?"""
    node = producer_of(graph, value, "Mul", "Div")
    number, values = (1.0, [value]) if node is None else factors(graph, node)
    return is_near(number, wanted) and sorted(values) == sorted(of)


def added(graph: Graph, value: str) -> tuple[str, float]:
    """The value to which an Add brings a number, and the number; ("", 0.0) where it is no such Add."""
    node = producer_of(graph, value, "Add")
    for other, constant in either_order(node.inputs if node else ()):
        number = number_of(graph, constant)
        if number is not None:
            return other, number
    return "", 0.0


def between(graph: Graph, last: Node, sources: Sequence[str]) -> tuple[Node, ...]:
    """The nodes that compute `last` from `sources` and constants, in topological order.

    Raises NoMatch where anything else needs what they compute on the way.
    """
    nodes: dict[str, Node] = {}
    _gather(graph, last, sources, nodes)
    for node in nodes.values():
        if node.name == last.name:
            continue
        for value in node.outputs:
            other = next((user for user in graph.users(value) if user.name not in nodes), None)
            if other is not None:
                raise NoMatch(f"{other} reads '{value}' of {node} too")
            if graph.is_output(value):
                raise NoMatch(f"'{value}' of {node} is an output of the graph")
    return tuple(nodes.values())


def _gather(graph: Graph, node: Node, sources: Sequence[str], nodes: dict[str, Node]) -> None:
    """Put the node behind those that it needs."""
    for value in node.inputs:
        maker = None if value in sources else graph.producer(value)
        if maker is not None and maker.name not in nodes:
            _gather(graph, maker, sources, nodes)
    nodes[node.name] = node


def recomposed(
    graph: Graph,
    last: Node,
    operands: Sequence[str],
    operator: str,
    opset: int,
    attributes: Mapping[str, Any],
    constants: Mapping[str, Constant] | None = None,
    before: Node | None = None,
) -> Rewrite:
    """The rewrite to one standard operator, which makes what `last` made.

    opset:     of ONNX, in which the operator came.
    constants: those of `operands` that come with the rewrite.
    before:    a Transpose that comes too and makes an operand.

    Raises NoMatch where the model's opset is older, for numbers other than float32, and as `between` does.
    """
    has = graph.opset_imports.get("", 0)
    if has < opset:
        raise NoMatch(f"{operator} came with opset {opset}; this model is of opset {has}")
    source = operands[0]
    for value in (source, last.outputs[0]):
        type_ = graph.tensor_type(value)
        if type_ is None or type_.dtype != DataType.FLOAT or type_.shape is None:
            raise NoMatch(f"'{value}' is not known to be float32 of a known rank")
    if graph.rank_of(source) != graph.rank_of(last.outputs[0]):
        raise NoMatch(f"'{last.outputs[0]}' of {last} has more axes than '{source}'")
    nodes = between(graph, last, (*operands, *(before.inputs if before else ())))
    node = last.replace(op_type=operator, inputs=tuple(operands), attributes=dict(attributes))
    edit = Edit(
        remove=tuple(n.name for n in nodes),
        insert=(before, node) if before else (node,),
        constants=constants or {},
        types=_type_behind(graph, before) if before else {},
    )
    fewer = len(nodes) - len(edit.insert)
    sentence = f"{nodes[0]} to {last}, {len(nodes)} nodes, compute {operator} of '{source}'; {fewer} less"
    return Rewrite(edit, sentence, tuple(n.name for n in nodes))


def _type_behind(graph: Graph, transpose: Node) -> dict[str, ValueType | None]:
    type_ = graph.tensor_type(transpose.inputs[0])
    return {transpose.outputs[0]: type_.permuted(transpose.attr("perm"))} if type_ else {}


@dataclass(frozen=True)
class Standardized:
    """x over the root of its mean square plus epsilon, over these axes; `centered` where the mean is taken off x."""

    x: str
    axes: tuple[int, ...]
    epsilon: float
    centered: bool


def standardized(graph: Graph, node: Node) -> Standardized | None:
    """What the node, a Div or Mul, does to x where it is a normalization's last step before scale and bias."""
    value, under = _over_root(graph, node)
    spread, epsilon = added(graph, under)
    squares, axes = reduced(graph, spread, "ReduceMean")
    if not axes or not 0 < epsilon < 1e30 or not _is_square(graph, squares, value):
        return None
    difference = producer_of(graph, value, "Sub")
    if difference is not None and reduced(graph, difference.inputs[1], "ReduceMean") == (difference.inputs[0], axes):
        return Standardized(difference.inputs[0], axes, epsilon, centered=True)
    return Standardized(value, axes, epsilon, centered=False)


def _over_root(graph: Graph, node: Node) -> tuple[str, str]:
    """a and b of a / sqrt(b), with the reciprocal of the root as a factor too; ("", "") for anything else."""
    if node.op == "Div":
        root = producer_of(graph, node.inputs[1], "Sqrt")
        return (node.inputs[0], root.inputs[0]) if root else ("", "")
    for value, factor in either_order(node.inputs):
        over = producer_of(graph, factor, "Reciprocal", "Div")
        if over is None or (over.op == "Div" and number_of(graph, over.inputs[0]) != 1):
            continue
        root = producer_of(graph, over.inputs[-1], "Sqrt")
        if root is not None:
            return value, root.inputs[0]
    return "", ""


def reduced(graph: Graph, value: str, operator: str) -> tuple[str, tuple[int, ...]]:
    """What a ReduceMean or its like that keeps its axes is of, and the axes from the first; ("", ()) else."""
    node = producer_of(graph, value, operator)
    rank = graph.rank_of(node.inputs[0]) if node else None
    if node is None or rank is None or not node.attr("keepdims", 1):
        return "", ()
    axes = node.attr("axes", ())
    if len(node.inputs) > 1:
        tensor = graph.constant(node.inputs[1])
        axes = () if tensor is None else tensor.numpy().tolist()
    return node.inputs[0], tuple(sorted(axis % rank for axis in axes))


def _is_square(graph: Graph, value: str, of: str) -> bool:
    node = producer_of(graph, value, "Mul", "Pow")
    if node is None or node.inputs[0] != of:
        return False
    return node.inputs[1] == of if node.op == "Mul" else is_power(graph, node, 2)


def is_power(graph: Graph, node: Node, exponent: int) -> bool:
    """Does the Pow raise to this exponent, a constant of one element?"""
    tensor = graph.constant(node.inputs[1])
    return tensor is not None and math.prod(constant_shape(tensor)) == 1 and tensor.numpy().item() == exponent


def only_reader(graph: Graph, value: str, operator: str) -> tuple[Node | None, str]:
    """The node of this operator that alone needs `value`, and its other operand; (None, "") where there is none."""
    readers = graph.users(value)
    if len(readers) != 1 or readers[0].op != operator or graph.is_output(value):
        return None, ""
    other = next((other for one, other in either_order(readers[0].inputs) if one == value), value)
    return (None, "") if other == value else (readers[0], other)


def has_negative_zero(array: np.ndarray) -> bool:
    """Is there a -0.0, which a sum with -0.0 keeps?"""
    return bool(((array == 0) & np.signbit(array)).any())
