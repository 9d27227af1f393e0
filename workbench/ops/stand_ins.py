"""Stand-ins: nodes of ONNX's operators whose results have the types of an operator's that ONNX does not define.

With them ONNX's shape inference infers these results, symbolic dims included. They are never run. Where there is no
stand-in for a call, its results have no types.
"""

from __future__ import annotations

from typing import Any

from onnx import NodeProto, TensorProto, helper

from workbench.ops.contract import StandIn


def attributes_of(node: NodeProto, *names: str) -> dict[str, Any]:
    """The attributes with these names that the node has."""
    return {a.name: helper.get_attribute_value(a) for a in node.attribute if a.name in names}


def operand(node: NodeProto, index: int) -> str:
    """The name of an operand; "" if it is omitted."""
    return node.input[index] if index < len(node.input) else ""


class Nodes:
    """The nodes that stand in for one node. New values are named after its first result."""

    def __init__(self, node: NodeProto) -> None:
        self.nodes: list[NodeProto] = []
        self._prefix = next(v for v in node.output if v)

    def add(self, op_type: str, inputs: list[str], result: str = "", **attributes: Any) -> str:
        """Add a node, and return the name of its result."""
        result = result or f"{self._prefix}/stand_in/{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [result], **attributes))
        return result

    def as_float(self, value: str) -> str:
        return self.add("Cast", [value], to=TensorProto.FLOAT)


def like_operands(*indices: int | None) -> StandIn:
    """Result i has the type of operand `indices[i]`; None: unknown."""

    def nodes(node: NodeProto) -> list[NodeProto]:
        pairs = zip(indices, node.output, strict=False)
        return [
            helper.make_node("Identity", [node.input[index]], [value])
            for index, value in pairs
            if value and index is not None and operand(node, index)
        ]

    return nodes


def call_of(op_type: str, operands: int, *attributes: str) -> StandIn:
    """The first result is that of `op_type` on the first `operands` operands, with these attributes of the node."""

    def nodes(node: NodeProto) -> list[NodeProto]:
        values = attributes_of(node, *attributes)
        return [helper.make_node(op_type, node.input[:operands], node.output[:1], **values)]

    return nodes
