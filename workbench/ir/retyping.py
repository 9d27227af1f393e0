"""Changes the types of a graph's values, also in bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.ir.graph import Graph
from workbench.ir.node import Node
from workbench.ir.types import ValueType

Retype = Callable[[ValueType], ValueType]


def retyped(graph: Graph, change: Retype) -> Graph:
    """A copy of the graph with `change` applied to every type."""
    types = {value: change(type_) for value, type_ in graph.types.items()}
    nodes = [retyped_node(node, change) for node in graph.nodes]
    return Graph(**graph.constructor_arguments | {"types": types, "nodes": nodes})


def retyped_node(node: Node, change: Retype) -> Node:
    """The node with the types in its bodies changed; itself if it has none."""
    if not node.bodies:
        return node
    return node.replace(attributes={name: _retyped_attribute(value, change) for name, value in node.attributes.items()})


def _retyped_attribute(value: Any, change: Retype) -> Any:
    if isinstance(value, Graph):
        return retyped(value, change)
    if isinstance(value, tuple) and value and isinstance(value[0], Graph):
        return tuple(retyped(body, change) for body in value)
    return value
