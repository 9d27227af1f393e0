"""The types in a written file: those that follow from its inputs, and what the user's file says of its outputs."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir

from workbench.inference.shapes import infer_types, is_made_up
from workbench.ir import Edit, Graph, TensorType, ValueType
from workbench.ir.permuted_io import given_order
from workbench.ir.retyping import retyped
from workbench.ir.types import Dim, OpaqueType


def with_written_types(graph: Graph) -> Graph:
    """The graph with the types that its file declares.

    Sizes that have only a symbol of inference are left open, since other runtimes have symbols of their own for them;
    so are those of the tensors in a sequence, which need not be of one size. Outputs must have a type.
    """
    given = {dim for value in graph.inputs for dim in graph.shape(value) or ()}

    def written(type_: ValueType) -> ValueType:
        if isinstance(type_, OpaqueType):
            return OpaqueType(type_.type) if _holds_tensors(type_) else type_
        if type_.shape is None:
            return type_
        return type_.with_shape(tuple(dim if dim in given or not is_made_up(dim) else None for dim in type_.shape))

    whole = retyped(graph, written)
    outputs = [value for value in graph.outputs if not graph.is_input(value) and value not in graph.constants]
    open_ = [v for v in outputs if graph.type(v) is None or (graph.tensor_type(v) and graph.shape(v) is None)]
    inferred = infer_types(graph, {}) if open_ else {}
    for value in outputs:
        own = inferred.get(value, graph.types.get(value))
        type_ = _of_output(None if own is None else written(own), _declared(graph, value), given)
        if type_ is not None and type_ != whole.types.get(value):
            whole.apply(Edit(types={value: type_}))
    return whole


def _holds_tensors(type_: OpaqueType) -> bool:
    return isinstance(type_.type, onnx_ir.SequenceType | onnx_ir.OptionalType)


def _declared(graph: Graph, value: str) -> ValueType | None:
    """What the file declares of the output, with its axes in the order in which the graph gives it."""
    type_, order = graph.kept.outputs.get(value), given_order(graph, value)
    if order is None or not isinstance(type_, TensorType) or type_.rank != len(order):
        return type_
    return type_.permuted(order)


def _of_output(own: ValueType | None, declared: ValueType | None, given: Collection[Dim]) -> ValueType | None:
    """A number that follows is written, and in place of a number the symbol of an input that follows; else the file's
    own word stays."""
    if not isinstance(own, TensorType) or not isinstance(declared, TensorType):
        return declared or own
    if own.shape is None:
        return own.with_shape(declared.shape)
    if declared.shape is None or len(declared.shape) != len(own.shape):
        return own
    pairs = zip(own.shape, declared.shape, strict=True)
    return own.with_shape(tuple(size if _follows(size, message, given) else message for size, message in pairs))


def _follows(size: Dim, declared: Dim, given: Collection[Dim]) -> bool:
    return isinstance(size, int) or declared is None or (isinstance(declared, int) and size in given)
