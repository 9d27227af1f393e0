"""A product as one number times values, independent of its grouping into nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from workbench.ir import Graph, Node, constant_shape

_OPENED = 4  # depth of nested products that is followed, so that long chains are not walked from each node
_ROUNDED = 2 * float(np.finfo(np.float32).eps)


def is_near(number: float, wanted: float) -> bool:
    """Whether it is the wanted number up to the rounding of one or two float32 operations."""
    return math.isclose(number, wanted, rel_tol=_ROUNDED)


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
        opened = _opened(graph, node, _OPENED)
        if opened is not None:
            yield opened
    yield Reading(1.0, (value,), ())


def _opened(graph: Graph, node: Node, depth: int) -> Reading | None:
    """None if a divisor is computed."""
    number, factors, nodes = 1.0, [], [node]
    for place, value in enumerate(node.inputs):
        divides = node.op == "Div" and place == 1
        own = number_of(graph, value)
        if own is not None and not (divides and own == 0):
            number *= 1 / own if divides else own
            continue
        if divides:
            return None
        inside = _inside(graph, value, depth)
        if inside is None:
            factors.append(value)
            continue
        number *= inside.number
        factors += inside.factors
        nodes += inside.nodes
    return Reading(number, tuple(factors), tuple(nodes))


def _inside(graph: Graph, value: str, depth: int) -> Reading | None:
    """The flattened value, if it is a product with a single user."""
    node = graph.producer(value)
    if node is None or node.op not in ("Mul", "Div") or len(node.inputs) != 2 or depth == 0:
        return None
    if graph.is_output(value) or graph.count_users(value) > 1:
        return None
    return _opened(graph, node, depth - 1)
