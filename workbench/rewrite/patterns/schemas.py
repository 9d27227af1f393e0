"""ONNX's operator definitions, for what patterns leave implicit."""

from __future__ import annotations

from functools import cache

from onnx import defs

from workbench.ir import Graph, Node


@cache
def operand_names(operator: str, opset: int, domain: str = "") -> tuple[str, ...]:
    """ONNX's names of the operands, in order; empty for an operator that it does not define."""
    if not defs.has(operator, opset, domain):
        return ()
    return tuple(operand.name for operand in defs.get_schema(operator, opset, domain).inputs)


@cache
def later_opset(operator: str, opset: int) -> int:
    """The opset that introduced ONNX's operator, if later than this one; else 0."""
    if defs.has(operator, opset, ""):
        return 0  # all schemas with their history take 30 ms
    versions = [s.since_version for s in defs.get_all_schemas_with_history() if s.name == operator and not s.domain]
    first = min(versions, default=0)
    return first if first > opset else 0


def opset_of_node(graph: Graph, node: Node) -> int:
    """The opset that applies to the node."""
    return graph.opset_imports.get(node.domain, 1)
