"""The types that an exported model declares: those inferred from its inputs, for outputs combined with those that
the user's file declares."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir

from workbench.inference.shapes import infer_types, is_generated_symbol
from workbench.ir import Edit, Graph, TensorType, ValueType
from workbench.ir.permuted_io import output_order
from workbench.ir.retyping import retyped
from workbench.ir.types import Dim, OpaqueType


def with_written_types(graph: Graph) -> Graph:
    """The graph with the types that the file to be written will declare.

    Sizes with a symbol that inference generated are left open, since other runtimes generate their own. So are sizes of
    tensors in a sequence, which may differ. Outputs must have a type.
    """
    input_dims = {dim for value in graph.inputs for dim in graph.shape(value) or ()}

    def written(type_: ValueType) -> ValueType:
        if isinstance(type_, OpaqueType):
            return OpaqueType(type_.type) if _holds_tensors(type_) else type_  # without the shape of its tensors
        if type_.shape is None:
            return type_
        return type_.with_shape(
            tuple(dim if dim in input_dims or not is_generated_symbol(dim) else None for dim in type_.shape)
        )

    typed = retyped(graph, written)
    outputs = [value for value in graph.outputs if not graph.is_input(value) and value not in graph.constants]
    incomplete_outputs = [
        v for v in outputs if graph.type(v) is None or (graph.tensor_type(v) and graph.shape(v) is None)
    ]
    inferred = infer_types(graph, {}) if incomplete_outputs else {}
    for value in outputs:
        inferred_type = inferred.get(value, graph.types.get(value))
        type_ = _output_type(
            None if inferred_type is None else written(inferred_type), _declared(graph, value), input_dims
        )
        if type_ is not None and type_ != typed.types.get(value):
            typed.apply(Edit(types={value: type_}))
    return typed


def _holds_tensors(type_: OpaqueType) -> bool:
    return isinstance(type_.type, onnx_ir.SequenceType | onnx_ir.OptionalType)


def _declared(graph: Graph, value: str) -> ValueType | None:
    """The type that the file declares of an output, with axes in the order in which the graph returns them."""
    type_, order = graph.kept.outputs.get(value), output_order(graph, value)
    if order is None or not isinstance(type_, TensorType) or type_.rank != len(order):
        return type_
    return type_.permuted(order)


def _output_type(
    inferred: ValueType | None, declared: ValueType | None, input_dims: Collection[Dim]
) -> ValueType | None:
    """The declared type with the sizes that `_prefers_inferred` names replaced by inferred ones."""
    if not isinstance(inferred, TensorType) or not isinstance(declared, TensorType):
        return declared or inferred
    if inferred.shape is None:
        return inferred.with_shape(declared.shape)
    if declared.shape is None or len(declared.shape) != len(inferred.shape):
        return inferred
    pairs = zip(inferred.shape, declared.shape, strict=True)
    return inferred.with_shape(
        tuple(
            size if _prefers_inferred(size, declared_size, input_dims) else declared_size
            for size, declared_size in pairs
        )
    )


def _prefers_inferred(size: Dim, declared: Dim, input_dims: Collection[Dim]) -> bool:
    """Whether the inferred size is better than the declared one.

    It is if it is a number, or if none is declared. It also is if it is a symbol of an input and the file declares a
    number, which holds for one size of that input only.
    """
    return isinstance(size, int) or declared is None or (isinstance(declared, int) and size in input_dims)
