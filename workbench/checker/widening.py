"""A model in float32 in place of narrower types of floats.

What such a model computes otherwise than the original is not due to a Cast: a Cast on the way to an output explains how
far the Cast is off, and no other weight. Weights that were rounded are; how much that does, noise of their size shows.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, numpy_helper

# By type, how far rounding moves a number at most, as a part of it.
_ROUNDOFF: dict[int, float] = {TensorProto.FLOAT16: 2.0**-11, TensorProto.BFLOAT16: 2.0**-8}
_TO_TYPES = ("to", "dtype", "output_dtype")  # attributes that are the type of a result


def widened(proto: ModelProto, narrow: Collection[int], noise: np.random.Generator | None = None) -> ModelProto:
    """A copy with float32 for these types, those in functions and bodies included. It declares no inner values.

    noise: moves each number of a constant by at most what rounding to its type does.
    """
    return _Widening(narrow, noise).model(proto)


def has_constants(proto: ModelProto, narrow: Collection[int]) -> bool:
    """Whether a constant of the model is of one of these types."""
    graphs: list[GraphProto] = [proto.graph]
    nodes = [node for function in proto.functions for node in function.node]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            nodes += graph.node
            if any(tensor.data_type in narrow for tensor in graph.initializer):
                return True
            continue
        for attribute in nodes.pop().attribute:
            if any(tensor.data_type in narrow for tensor in (attribute.t, *attribute.tensors)):
                return True
            graphs += _graphs(attribute)
    return False


def _graphs(attribute: AttributeProto) -> list[GraphProto]:
    return [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]


class _Widening:
    def __init__(self, narrow: Collection[int], noise: np.random.Generator | None) -> None:
        self.narrow, self.noise = narrow, noise

    def model(self, proto: ModelProto) -> ModelProto:
        result = ModelProto()
        result.CopyFrom(proto)
        self._graph(result.graph)
        for function in result.functions:
            del function.value_info[:]
            for attribute in function.attribute_proto:
                self._attribute(attribute)
            for node in function.node:
                self._node(node)
        return result

    def _graph(self, graph: GraphProto) -> None:
        del graph.value_info[:]
        for value in (*graph.input, *graph.output):
            self._declared(value)
        for tensor in graph.initializer:
            self._tensor(tensor)
        for node in graph.node:
            self._node(node)

    def _declared(self, value: ValueInfoProto) -> None:
        """Of a tensor, or of sequences and optional values of tensors."""
        type_ = value.type
        while (kind := type_.WhichOneof("value")) in ("sequence_type", "optional_type"):
            type_ = type_.sequence_type.elem_type if kind == "sequence_type" else type_.optional_type.elem_type
        if type_.HasField("tensor_type") and type_.tensor_type.elem_type in self.narrow:
            type_.tensor_type.elem_type = TensorProto.FLOAT

    def _node(self, node: NodeProto) -> None:
        for attribute in node.attribute:
            self._attribute(attribute)

    def _attribute(self, attribute: AttributeProto) -> None:
        if attribute.name in _TO_TYPES and attribute.type == AttributeProto.INT and attribute.i in self.narrow:
            attribute.i = TensorProto.FLOAT
        for tensor in (*([attribute.t] if attribute.HasField("t") else []), *attribute.tensors):
            self._tensor(tensor)
        for graph in _graphs(attribute):
            self._graph(graph)

    def _tensor(self, tensor: TensorProto) -> None:
        if tensor.data_type not in self.narrow:
            return
        array = numpy_helper.to_array(tensor).astype(np.float64)
        if self.noise is not None:
            array *= 1 + _ROUNDOFF[tensor.data_type] * self.noise.uniform(-1, 1, array.shape)
        tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float32), tensor.name))
