"""A product as one number times values, independent of its grouping into nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from workbench.ir import Graph, Node, constant_shape

_MAX_DEPTH = 4  # the deepest nesting of products, so that long chains are not walked from each node
_TOLERANCE = 2 * float(np.finfo(np.float32).eps)


def is_near(number: float, target: float) -> bool:
    """Whether both numbers are equal up to the rounding of one or two float32 operations."""
    return math.isclose(number, target, rel_tol=_TOLERANCE)


def number_of(graph: Graph, value: str) -> float | None:
    """The number of a floating-point constant of one element; None for anything else."""
    tensor = graph.constant(value)
    if tensor is None or math.prod(constant_shape(tensor)) != 1 or not tensor.dtype.is_floating_point():
        return None
    return float(tensor.numpy().reshape(()))


@dataclass(frozen=True)
class Reading:
    """A value as a number times values. nodes: the Mul and Div that multiply."""

    number: float
    factors: tuple[str, ...]
    nodes: tuple[Node, ...]


def readings(graph: Graph, value: str) -> Iterator[Reading]:
    """The readings of a value as a product: flattened through factors with a single user, and as itself."""
    node = graph.producer(value)
    if node is not None and node.op in ("Mul", "Div") and len(node.inputs) == 2:
        flattened = _flattened(graph, node, _MAX_DEPTH)
        if flattened is not None:
            yield flattened
    yield Reading(1.0, (value,), ())


def _flattened(graph: Graph, node: Node, depth: int) -> Reading | None:
    """The product that the node computes, with nested products multiplied out; None if a divisor is computed."""
    number, factors, nodes = 1.0, [], [node]
    for index, value in enumerate(node.inputs):
        divides = node.op == "Div" and index == 1
        factor = number_of(graph, value)
        if factor is not None and not (divides and factor == 0):
            number *= 1 / factor if divides else factor
            continue
        if divides:
            return None
        nested = _flattened_operand(graph, value, depth)
        if nested is None:
            factors.append(value)
            continue
        number *= nested.number
        factors += nested.factors
        nodes += nested.nodes
    return Reading(number, tuple(factors), tuple(nodes))


def _flattened_operand(graph: Graph, value: str, depth: int) -> Reading | None:
    """The value with nested products multiplied out; None unless it is a product with a single user."""
    node = graph.producer(value)
    if node is None or node.op not in ("Mul", "Div") or len(node.inputs) != 2 or depth == 0:
        return None
    if graph.is_output(value) or graph.count_users(value) > 1:
        return None
    return _flattened(graph, node, depth - 1)
