"""Which operators can run in float32 and in a narrower type, by their schemas, and in which of the two they run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import defs

from workbench.ir import DataType, Graph, Node
from workbench.ir.types import Constant, OpaqueType, constant_shape, lazy_constant, numpy_name
from workbench.ops.channels_last import plain_op

WIDE = DataType.FLOAT
NARROW_TYPES = {"float16": DataType.FLOAT16, "bfloat16": DataType.BFLOAT16}
_LARGEST = {DataType.FLOAT16: 65504.0, DataType.BFLOAT16: float.fromhex("0x1.fep127")}
_SMALLEST = {DataType.FLOAT16: 2.0**-24, DataType.BFLOAT16: 2.0**-133}
_DIGITS = {DataType.FLOAT16: 11, DataType.BFLOAT16: 8}
# Their element types follow from attributes, or are a scale and its result.
_FIXED = ("Cast", "CastLike", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")


class NotConvertible(Exception):
    """The operator cannot run in the other type; the message is a sentence that says why."""


@dataclass(frozen=True)
class FloatCall:
    """The operands and results of an operator that change their type with it, and the type that they have.

    inputs, outputs: indices.
    """

    dtype: DataType
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def largest(dtype: DataType) -> float:
    """The largest finite number of a narrow type."""
    return _LARGEST[dtype]


def smallest_positive(dtype: DataType) -> float:
    """The smallest positive number of a narrow type, a subnormal one."""
    return _SMALLEST[dtype]


def largest_sum(dtype: DataType) -> int:
    """Up to this integer a narrow type represents each; a sum of ones stays there."""
    return int(2 ** _DIGITS[dtype])


def float_call(graph: Graph, node: Node, narrow: DataType) -> FloatCall:
    """The operands and results that are in float32 or `narrow` and change together, by the operator's schema.

    Raises NotConvertible with a sentence if the operator runs in one of the two types only.
    """
    if node.op in _FIXED:
        raise NotConvertible(f"{node} states its element types itself")
    if node.bodies:
        raise NotConvertible(f"{node} holds bodies, whose types are part of it")
    schema = schema_of(graph, node)
    if schema is None:
        raise NotConvertible(f"{node} is not an ONNX operator, so the types that it takes are not known")
    name = f"tensor({narrow.name.lower()})"
    inputs, letters = [], set()
    for index, value in enumerate(node.inputs):
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        if value and is_float(graph, value, narrow) and name in formal.types:
            inputs.append(index)
            letters.add(formal.type_str)
    parameters = (*_with_parameters(node.inputs, schema.inputs), *_with_parameters(node.outputs, schema.outputs))
    for value, formal in parameters:
        type_ = graph.type(value)
        if isinstance(type_, OpaqueType) or (type_ is None and (formal.type_str in letters or _takes_others(formal))):
            raise NotConvertible(f"{node} reads or gives '{value}', which is no tensor, or of a type that is not known")
    outputs = [i for i, value in enumerate(node.outputs) if value and is_float(graph, value, narrow)]
    for index in outputs:
        formal = schema.outputs[min(index, len(schema.outputs) - 1)]
        if formal.type_str not in letters:
            raise NotConvertible(f"{node} gives '{node.outputs[index]}' in a type that no operand decides")
    if not any(node.inputs[index] not in graph.constants for index in inputs):
        raise NotConvertible(f"{node} reads no computed float that may be {numpy_name(narrow)} by its schema")
    values = (*(node.inputs[index] for index in inputs), *(node.outputs[index] for index in outputs))
    dtypes = {dtype_of(graph, value) for value in values}
    if len(dtypes) != 1:
        raise NotConvertible(f"{node} reads and gives floats of several types")
    return FloatCall(dtypes.pop() or WIDE, tuple(inputs), tuple(outputs))


def _with_parameters(
    values: Sequence[str], parameters: Sequence[defs.OpSchema.FormalParameter]
) -> Iterator[tuple[str, defs.OpSchema.FormalParameter]]:
    """Each value of a call with its formal parameter."""
    for index, value in enumerate(values):
        if value:
            yield value, parameters[min(index, len(parameters) - 1)]


def _takes_others(formal: defs.OpSchema.FormalParameter) -> bool:
    """Whether a sequence or optional may stand there."""
    return any(name.startswith(("seq(", "optional(")) for name in formal.types)


def is_type_cast(graph: Graph, node: Node, narrow: DataType) -> bool:
    """Whether the node is a Cast between float32 and `narrow` whose operand and result may stand for each other.

    A Cast to float32 of what was cast to the narrow type is none: it gives the rounded numbers, not those before.
    """
    if node.op != "Cast" or node.inputs[0] in graph.constants:
        return False
    source, target = (dtype_of(graph, value) for value in (node.inputs[0], node.outputs[0]))
    if {source, target} != {WIDE, narrow}:
        return False
    return source == WIDE or not _is_rounded(graph, node.inputs[0], narrow)


def reads_rounded(graph: Graph, node: Node, narrow: DataType) -> bool:
    """Whether the node is a Cast to float32 of what was cast to the narrow type before."""
    return node.op == "Cast" and dtype_of(graph, node.outputs[0]) == WIDE and _is_rounded(graph, node.inputs[0], narrow)


def _is_rounded(graph: Graph, value: str, narrow: DataType) -> bool:
    producer = graph.producer(value)
    return (
        producer is not None
        and producer.op == "Cast"
        and dtype_of(graph, value) == narrow
        and dtype_of(graph, producer.inputs[0]) == WIDE
    )


def cast_constant(tensor: Constant, dtype: DataType) -> Constant:
    """The constant in another type, cast at each access, so that the weight in its file stays the only copy."""

    def cast() -> np.ndarray:
        with np.errstate(over="ignore"):  # such a weight is kept in float32 unless the type of the model is given
            return tensor.numpy().astype(dtype.numpy())

    return lazy_constant(cast, dtype, constant_shape(tensor))


def schema_of(graph: Graph, node: Node) -> defs.OpSchema | None:
    """The schema of the operator; of a channels-last form that of the channels-first one, whose types are the same.

    The body of such a form is written at the opset of the file, which its types do not raise.
    """
    op = plain_op(node)
    domain, _, op_type = op.rpartition(".")
    version = graph.opset_imports.get(domain, 0)
    if op != node.op and graph.file_opset is not None:
        version = min(version, graph.file_opset)
    return defs.get_schema(op_type, version, domain) if version and defs.has(op_type, version, domain) else None


def dtype_of(graph: Graph, value: str) -> DataType | None:
    """The element type of a value; None if it is not known."""
    type_ = graph.tensor_type(value)
    return None if type_ is None else type_.dtype


def is_float(graph: Graph, value: str, narrow: DataType) -> bool:
    """Whether the value is in float32 or in `narrow`."""
    return dtype_of(graph, value) in (WIDE, narrow)
