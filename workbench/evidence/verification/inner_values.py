"""Which values inside of a graph are recorded, and where they have channels."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from workbench.analysis.inference.bound_sizes import bound_types
from workbench.ir import DataType, Graph, Node, TensorType
from workbench.ir.types import ValueType
from workbench.ops import contract_of
from workbench.planning.layout.infer import TENSOR, infer_layouts

MOST_BYTES = 2**27  # of the values of a run; the largest are left out first
_FEW_AXES = 3  # values of fewer have no channels
_PRODUCTS = ("convolution", "matmul", "quantization")  # categories of operators that sum products with weights


@dataclass(frozen=True)
class InnerValues:
    """The tensors that nodes of a graph compute, outputs excepted, in topological order.

    recorded:   those that fit MOST_BYTES together, and those of unknown size.
    unrecorded: the sizes of the others. large: of those of float32 among them, by name.
    """

    recorded: tuple[str, ...]
    unrecorded: frozenset[tuple[int, ...]]
    large: Mapping[str, tuple[int, ...]]


def inner_values(graph: Graph, dims: Mapping[str, int]) -> InnerValues:
    types = _types(graph, dims)
    sizes = {value: getattr(type_, "bytes", None) for value, type_ in types.items()}
    total = sum(size or 0 for size in sizes.values())
    excluded = set()
    for value in sorted(sizes, key=lambda value: -(sizes[value] or 0)):
        if total <= MOST_BYTES:
            break
        excluded.add(value)
        total -= sizes[value] or 0
    large, unrecorded = {}, set()
    for value in excluded:
        type_ = types[value]
        if not isinstance(type_, TensorType) or type_.static_shape is None:
            continue
        unrecorded.add(type_.static_shape)
        if type_.dtype == DataType.FLOAT:
            large[value] = type_.static_shape
    return InnerValues(tuple(value for value in types if value not in excluded), frozenset(unrecorded), large)


def _types(graph: Graph, dims: Mapping[str, int]) -> dict[str, ValueType | None]:
    """The type of each value that can be recorded, None if unknown."""
    bound = graph.copy()
    bound.dims = {**graph.dims, **dims}
    known = {**graph.types, **bound_types(bound)}
    results: dict[str, ValueType | None] = {}
    for node in graph.nodes:
        for value in node.outputs:
            type_ = known.get(value)
            is_tensor = type_ is None or hasattr(type_, "dtype")
            if value and is_tensor and value not in graph.outputs and getattr(type_, "dtype", None) != DataType.STRING:
                results[value] = type_
    return results


def in_order(graph: Graph, values: Collection[str]) -> list[str]:
    """These values and the outputs that nodes compute, in topological order."""
    chosen = {*values, *graph.outputs}
    return [value for node in graph.nodes for value in node.outputs if value in chosen]


def axes_of_channels(graph: Graph, values: Collection[str]) -> dict[str, int]:
    """The axis of the channels of each value that is multiplied by weights: C of an image's layout, else the last axis.

    A weight is tried only where its channel is more than one number. Values of fewer than three axes have no channels.
    """
    layouts, recorded = infer_layouts(graph), {*values}
    results = {}
    multiplied = {value for node in graph.nodes if _is_product(node) for value in node.inputs[:1]}
    for value in sorted(multiplied & recorded):
        type_, layout = graph.tensor_type(value), layouts.get(value, TENSOR)
        if type_ is None or type_.shape is None or len(type_.shape) < _FEW_AXES or not type_.dtype.is_floating_point():
            continue
        results[value] = layout.index("C") if "C" in layout and layout != TENSOR else len(type_.shape) - 1
    return results


def _is_product(node: Node) -> bool:
    contract = contract_of(node)
    return contract is not None and contract.category in _PRODUCTS
