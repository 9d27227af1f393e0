"""What operators have to do: floating-point operations, and bytes read and written at least once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.ir import Graph, TensorType
from workbench.ir.types import DataType
from workbench.ops import contract_of

_NARROW = {"float16": DataType.FLOAT16, "bfloat16": DataType.BFLOAT16}


def with_work(
    operators: list[dict[str, Any]], graph: Graph, types: Mapping[str, TensorType], dtype: str
) -> list[dict[str, Any]]:
    """The operators, each with `flops` and `bytes` of one call, None where they are not known.

    types: of all values, with the dims of the run.
    dtype: what floats were in; in "mixed" their bytes are counted as float32's. An
    operator whose results are views of its operands reads and writes nothing.
    """
    narrow = _NARROW.get(dtype)
    if narrow is not None:
        types = {v: TensorType(narrow, t.shape) if t.dtype == DataType.FLOAT else t for v, t in types.items()}
    nodes = {node.name: node for node in graph.nodes}
    found = []
    for operator in operators:
        node = nodes.get(operator["name"])
        contract = None if node is None else contract_of(node)
        if node is None or contract is None:
            found.append({**operator, "flops": None, "bytes": None})
            continue
        ins = [types.get(value) if value else None for value in node.inputs]
        outs = [types.get(value) if value else None for value in node.outputs]
        flops = contract.count_flops(node, ins, outs)
        is_view = operator.get("allocated_bytes") == 0 and not flops
        found.append({**operator, "flops": flops, "bytes": 0 if is_view else contract.count_bytes(ins, outs)})
    return found
