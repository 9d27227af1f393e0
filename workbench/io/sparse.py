"""Makes sparse weights dense: no rule and no kernel of the workbench reads sparse ones."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir
from onnx import AttributeProto, ModelProto, SparseTensorProto, TensorProto, numpy_helper

from workbench.io.checks import every_graph, every_node
from workbench.io.errors import LoadError
from workbench.io.weights import Files

LARGEST_DENSE = 2**31  # bytes


def make_dense(model: ModelProto, files: Files) -> None:
    """Replace sparse initializers, and sparse values of Constants, in place. Raises LoadError."""
    for graph in every_graph(model):
        graph.initializer.extend(dense(sparse, files) for sparse in graph.sparse_initializer)
        del graph.sparse_initializer[:]
    for node in every_node(model):
        for attribute in node.attribute if node.op_type == "Constant" else ():
            if attribute.type != AttributeProto.SPARSE_TENSOR:
                continue
            value = dense(attribute.sparse_tensor, files)
            attribute.Clear()
            attribute.name, attribute.type = "value", AttributeProto.TENSOR
            attribute.t.CopyFrom(value)


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
