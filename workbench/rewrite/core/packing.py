"""Exact rewrites after which ONNX Runtime computes a node with another kernel."""

from __future__ import annotations

from workbench.ir import Edit, Graph, Node

# Operands that ONNX Runtime prepacks if they are constants; products of packed matrices are summed in another
# order (1.31: for 91 of 210 shapes of MatMul, 92 of Gemm, 25 of 54 of LSTM, 14 of GRU the last bit differs).
PACKED = {"MatMul": (1,), "Gemm": (1,), "LSTM": (1, 2), "GRU": (1, 2)}


def newly_prepacked(graph: Graph, edit: Edit) -> Node | None:
    """A node with a packed operand that is computed before the edit and constant after it; None if there is none."""
    new_constants = {value for value, tensor in edit.constants.items() if tensor is not None}
    computed = {value for value in new_constants if graph.producer(value) is not None}
    computed |= {old for old, new in edit.followed.items() if new in new_constants or new in graph.constants}
    for value in computed - set(graph.constants):
        for reader in graph.users(value):
            if value in _packed(reader):
                return reader
    return None


def _packed(node: Node) -> tuple[str, ...]:
    return tuple(node.inputs[i] for i in PACKED.get(node.op, ()) if i < len(node.inputs))
