"""Makes sparse weights dense: no rule and no kernel of the workbench reads sparse ones. Those that nothing changes are
sparse again in the file that is written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import onnx_ir
from onnx import AttributeProto, ModelProto, SparseTensorProto, TensorProto, numpy_helper

from workbench.formats.io.checks import every_graph, every_node
from workbench.formats.io.errors import LoadError
from workbench.formats.io.weights import Files
from workbench.ir import Edit, Graph, constant_shape
from workbench.ir.function_calls import graphs_within
from workbench.ir.types import SparseConstant

LARGEST_DENSE = 2**31  # bytes


class SparseWeight(NamedTuple):
    """A sparse tensor of a file, with its elements inside. dense: what takes its place."""

    name: str
    message: SparseTensorProto
    dense: TensorProto


def make_dense(model: ModelProto, files: Files) -> list[SparseWeight]:
    """Replace sparse initializers, and sparse values of Constants, in place; returns them. Raises LoadError."""
    found = []
    for graph in every_graph(model):
        for message in graph.sparse_initializer:
            found.append(SparseWeight(message.values.name, _inside(message, files), dense(message, files)))
            graph.initializer.append(found[-1].dense)
        del graph.sparse_initializer[:]
    for node in every_node(model):
        for attribute in node.attribute if node.op_type == "Constant" else ():
            if attribute.type != AttributeProto.SPARSE_TENSOR:
                continue
            message = attribute.sparse_tensor
            found.append(SparseWeight(node.output[0], _inside(message, files), dense(message, files)))
            attribute.Clear()
            attribute.name, attribute.type = "value", AttributeProto.TENSOR
            attribute.t.CopyFrom(found[-1].dense)
    return found


def keep_sparse(graph: Graph, weights: Sequence[SparseWeight]) -> None:
    """Note of each constant of the graph, and of its bodies, that has the elements of one of these that it is sparse in
    the file, in place."""
    for part in graphs_within(graph, graph.functions) if weights else ():
        kept = {}
        for name, message, proto in weights:
            tensor = part.constants.get(name)
            if tensor is None or (tensor.dtype, constant_shape(tensor)) != (proto.data_type, tuple(proto.dims)):
                continue
            if tensor.tobytes() == proto.raw_data:
                kept[name] = SparseConstant(tensor, message)
        part.apply(Edit(constants=kept))


def make_sparse(model: ModelProto, weights: Sequence[SparseWeight]) -> None:
    """The opposite of `make_dense`, in place: initializers, and values of Constants, with the elements of one of these
    become sparse, under any name."""
    known = {_content(dense): message for _, message, dense in weights}
    for graph in every_graph(model) if known else ():
        dense = []
        for tensor in graph.initializer:
            message = known.get(_content(tensor))
            if message is None:
                dense.append(TensorProto.FromString(tensor.SerializeToString()))
                continue
            graph.sparse_initializer.add().CopyFrom(message)
            graph.sparse_initializer[-1].values.name = tensor.name
        del graph.initializer[:]
        graph.initializer.extend(dense)
    for node in every_node(model) if known else ():
        for attribute in node.attribute if node.op_type == "Constant" else ():
            message = known.get(_content(attribute.t)) if attribute.type == AttributeProto.TENSOR else None
            if message is not None:
                attribute.Clear()
                attribute.name, attribute.type = "sparse_value", AttributeProto.SPARSE_TENSOR
                attribute.sparse_tensor.CopyFrom(message)


def _content(tensor: TensorProto) -> tuple[tuple[int, ...], int, bytes]:
    return tuple(tensor.dims), tensor.data_type, tensor.raw_data


def _inside(message: SparseTensorProto, files: Files) -> SparseTensorProto:
    """A copy whose elements are in no other place."""
    copy = SparseTensorProto()
    copy.CopyFrom(message)
    for part in (copy.values, copy.indices):
        if part.data_location == TensorProto.EXTERNAL:
            part.raw_data = files.read(part).tobytes()
            part.ClearField("external_data")
            part.ClearField("data_location")
    return copy


def dense(sparse: SparseTensorProto, files: Files) -> TensorProto:
    """The dense tensor of shape `dims`, with values at `indices`: [NNZ] into the flattened tensor, or [NNZ, rank]."""
    name, shape = sparse.values.name, tuple(sparse.dims)
    known = frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED, TensorProto.STRING}
    if sparse.values.data_type not in known:
        raise LoadError(f"sparse weight '{name}' has an element type that cannot be read; store it as a dense one")
    bytes_ = math.prod(shape) * onnx_ir.DataType(sparse.values.data_type).itemsize
    if any(size < 0 for size in shape) or bytes_ > LARGEST_DENSE:
        raise LoadError(f"sparse weight '{name}' has the shape {list(shape)}, which is not made dense here")
    try:
        values, indices = (files.read(part).numpy() for part in (sparse.values, sparse.indices))
        array = np.zeros(shape, values.dtype)
        if indices.ndim == 1:
            array.reshape(-1)[indices] = values
        else:
            array[tuple(indices.T)] = values
    except (ValueError, IndexError, TypeError):
        raise LoadError(f"sparse weight '{name}' has indices that do not fit its shape {list(shape)}") from None
    result = numpy_helper.from_array(array, name)
    result.data_type = sparse.values.data_type
    return result
