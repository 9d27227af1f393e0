"""The oldest version of ONNX's file format (IR) with everything that a graph needs.

From the comments of onnx.proto, and `onnx.helper.VERSION_TABLE`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx
import onnx_ir
from onnx import helper

from workbench.ir.function_calls import graphs_within
from workbench.ir.graph import Graph
from workbench.ir.types import DataType, OpaqueType, SparseConstant, TensorType

_OLDEST = 4  # before it each weight had to be an input
_FUNCTIONS, _DEFAULTS_OF_FUNCTIONS, _OVERLOADS = 8, 9, 10
_OPTIONAL, _DEVICES = 8, 11
_SPARSE = 6
_TYPE_VERSIONS: Mapping[DataType, int] = {
    **dict.fromkeys((DataType.FLOAT8E4M3FN, DataType.FLOAT8E4M3FNUZ, DataType.FLOAT8E5M2, DataType.FLOAT8E5M2FNUZ), 9),
    **dict.fromkeys((DataType.UINT4, DataType.INT4), 10),
    DataType.FLOAT4E2M1: 11,
    DataType.FLOAT8E8M0: 12,
    **dict.fromkeys((DataType.UINT2, DataType.INT2), 13),
    **dict.fromkeys((DataType.FLOAT6E2M3, DataType.FLOAT6E3M2), 14),
}


def lowest_ir(graph: Graph) -> int:
    """The lowest IR version for the graph and its functions; opsets that this onnx does not know are ignored."""
    imports = [helper.make_opsetid(domain, version) for domain, version in graph.opset_imports.items()]
    versions = [_OLDEST, helper.find_min_ir_version_for(imports, ignore_unknown=True)]
    versions += [_DEVICES] * bool(graph.kept.model.configuration)
    for function in graph.functions.values():
        has_defaults = any(default is not None for default in function.attributes.values())
        versions += [_FUNCTIONS, _DEFAULTS_OF_FUNCTIONS if has_defaults else 0, _OVERLOADS if function.overload else 0]
    return max(*versions, *_versions_of_values(graph))


def _versions_of_values(graph: Graph) -> Iterator[int]:
    for part in graphs_within(graph, graph.functions):
        for dtype in {tensor.dtype for tensor in part.constants.values()}:
            yield _TYPE_VERSIONS.get(dtype, 0)
        if any(isinstance(tensor, SparseConstant) for tensor in part.constants.values()):
            yield _SPARSE
        for type_ in set(map(_kind, part.types.values())):
            yield _OPTIONAL if type_ is None else _TYPE_VERSIONS.get(type_, 0)


def _kind(type_: TensorType | OpaqueType) -> DataType | None:
    """The element type of a tensor; None for an optional value."""
    if isinstance(type_, TensorType):
        return type_.dtype
    kind = type_.type
    is_optional = isinstance(kind, onnx_ir.OptionalType) or (
        isinstance(kind, onnx.TypeProto) and kind.WhichOneof("value") == "optional_type"
    )
    return None if is_optional else DataType.UNDEFINED
