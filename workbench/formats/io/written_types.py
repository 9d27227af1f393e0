"""The types that an exported model declares: those inferred from its inputs, for outputs combined with those that
the user's file declares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import onnx_ir

from workbench.analysis.inference.shapes import infer_types, is_generated_symbol
from workbench.errors import UserError
from workbench.formats.io.empty_results import give_collected
from workbench.ir import Edit, Graph, TensorType, ValueType
from workbench.ir.permutation import inverse
from workbench.ir.permuted_io import output_order
from workbench.ir.retyping import retyped
from workbench.ir.types import Dim, OpaqueType


class ContradictedOutput(UserError):
    """After the passes an output has another size than the model declares."""


def with_written_types(graph: Graph) -> Graph:
    """The graph with the types that the file to be written will declare.

    Sizes with a symbol that inference generated are left open, since other runtimes generate their own. So are sizes of
    tensors in a sequence, which may differ. Outputs must have a type. Raises ContradictedOutput.
    """
    input_dims = {dim for value in graph.inputs for dim in graph.shape(value) or ()}
    kept, has_inputs_of_file = graph.kept, _has_inputs_of_file(graph)

    def written(type_: ValueType) -> ValueType:
        if isinstance(type_, OpaqueType):
            return OpaqueType(type_.type) if _holds_tensors(type_) else type_  # without the shape of its tensors
        if type_.shape is None:
            return type_
        return type_.with_shape(
            tuple(dim if dim in input_dims or not is_generated_symbol(dim) else None for dim in type_.shape)
        )

    typed = retyped(graph, written)
    give_collected(typed)
    outputs = [value for value in graph.outputs if not graph.is_input(value) and value not in graph.constants]
    incomplete_outputs = [
        v for v in outputs if graph.type(v) is None or (graph.tensor_type(v) and graph.shape(v) is None)
    ]
    inferred = infer_types(graph, {}) if incomplete_outputs else {}
    for value in outputs:
        inferred_type = inferred.get(value, graph.types.get(value))
        written_type = None if inferred_type is None else written(inferred_type)
        followed, declared = (_as_given(graph, value, types.get(value)) for types in (kept.followed, kept.outputs))
        if has_inputs_of_file and contradict(inferred_type, followed):
            raise ContradictedOutput(
                f"output '{value}' would be {inferred_type}, and is {followed} in the model: a rewrite changed it; "
                "leave that pass out, and report it"
            )
        type_ = _output_type(written_type, declared, has_inputs_of_file)
        if type_ is not None and type_ != typed.types.get(value):
            typed.apply(Edit(types={value: type_}))
    return typed


def _holds_tensors(type_: OpaqueType) -> bool:
    return isinstance(type_.type, onnx_ir.SequenceType | onnx_ir.OptionalType)


def in_own_order(graph: Graph, value: str, type_: ValueType) -> ValueType:
    """The type of an output of this file, with axes in the order of the model from which the file was made."""
    order = output_order(graph, value)
    if order is None or not isinstance(type_, TensorType) or type_.rank != len(order):
        return type_
    return type_.permuted(inverse(order))


def _as_given(graph: Graph, value: str, type_: ValueType | None) -> ValueType | None:
    """The opposite: with axes in the order in which the graph returns them."""
    order = output_order(graph, value)
    if order is None or not isinstance(type_, TensorType) or type_.rank != len(order):
        return type_
    return type_.permuted(order)


def untrue_outputs(followed: Mapping[str, ValueType], declared: Mapping[str, ValueType]) -> list[str]:
    """A sentence for each output of which the file declares other sizes than follow from its inputs."""
    return [
        f"output '{value}' is declared as {type_}, and is {followed[value]}; what is declared is written again"
        for value, type_ in declared.items()
        if _has_numbers(type_) and contradict(followed.get(value), type_)
    ]


def _has_numbers(type_: ValueType) -> bool:
    return isinstance(type_, TensorType) and any(isinstance(size, int) for size in type_.shape or ())


def contradict(one: ValueType | None, other: ValueType | None) -> bool:
    """Whether the types have other numbers of axes, or other sizes, as far as these are known."""
    if not isinstance(one, TensorType) or not isinstance(other, TensorType) or one.shape is None or other.shape is None:
        return False
    if len(one.shape) != len(other.shape):
        return True
    pairs = zip(one.shape, other.shape, strict=True)
    return any(isinstance(size, int) and isinstance(known, int) and size != known for size, known in pairs)


def _has_inputs_of_file(graph: Graph) -> bool:
    """Whether the sizes of all inputs are those in the file, in any order of their axes."""
    shapes = ((graph.shape(value), graph.kept.inputs.get(value)) for value in graph.inputs)
    return all(
        isinstance(before, TensorType) and Counter(shape or ()) == Counter(before.shape or ())
        for shape, before in shapes
        if before is not None
    )


def _output_type(inferred: ValueType | None, declared: ValueType | None, kept: bool) -> ValueType | None:
    """The declared type, with sizes that say more. kept: whether the inputs have the sizes of the file, so that numbers
    that it declares stay, also where they do not follow."""
    if not isinstance(inferred, TensorType) or not isinstance(declared, TensorType):
        return declared or inferred
    if inferred.shape is None or (kept and _has_numbers(declared) and contradict(inferred, declared)):
        return inferred.with_shape(declared.shape)
    if declared.shape is None or len(declared.shape) != len(inferred.shape):
        return inferred
    pairs = zip(inferred.shape, declared.shape, strict=True)
    return inferred.with_shape(tuple(one if _is_better(one, other, kept) else other for one, other in pairs))


def _is_better(inferred: Dim, declared: Dim, kept: bool) -> bool:
    """Whether the inferred size says more than the declared one. kept: whether declared numbers stay."""
    if isinstance(declared, int):
        return not kept and inferred is not None
    return isinstance(inferred, int) or declared is None
