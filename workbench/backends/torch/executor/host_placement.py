"""Chooses the values that stay in the CPU's memory while the rest of the graph runs on a device.

Shapes, axes and pads are read by the host. If they were computed on a GPU, each
reading would wait for it; so the arithmetic that computes them, as far as it
starts from constants and shapes, runs on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterable

from workbench.ir import Graph, Node
from workbench.ops.contract import contract_of

SHAPE_ONLY = frozenset({"Shape", "Size"})  # they read the operand's dims, not its elements
_SMALL = 64  # elements; a larger input is no shape
_LIGHT = frozenset({"elementwise", "activation", "movement", "reduction", "shape", "sequence"})


def host_values(graph: Graph, outside: Iterable[str] = (), read: Iterable[str] = ()) -> frozenset[str]:
    """Values to keep on the CPU: read by the host, and computed only from shapes, constants and small inputs.

    outside: values that a body captures, of which the CPU may hold a copy.
    read:    results of a body that the host reads, see `results_on_host`.
    Values of the enclosing graph that a body reads on the host are included.
    """
    reachable = set(outside) | set(graph.constants) | {v for v in graph.inputs if _is_small(graph, v)}
    for node in graph.nodes:
        if node.op in SHAPE_ONLY or (_is_light(node) and all(v in reachable for v in node.operands)):
            reachable.update(v for v in node.outputs if v)
    wanted = set(read)
    for node in reversed(graph.nodes):
        wanted.update(_read_as_numbers(node, reachable))
        if node.op not in SHAPE_ONLY and any(v in wanted for v in node.outputs) and node.outputs[0] in reachable:
            wanted.update(node.operands)
    return frozenset(wanted & reachable)


def results_on_host(node: Node, name: str, body: Graph) -> tuple[str, ...]:
    """Results of a node's body, the attribute `name`, that the host reads: whether a Loop goes on."""
    return (body.outputs[0],) if node.op == "Loop" and name == "body" else ()


def _read_as_numbers(node: Node, reachable: set[str]) -> set[str]:
    contract = contract_of(node)
    names = {node.inputs[i] for i in contract.host_inputs if i < len(node.inputs)} if contract else set()
    for name, body in node.bodies.items():
        captured = [v for v in body.captured if v in reachable]
        names |= host_values(body, captured, results_on_host(node, name, body)) & set(captured)
    return names


def _is_light(node: Node) -> bool:
    contract = contract_of(node)
    return contract is not None and not node.bodies and contract.category in _LIGHT


def _is_small(graph: Graph, value: str) -> bool:
    type_ = graph.tensor_type(value)
    return type_ is not None and type_.elements is not None and type_.elements <= _SMALL
