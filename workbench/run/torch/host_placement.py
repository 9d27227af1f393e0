"""Which values stay in the CPU's memory while the rest of the graph runs on a device.

Shapes, axes and pads are read as numbers. Where they were computed on a GPU
each such reading would wait for it; so the arithmetic that leads to them, as
far as it starts from constants and from shapes, runs on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterable

from workbench.ir import Graph, Node
from workbench.ops.contract import contract_of

SHAPE_ONLY = frozenset({"Shape", "Size"})  # they read where the operand's dims stand, not its elements
_SMALL = 64  # elements; an input of no more may be a shape
_LIGHT = frozenset({"elementwise", "activation", "movement", "reduction", "shape", "sequence"})


def host_values(graph: Graph, outside: Iterable[str] = ()) -> frozenset[str]:
    """Values to keep on the CPU: read as numbers, and computed from nothing but shapes, constants and small inputs.

    outside: values that a body captures, of which the CPU may hold a copy.
    Values of the enclosing graph that a body reads as numbers count as wanted there.
    """
    reachable = set(outside) | set(graph.constants) | {v for v in graph.inputs if _is_small(graph, v)}
    for node in graph.nodes:
        if node.op in SHAPE_ONLY or (_is_light(node) and all(v in reachable for v in node.operands)):
            reachable.update(v for v in node.outputs if v)
    wanted: set[str] = set()
    for node in reversed(graph.nodes):
        wanted.update(_read_as_numbers(node, reachable))
        if node.op not in SHAPE_ONLY and any(v in wanted for v in node.outputs) and node.outputs[0] in reachable:
            wanted.update(node.operands)
    return frozenset(wanted & reachable)


def _read_as_numbers(node: Node, reachable: set[str]) -> set[str]:
    contract = contract_of(node)
    names = {node.inputs[i] for i in contract.host_inputs if i < len(node.inputs)} if contract else set()
    for body in node.bodies.values():
        captured = [v for v in body.captured if v in reachable]
        names |= host_values(body, captured) & set(captured)
    return names


def _is_light(node: Node) -> bool:
    contract = contract_of(node)
    return contract is not None and not node.bodies and contract.category in _LIGHT


def _is_small(graph: Graph, value: str) -> bool:
    type_ = graph.tensor_type(value)
    return type_ is not None and type_.elements is not None and type_.elements <= _SMALL
