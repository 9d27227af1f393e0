"""Types with numbers bound to symbolic dims, from the few nodes that introduce new symbols.

ONNX's inference gives each size that it cannot express a new symbol, and propagates the symbol to all values with that
size. Once the nodes with new symbols are inferred with numbers, the types of all other values follow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, numpy_helper
from onnx.shape_inference import InferenceError, infer_node_outputs

from workbench.analysis.inference.shapes import infer_types, with_dims
from workbench.analysis.inference.sizes import Size, symbolic_value_of
from workbench.ir import Graph, Node, TensorType, constant_shape, constant_type
from workbench.ir.to_proto import inside, write_node, write_value
from workbench.ir.types import DataType, Shape

_SMALL = 64  # elements; shapes, axes, pads and scales have fewer


def bound_types(graph: Graph, model: ModelProto | None = None) -> dict[str, TensorType]:
    """The type of every tensor value, constants included, with `graph.dims` bound.

    A size is unknown that comes out negative, since the numbers are too small for a kernel (`sizes_fit`).
    model: the graph as a model without its weights, if the caller has it. It is used if a size does not follow from
    single nodes, so that the whole graph must be inferred.
    """
    return {value: _without_negative(type_) for value, type_ in _as_computed(graph, model).items()}


def sizes_fit(graph: Graph) -> bool:
    """Whether each size, with `graph.dims` bound, is one that a value can have, and no window exceeds its image."""
    if not graph.dims:
        return True
    types = _as_computed(graph)
    if any(isinstance(dim, int) and dim < 0 for type_ in types.values() for dim in type_.shape or ()):
        return False
    windowed = (node for node in graph.nodes if node.op.startswith("Conv") or node.op.endswith("Pool"))
    return all(
        0 in (types[node.inputs[0]].shape or ()) or 0 not in (types[node.outputs[0]].shape or ())
        for node in windowed
        if node.inputs[0] in types and node.outputs[0] in types
    )


def _without_negative(type_: TensorType) -> TensorType:
    if type_.shape is None or not any(isinstance(dim, int) and dim < 0 for dim in type_.shape):
        return type_
    return type_.with_shape(tuple(None if isinstance(dim, int) and dim < 0 else dim for dim in type_.shape))


def _as_computed(graph: Graph, model: ModelProto | None = None) -> dict[str, TensorType]:
    """The types of `bound_types`, with negative sizes."""
    numbers = _symbol_sizes(graph)
    if numbers is None:
        return infer_types(graph, graph.dims, model=model)
    types = {value: type_ for value, type_ in graph.types.items() if isinstance(type_, TensorType)}
    types.update((value, with_dims(type_, numbers)) for value, type_ in types.items())
    types.update((value, constant_type(tensor)) for value, tensor in graph.constants.items())
    return types


def _symbol_sizes(graph: Graph) -> dict[str, int] | None:
    """The number of every symbolic dim of a computed value; None if one does not follow."""
    numbers = dict(graph.dims)
    for node in graph.nodes:
        shapes = {value: graph.shape(value) for value in node.outputs if value}
        if all(_is_known(shape, numbers) for shape in shapes.values()):
            continue
        try:
            inferred = inferred_shapes(graph, node, numbers)
        except InferenceError:  # inference of the whole graph then keeps known types
            return None
        for value, shape in shapes.items():
            sizes = inferred.get(value)
            if shape is None or sizes is None or len(sizes) != len(shape):
                return None
            for dim, size in zip(shape, sizes, strict=True):
                if (numbers.setdefault(dim, size) if isinstance(dim, str) else dim) != size:
                    return None
    return numbers


def _is_known(shape: Shape, numbers: Mapping[str, int]) -> bool:
    return shape is not None and all(isinstance(dim, int) or dim in numbers for dim in shape)


def inferred_shapes(graph: Graph, node: Node, numbers: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The fully known shapes of the node's results, inferred from the types of its operands.

    numbers: by symbol. Raises onnx's InferenceError for operands that the operator does not accept.
    """
    opset = graph.opset_imports.get(node.domain)
    if opset is None or node.bodies or not onnx.defs.has(node.op_type, opset, node.domain):
        return {}
    proto = NodeProto()
    write_node(proto, node, (graph,), inside, metadata=False)
    types, data = {}, {}
    for value in dict.fromkeys(filter(None, node.inputs)):
        type_ = graph.tensor_type(value)
        if type_ is None:
            return {}
        info = ValueInfoProto()
        write_value(info, value, with_dims(type_, numbers))
        types[value] = info.type
        elements = _elements(graph, value, numbers)
        if elements is not None:
            data[value] = elements
    schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in graph.opset_imports.items()]
    result = infer_node_outputs(schema, proto, types, data, opset_imports=imports)
    sized = {
        value: type_.tensor_type.shape.dim for value, type_ in result.items() if type_.tensor_type.HasField("shape")
    }
    return {value: tuple(d.dim_value for d in dims) for value, dims in sized.items() if all(map(_is_number, dims))}


def _is_number(dim: onnx.TensorShapeProto.Dimension) -> bool:
    return bool(dim.HasField("dim_value"))


def _elements(graph: Graph, value: str, numbers: Mapping[str, int]) -> TensorProto | None:
    """The elements of a small constant, or of small integers computed from sizes, as a message; None if not known."""
    tensor = graph.constant(value)
    if tensor is not None:
        is_small = tensor.dtype != DataType.STRING and math.prod(constant_shape(tensor)) <= _SMALL
        return numpy_helper.from_array(tensor.numpy(), value) if is_small else None
    symbolic, type_ = symbolic_value_of(graph, value), graph.tensor_type(value)
    sizes = [] if symbolic is None else [_evaluated(size, numbers) for size in symbolic.sizes]
    if symbolic is None or type_ is None or None in sizes:
        return None
    array = np.array(sizes, type_.dtype.numpy())
    return numpy_helper.from_array(array.reshape(()) if symbolic.is_scalar else array, value)


def _evaluated(size: Size, numbers: Mapping[str, int]) -> int | None:
    total = 0
    for symbols, factor in size.terms:
        for symbol in symbols:
            if symbol not in numbers:
                return None
            factor *= numbers[symbol]
        total += factor
    return total
