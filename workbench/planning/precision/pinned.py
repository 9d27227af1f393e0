"""Which operators must run in float32, each with a sentence: the user's patterns, lists, and numbers out of range."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from workbench.analysis.inference.bound_shapes import bound_shape
from workbench.ir import DataType, Graph, Node
from workbench.ir.types import numpy_name
from workbench.ops.channels_last import plain_op
from workbench.planning.layout.profile import Profile
from workbench.planning.precision.cast_cost import start_of_chain
from workbench.planning.precision.element_types import (
    FloatCall,
    dtype_of,
    filled_with,
    keeps_digits,
    largest,
    largest_sum,
    smallest_positive,
)
from workbench.planning.precision.kernel_types import RuntimeKernels
from workbench.planning.precision.recorded import Magnitudes
from workbench.planning.precision.wanted_types import WIDE_ONLY, is_demanded, wanted_type
from workbench.rewrite.analyses.element_types import MOVERS
from workbench.rewrite.analyses.reductions import reduced_axes
from workbench.rewrite.core.rule import NoMatch
from workbench.support.name_patterns import matching_pattern

_SUMS = ("ReduceMean", "ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "ReduceLogSum")
_COMPARISONS = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
# The index of the operand that must not become 0.
_NONZERO = {"Div": 1, "QuantizeLinear": 1, "Reciprocal": 0, "Log": 0, "Pow": 0}
_KEEPS_ZERO = (MOVERS - {"Max"}) | {"Sqrt"}  # where an operand is 0, so may be a result


def pinning_constraint(
    graph: Graph,
    node: Node,
    call: FloatCall,
    narrow: DataType,
    target: Profile | None,
    patterns: Sequence[str],
    recorded: Mapping[str, Magnitudes],
    kernels: RuntimeKernels | None = None,
    by_list: bool = True,
) -> str:
    """Why the node must run in float32, a sentence with the number that decides; "" if it need not.

    patterns: of names of nodes, as in `matching_pattern`. recorded: magnitudes of values, of those that were recorded.
    kernels: of the runtime that was named. by_list: whether operators must that torch's autocast lists.
    """
    pattern = matching_pattern(node.name, patterns)
    if pattern is not None:
        return f"{node} stays in float32, as '{pattern}' asks"
    without_kernel = kernels.why_none(graph, node, call, narrow) if kernels is not None else ""
    if without_kernel:
        return without_kernel
    values = dict.fromkeys(
        (*(node.inputs[index] for index in call.inputs), *(node.outputs[index] for index in call.outputs))
    )
    for value in values:
        sentence = _out_of_range(graph, value, narrow, recorded)
        if sentence:
            return sentence
    sentence = (
        _becomes_zero(graph, node, narrow, recorded)
        or _long_sum(graph, node, narrow)
        or _inexact(graph, node, narrow)
        or _inexact_scale(graph, node, call, narrow)
        or _concat_of_integers(graph, node, narrow)
    )
    wanted, by = wanted_type(node, target)
    is_pinned = wanted == WIDE_ONLY and (by_list or is_demanded(node, target))
    return sentence or (f"{by} runs {node.op} in float32" if is_pinned else "")


def _out_of_range(graph: Graph, value: str, narrow: DataType, recorded: Mapping[str, Magnitudes]) -> str:
    magnitudes = _magnitudes(graph, value, recorded)
    if magnitudes is None or not math.isfinite(magnitudes.largest):
        return ""
    if magnitudes.largest > largest(narrow):
        return f"'{value}' reaches {_number(magnitudes.largest)}; {_ends_at(narrow)}"
    if 0 < magnitudes.largest <= smallest_positive(narrow) / 2:
        return (
            f"no element of '{value}' is above {_number(magnitudes.largest)}; {numpy_name(narrow)} begins at "
            f"{_number(smallest_positive(narrow))}, so all become 0"
        )
    return ""


def _becomes_zero(graph: Graph, node: Node, narrow: DataType, recorded: Mapping[str, Magnitudes]) -> str:
    """Of a value by which is divided, or whose logarithm is taken: whether one of its elements would be 0.

    The value is an operand of the node, or its result, which it or a node behind it reads so: a divisor that was
    rounded before is 0 in float32 too.
    """
    for value in (*dict.fromkeys(node.inputs), *node.outputs):
        magnitudes = _magnitudes(graph, value, recorded) if value else None
        if magnitudes is None or magnitudes.smallest is None or magnitudes.smallest > smallest_positive(narrow) / 2:
            continue
        if _must_not_be_zero(graph, value, [node] if value in node.inputs else graph.users(value)):
            return f"an element of '{value}' is {_number(magnitudes.smallest)}, which {numpy_name(narrow)} rounds to 0"
    return ""


def _must_not_be_zero(graph: Graph, value: str, readers: Iterable[Node]) -> bool:
    """Whether one of these readers divides by the value or takes its logarithm, or a node behind them that gets it."""
    reads = [(reader, value) for reader in readers]
    seen: set[str] = set()
    while reads:
        node, operand = reads.pop()
        index = _NONZERO.get(node.op)
        if index is not None and index < len(node.inputs) and node.inputs[index] == operand:
            exponent = graph.constant(node.inputs[1]) if node.op == "Pow" else None
            if exponent is None or (exponent.numpy() <= 0).any():
                return True
        elif node.op not in _KEEPS_ZERO:
            continue
        if node.name not in seen:
            seen.add(node.name)
            reads += [(user, result) for result in node.outputs for user in graph.users(result)]
    return False


def _long_sum(graph: Graph, node: Node, narrow: DataType) -> str:
    shape = bound_shape(graph, node.inputs[0]) if node.inputs else None
    if shape is None:
        return ""
    if plain_op(node) == "GlobalAveragePool":
        count = math.prod(shape[2:] if plain_op(node) == node.op else shape[1:-1])
    elif node.op in _SUMS:
        try:
            count = math.prod(shape[axis] for axis in reduced_axes(graph, node))
        except NoMatch:  # the axes are computed
            return ""
    else:
        return ""
    if count <= largest_sum(narrow):
        return ""
    return f"{node} adds {count:,} numbers; a sum in {numpy_name(narrow)} loses ones from {largest_sum(narrow):,} on"


def _inexact(graph: Graph, node: Node, narrow: DataType) -> str:
    """Of a comparison: whether a constant that decides it would be another number."""
    if node.op not in _COMPARISONS:
        return ""
    for value in node.inputs:
        tensor = graph.constant(value)
        if tensor is None or tensor.dtype == narrow:
            continue
        array = tensor.numpy()
        with np.errstate(over="ignore"):
            rounded = array.astype(narrow.numpy()).astype(array.dtype)
        if (rounded != array).any():
            index = int(np.argmax(rounded != array))
            number, other = array.flat[index], rounded.flat[index]
            return f"{node} compares with {number:.6g}, which {numpy_name(narrow)} rounds to {other:.6g}"
    return ""


def _inexact_scale(graph: Graph, node: Node, call: FloatCall, narrow: DataType) -> str:
    """Of a scale that would be cast: whether one of its numbers loses digits, as subnormal numbers do, so that all that
    it scales is off by as much. A channel of 8-bit weights may be off by what the one with the largest scale is."""
    scale = graph.constant(node.inputs[1]) if node.op in ("DequantizeLinear", "QuantizeLinear") else None
    if scale is None or 1 not in call.inputs or scale.dtype == narrow:
        return ""
    integers = dtype_of(graph, node.inputs[0]) if node.op == "DequantizeLinear" else None
    if keeps_digits(scale, narrow, largest_counts=integers is not None and integers.bitwidth <= 8):
        return ""
    numbers = scale.numpy().ravel()
    rounded = numbers.astype(narrow.numpy()).astype(numbers.dtype)
    worst = int(np.argmax(np.abs(rounded - numbers) / np.maximum(np.abs(numbers), np.finfo(np.float32).tiny)))
    return f"{node} scales by {numbers[worst]:.6g}, which {numpy_name(narrow)} rounds to {rounded[worst]:.6g}"


def _concat_of_integers(graph: Graph, node: Node, narrow: DataType) -> str:
    """Of a Concat of dequantized values that is quantized again: ONNX Runtime does not load it in float16."""
    if node.op != "Concat" or narrow != DataType.FLOAT16:
        return ""
    producers = (graph.producer(start_of_chain(graph, value, _is_cast)) for value in node.inputs)
    results = (result for user in graph.users(node.outputs[0]) if _is_cast(user) for result in user.outputs)
    readers = (reader for value in (node.outputs[0], *results) for reader in graph.users(value))
    dequantized = all(producer is not None and producer.op == "DequantizeLinear" for producer in producers)
    if dequantized and any(reader.op == "QuantizeLinear" for reader in readers):
        return f"ONNX Runtime makes a QLinearConcat of {node}, which has scales in float32 only"
    return ""


def _is_cast(node: Node) -> bool:
    return node.op == "Cast"


def _magnitudes(graph: Graph, value: str, recorded: Mapping[str, Magnitudes]) -> Magnitudes | None:
    tensor, producer = graph.constant(value), graph.producer(value)
    if tensor is not None:
        array = np.abs(tensor.numpy().astype(np.float32))
    elif producer is not None and producer.op == "ConstantOfShape":
        array = np.abs(filled_with(producer))
    else:
        return recorded.get(value)
    if not array.size:
        return None
    positive = array[array > 0]
    return Magnitudes(float(array.max()), float(positive.min()) if positive.size else None)


def _ends_at(narrow: DataType) -> str:
    return f"{numpy_name(narrow)} ends at {_number(largest(narrow))}"


def _number(number: float) -> str:
    return f"{number:,.0f}" if 1000 <= number < 1e9 else f"{number:.3g}"
