"""Which operators can run in float32 and in a narrower type, by their schemas, and in which of the two they run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import defs

from workbench.ir import DataType, Graph, Node
from workbench.ir.types import Constant, OpaqueType, constant, constant_shape, lazy_constant, numpy_name
from workbench.ops.channels_last import plain_op

WIDE = DataType.FLOAT
NARROW_TYPES = {"float16": DataType.FLOAT16, "bfloat16": DataType.BFLOAT16}
_LARGEST = {DataType.FLOAT16: 65504.0, DataType.BFLOAT16: float.fromhex("0x1.fep127")}
_SMALLEST = {DataType.FLOAT16: 2.0**-24, DataType.BFLOAT16: 2.0**-133}
_DIGITS = {DataType.FLOAT16: 11, DataType.BFLOAT16: 8}
# The attribute that states the type of the result.
_STATED = {"Cast": "to", "ConstantOfShape": "value", "DequantizeLinear": "output_dtype"}


class NotConvertible(Exception):
    """The operator cannot run in the other type; the message is a sentence that says why."""


@dataclass(frozen=True)
class FloatCall:
    """The operands and results of an operator that change their type with it, and the type that they have.

    inputs, outputs: indices. attribute: the one that states the type of the results, "" if operands decide it.
    """

    dtype: DataType
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attribute: str = ""

    def stated(self, graph: Graph, node: Node, dtype: DataType) -> Node:
        """The node with results of this type, as far as an attribute states it."""
        if not self.attribute:
            return node
        others = {key: value for key, value in node.attributes.items() if key != self.attribute}
        if node.op == "DequantizeLinear" and dtype_of(graph, node.inputs[1]) == dtype:
            return node.replace(attributes=others)  # the type of the scale is that of the result without it
        stated = filled_with(node).astype(dtype.numpy()) if node.op == "ConstantOfShape" else None
        value = dtype.value if stated is None else constant(stated)
        return node.replace(attributes={**others, self.attribute: value})


def filled_with(node: Node) -> np.ndarray:
    """The element of a ConstantOfShape, in one dim."""
    tensor = node.attr("value")
    return np.zeros(1, np.float32) if tensor is None else np.asarray(tensor.numpy())


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
    if node.op == "Cast" and dtype_of(graph, node.inputs[0]) in (None, DataType.STRING, WIDE, narrow):
        raise NotConvertible(f"{node} states its element types itself")
    if node.bodies:
        raise NotConvertible(f"{node} holds bodies, whose types are part of it")
    schema = schema_of(graph, node)
    if schema is None:
        raise NotConvertible(f"{node} is not an ONNX operator, so the types that it takes are not known")
    if node.op != "DequantizeLinear" and graph.constants.keys() >= set(node.operands):
        raise NotConvertible(f"{node} reads constants alone, so it is computed before the run")
    stated = _stated_call(graph, node, narrow, schema)
    if stated is not None:
        return stated
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
    if not inputs:
        raise NotConvertible(f"{node} reads no float that may be {numpy_name(narrow)} by its schema")
    shared = [f.type_str for value, f in parameters if value not in graph.constants and is_float(graph, value, narrow)]
    dtypes = {dtype_of(graph, value) for value, formal in parameters if formal.type_str in letters.intersection(shared)}
    inputs = [i for i in inputs if dtype_of(graph, node.inputs[i]) in dtypes]  # Resize's roi may be in another type
    if len(dtypes) != 1:
        which = "floats of several types" if dtypes else "no computed float"
        raise NotConvertible(f"{node} reads and gives {which}")
    return FloatCall(dtypes.pop() or WIDE, tuple(inputs), tuple(outputs))


def _stated_call(graph: Graph, node: Node, narrow: DataType, schema: defs.OpSchema) -> FloatCall | None:
    """The call if an attribute states the type of its result; None if operands decide it.

    A DequantizeLinear gives the type of its scale, which is cast then. It states the type of its result if it does so
    already, or if its scale would lose digits and it gives a stored vector, as biases are, at the opsets that have the
    attribute. ONNX Runtime's fusions of matrices (MatMulNBits, moved Transposes) pass over the attribute.
    """
    attribute = _STATED.get(node.op)
    dtype = dtype_of(graph, node.outputs[0])
    if attribute not in schema.attributes or dtype not in (WIDE, narrow):
        return None
    if f"tensor({narrow.name.lower()})" not in schema.outputs[0].types:
        return None
    if node.op == "DequantizeLinear" and not node.attr(attribute):
        scale = graph.constant(node.inputs[1])
        is_stored_vector = node.inputs[0] in graph.constants and graph.rank_of(node.outputs[0]) in (0, 1)
        if scale is None or scale.dtype not in (WIDE, narrow) or not is_stored_vector or keeps_digits(scale, narrow):
            return FloatCall(dtype, (1,), (0,))
    return FloatCall(dtype, (), (0,), attribute)


def keeps_digits(tensor: Constant, narrow: DataType, largest_counts: bool = False) -> bool:
    """Whether rounding to the type changes each number by half a unit of its last digit at most: none becomes 0,
    infinite, or a subnormal number with fewer digits.

    largest_counts: whether a smaller number may change by as much as the largest.
    """
    numbers = tensor.numpy().astype(np.float32)
    with np.errstate(over="ignore"):
        changes = np.abs(numbers.astype(narrow.numpy()).astype(np.float32) - numbers)
    magnitudes = np.abs(numbers).max(initial=0) if largest_counts else np.abs(numbers)
    return bool((changes <= magnitudes * 2.0 ** -_DIGITS[narrow]).all())


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
