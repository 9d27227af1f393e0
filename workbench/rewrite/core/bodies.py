"""A body of If, Loop or Scan as a separate graph, to which rules apply as to any other."""

from __future__ import annotations

from typing import Any

from workbench.analysis.inference.shapes import infer_types
from workbench.ir import Edit, Graph, Node


def opened_body(outside: Graph, body: Graph) -> Graph:
    """A mutable copy of the body; captured values are its inputs, captured constants are its constants."""
    captured = body.captured
    constants = {value: outside.constants[value] for value in captured if value in outside.constants}
    values = [value for value in captured if value not in constants]
    types = {value: type_ for value in values if (type_ := outside.type(value)) is not None}
    inside = Graph(
        name=body.name,
        inputs=(*body.inputs, *values),
        outputs=body.outputs,
        nodes=body.nodes,
        constants={**body.constants, **constants},
        types={**body.types, **types},
        opset_imports=outside.opset_imports,
        functions=outside.functions,
        dims=outside.dims,
        reserved=outside.reserved.union(outside.values()),
    )
    if any(value and inside.type(value) is None for node in inside.nodes for value in node.outputs):
        result = infer_types(inside, {}, again=True)  # loading infers types of the main graph only
        inside.apply(Edit(types={value: type_ for value, type_ in result.items() if value not in inside.constants}))
    return inside


def closed_body(inside: Graph, body: Graph, outside: Graph) -> Graph:
    """The opened body as a body again, which captures the values from outside."""
    constants_inside = {value: tensor for value, tensor in inside.constants.items() if not outside.has_value(value)}
    types = {value: type_ for value, type_ in inside.types.items() if not outside.has_value(value)}
    return Graph(
        name=body.name,
        inputs=body.inputs,
        outputs=inside.outputs,
        nodes=inside.nodes,
        constants=constants_inside,
        types=types,
        opset_imports=body.opset_imports,
        functions=body.functions,
        metadata=body.metadata,
        kept=body.kept,
    )


def with_body(node: Node, key: str, body: Graph) -> Node:
    """The node with the body under `key` (see `Node.bodies`) replaced."""
    name, _, rest = key.partition("[")
    value: Any = node.attributes[name]
    if rest:
        index = int(rest.rstrip("]"))
        value = (*value[:index], body, *value[index + 1 :])
    else:
        value = body
    return node.replace(attributes={**node.attributes, name: value})
