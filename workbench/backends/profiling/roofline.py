"""The work of operators: floating-point operations, and bytes that they must read and write.

The rule for bytes: every operand is read once and every result written once, as
stored in memory. Elements that repeat (stride 0, as after Expand) count once. Gather
and similar operators read as many elements of their table as they write, and all
indices; Shape and similar operators read no element. A result that is a view of an
operand moves nothing. Conversions and copies inside operators, as in autocast, are
not counted, nor are bodies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from workbench.backends.profiling.ceilings import Roofs
from workbench.backends.profiling.profile_result import OperatorRun
from workbench.ir import DataType, Graph, Node, TensorType
from workbench.ops import contract_of
from workbench.planning.fusion.group_calls import group_function

_GATHERING = frozenset({"Gather", "GatherElements", "GatherND", "Slice", "Compress"})  # from their first operand
_UNREAD = {"Shape": 0, "Size": 0, "EyeLike": 0, "RandomNormalLike": 0, "RandomUniformLike": 0, "CastLike": 1}
_FLOATS = {DataType.FLOAT: "float32", DataType.DOUBLE: "float64"} | {
    kind: kind.name.lower() for kind in (DataType.FLOAT16, DataType.BFLOAT16)
}


def moved_bytes(node: Node, sizes: Mapping[str, int | None]) -> int | None:
    """Bytes that one call reads and writes, None if unknown. sizes: bytes of each value."""
    if node.bodies:
        return None
    written = [sizes.get(value) for value in node.outputs if value]
    read = {value: sizes.get(value) for value in node.inputs if value}
    if node.op in _GATHERING:
        read[node.inputs[0]] = sum(size or 0 for size in written)
    if node.op in _UNREAD and len(node.inputs) > _UNREAD[node.op]:
        read[node.inputs[_UNREAD[node.op]]] = 0
    known = [size for size in (*read.values(), *written) if size is not None]
    return sum(known) if len(known) == len(read) + len(written) else None


def with_work(operators: Sequence[OperatorRun], graph: Graph, types: Mapping[str, TensorType]) -> list[OperatorRun]:
    """The operators with `flops`, `bytes` and `dtype`; the latter two stay if the run recorded them.

    types: the types of all values, with the dims of the run.
    """
    nodes = {node.name: node for node in graph.nodes}
    sizes = {value: type_.bytes for value, type_ in types.items() if isinstance(type_, TensorType)}
    results = []
    for operator in operators:
        node = nodes.get(operator.name)
        if node is None or (contract_of(node) is None and group_function(graph, node) is None):
            results.append(operator)
            continue
        outs = [types.get(value) if value else None for value in node.outputs]
        flops = _flops(graph, node, types)
        is_view = operator.allocated_bytes == 0 and flops == 0
        moved = moved_bytes(node, sizes) if operator.bytes is None else operator.bytes
        declared = (_FLOATS[type_.dtype] for type_ in outs if type_ is not None and type_.dtype in _FLOATS)
        dtype = operator.dtype or next(declared, None)
        results.append(replace(operator, dtype=dtype, flops=flops, bytes=0 if is_view else moved))
    return results


def _flops(graph: Graph, node: Node, types: Mapping[str, TensorType]) -> int | None:
    """The FLOPs of one call, for a group the sum over its operators; None if unknown."""
    function = group_function(graph, node)
    if function is not None:
        body = function.graph
        inner = {**body.types, **body.bound_types, **types}
        counts = [_flops(body, member, inner) for member in body.nodes]
        return None if None in counts else sum(count or 0 for count in counts)
    contract = contract_of(node)
    if contract is None or node.bodies:
        return None
    ins, outs = ([types.get(value) if value else None for value in values] for values in (node.inputs, node.outputs))
    return contract.count_flops(node, ins, outs)


def share_of_roof(operator: OperatorRun, ceilings: Mapping[str, Roofs | None]) -> float | None:
    """The share of the lower of its roofs that an operator reaches, 1 at the roof; None if unknown.

    The roof of memory is that of the device, the roof of arithmetic that of the operator's float type.
    operator: as `with_work` gives it. ceilings: by dtype, see `workbench.backends.profiling.ceilings`.
    """
    seconds = operator.time_ms / 1e3
    if not seconds:
        return None
    roof_of_type = ceilings.get(operator.dtype or "")
    known_roof = next((roofs for roofs in ceilings.values() if roofs is not None), None)
    shares = []
    if operator.flops and roof_of_type is not None:
        shares.append(operator.flops / seconds / roof_of_type.flops_per_s)
    if operator.bytes and known_roof is not None:
        shares.append(operator.bytes / seconds / known_roof.bytes_per_s)
    return max(shares, default=None)
