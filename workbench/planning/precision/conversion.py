"""Running one operator in another element type: Casts of its operands, and of its results for those that read them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.analysis.inference.bound_shapes import bound_shape
from workbench.analysis.metrics.transpose_cost import elements
from workbench.ir import DataType, Edit, Graph, Node
from workbench.ir.types import Constant, TensorType, ValueType, numpy_name
from workbench.planning.layout.conversion.convert import is_only_reader
from workbench.planning.precision.element_types import WIDE, cast_constant, float_call, is_type_cast


@dataclass(frozen=True)
class TypeChange:
    """The edit that runs an operator in another type, and what it says of its operands.

    cast:    operands for which it adds a Cast. reused: operands that exist in the type already.
    weights: the number of constants, which are cast now.
    """

    edit: Edit
    cast: tuple[str, ...]
    reused: tuple[str, ...]
    weights: int


def change_type(graph: Graph, node: Node, dtype: DataType, narrow: DataType, share: bool = True) -> TypeChange:
    """The conversion of a node that runs in the other of the two types to `dtype`.

    share: a Cast of an operand that exists already is read; if false, each operand gets its own.
    Raises NotConvertible with a sentence if the operator cannot run in `dtype`.
    """
    call = float_call(graph, node, narrow)
    suffix = numpy_name(dtype)
    taken: set[str] = set()
    names: dict[str, str] = {}
    before: list[Node] = []
    constants: dict[str, Constant] = {}
    types: dict[str, ValueType] = {}

    def fresh(base: str) -> str:
        name = graph.fresh(base, taken)
        taken.add(name)
        return name

    def of_type(value: str, wanted: DataType) -> None:
        type_ = graph.tensor_type(value)
        if type_ is not None:
            types[names[value]] = TensorType(wanted, type_.shape)

    cast, reused = [], []
    for value in dict.fromkeys(node.inputs[index] for index in call.inputs):
        tensor = graph.constant(value)
        known = in_type(graph, value, dtype, narrow, share)
        if tensor is not None:
            converted = f"{value}_{suffix}"
            if not _is_cast_of(graph.constant(converted), tensor, dtype):
                converted = fresh(converted)
                constants[converted] = cast_constant(tensor, dtype)
            names[value] = converted
        elif known is not None:
            names[value] = known
            reused.append(value)
        else:
            names[value] = fresh(f"{value}_{suffix}")
            before.append(cast_node(value, names[value], dtype, fresh(f"to_{suffix}_{value}")))
            of_type(value, dtype)
            cast.append(value)
    after, casts_of_results = [], []
    for value in (node.outputs[index] for index in call.outputs):
        names[value] = fresh(f"{value}_{suffix}")
        casts = [user for user in graph.users(value) if is_type_cast(graph, user, narrow)]
        casts_of_results += casts
        if len(casts) < len(graph.users(value)) or graph.is_output(value):
            after.append(cast_node(names[value], value, call.dtype, fresh(f"to_{numpy_name(call.dtype)}_{value}")))
        of_type(value, dtype)
    inputs = [names[value] if index in call.inputs else value for index, value in enumerate(node.inputs)]
    outputs = [names[value] if index in call.outputs else value for index, value in enumerate(node.outputs)]
    moved = call.stated(graph, node, dtype).replace(inputs=tuple(inputs), outputs=tuple(outputs))
    unread = (*_unread(graph, node, reused, narrow), *(user.name for user in casts_of_results))
    edit = Edit(
        remove=(node.name, *dict.fromkeys(unread)),
        insert=(*before, moved, *after),
        replace={user.outputs[0]: names[user.inputs[0]] for user in casts_of_results},
        constants=constants,
        types=types,
    )
    return TypeChange(edit, tuple(cast), tuple(reused), len(constants))


def in_type(graph: Graph, value: str, dtype: DataType, narrow: DataType, share: bool = True) -> str | None:
    """An existing value that is `value` in the other type; None if there is none."""
    before = _cast_before(graph, value, narrow)
    if before is not None:
        return before.inputs[0]
    if not share:
        return None
    casts = (user for user in graph.users(value) if user.op == "Cast" and user.attr("to") == dtype.value)
    return next((user.outputs[0] for user in casts), None)


def tidy_casts(graph: Graph, narrow: DataType) -> Iterator[tuple[Edit, str, tuple[str, ...]]]:
    """Read one Cast of a value in place of another like it, and a value in place of its Cast to float32 and back.

    Both are equal to the last bit. Yields (edit, sentence, nodes).
    """
    for name in [node.name for node in graph.nodes_of(("Cast",))]:
        node = graph.find(name)
        if node is None or node.inputs[0] in graph.constants:
            continue
        value, result = node.inputs[0], node.outputs[0]
        widening = graph.producer(value)
        if widening is not None and node.attr("to") == narrow.value and _widens(graph, widening, narrow):
            source = widening.inputs[0]
            unread = (widening.name,) if is_only_reader(graph, node, value) else ()
            edit = Edit(remove=(name, *unread), replace={result: source})
            yield edit, f"{node} gives '{source}' again, which was cast to float32 only", (name, widening.name)
            continue
        alike = (user for user in graph.users(value) if user.op == "Cast" and user.attr("to") == node.attr("to"))
        first = next(alike)
        if first.name != name and not (graph.is_output(result) and graph.is_output(first.outputs[0])):
            edit = Edit(remove=(name,), replace={result: first.outputs[0]})
            yield edit, f"{node} casts '{value}' as {first} does, whose result is read instead", (name, first.name)


def _cast_before(graph: Graph, value: str, narrow: DataType) -> Node | None:
    """The Cast between the two types whose result the value is; None if it comes of another operator."""
    producer = graph.producer(value)
    return producer if producer is not None and is_type_cast(graph, producer, narrow) else None


def _widens(graph: Graph, node: Node, narrow: DataType) -> bool:
    """Whether the node is a Cast from the narrower type to float32, of rounded numbers or not."""
    type_ = graph.tensor_type(node.inputs[0]) if node.op == "Cast" else None
    return type_ is not None and type_.dtype == narrow and node.attr("to") == WIDE.value


def operands_text(graph: Graph, conversion: TypeChange, dtype: DataType) -> str:
    """What happens to the operands: "'x' is cast, 32 elements; 1 weight is cast now"."""
    parts = []
    for value in conversion.cast:
        parts.append(f"'{value}' is cast, {elements(_elements(graph, value))}")
    if conversion.reused:
        names = " and ".join(f"'{value}'" for value in conversion.reused)
        parts.append(f"{names} {'exists' if len(conversion.reused) == 1 else 'exist'} in {numpy_name(dtype)} already")
    if conversion.weights:
        number = f"{conversion.weights:,} constant{'' if conversion.weights == 1 else 's'}"
        parts.append(f"{number} {'is' if conversion.weights == 1 else 'are'} cast now")
    return "; ".join(parts) or "no operand is cast"


def _elements(graph: Graph, value: str) -> int | None:
    shape = bound_shape(graph, value)
    return None if shape is None else math.prod(shape)


def cast_node(source: str, result: str, dtype: DataType, name: str) -> Node:
    """A Cast of `source` to the type."""
    return Node("Cast", (source,), (result,), {"to": dtype.value}, name=name)


def _is_cast_of(known: Constant | None, tensor: Constant, dtype: DataType) -> bool:
    """Whether a constant of the model is `tensor` in that type."""
    if known is None or known.dtype != dtype or known.shape != tensor.shape:
        return False
    cast = cast_constant(tensor, dtype).numpy()
    return bool((known.numpy() == cast).all())


def _unread(graph: Graph, node: Node, reused: list[str], narrow: DataType) -> Iterator[str]:
    """The Casts whose results the node alone read, and reads no more."""
    for value in reused:
        before = _cast_before(graph, value, narrow)
        if before is not None and is_only_reader(graph, node, value):
            yield before.name
