"""Tolerances: how far each output may differ, by the operators and element types on which it depends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from workbench.ir import DataType, Graph, Node
from workbench.ir.function_calls import Key, function_key


@dataclass(frozen=True)
class Tolerance:
    """Outputs are equal if either error is within its bound; `reason` says where the bounds come from.

    relative: max|a - b| / max|a| over one output.
    absolute: max|a - b| over one output.
    quantized: 8-bit integers may differ too, since a rounding may fall either way; `absolute` is one quantization
               step, if that is known.
    close:     the values were quantized on purpose, so that those within the bounds are called close, not equal.
    bits:      nothing may differ, not even the sign of a zero; the bits of a NaN do not count.
    """

    relative: float
    absolute: float
    reason: str
    quantized: bool = False
    close: bool = False
    bits: bool = False

    def __str__(self) -> str:
        return (
            f"nothing, {self.reason}"
            if self.bits
            else f"relative {self.relative:g} or absolute {self.absolute:g}, {self.reason}"
        )


# Reordered sums of float32 stay far below, wrong rewrites are far above (56 real models).
FLOAT32 = Tolerance(1e-4, 1e-6, "for float32")
# One unit in the last place is 4.9e-4 of float16 and 3.9e-3 of bfloat16; errors of a few layers add up.
FLOAT16 = Tolerance(2e-2, 1e-3, "for float16")
BFLOAT16 = Tolerance(1e-1, 1e-2, "for bfloat16")
# A rounding that goes the other way moves a value by 1/255 of its range, and later layers propagate it:
# one runtime's own optimization levels differ by percents.
INT8 = Tolerance(1e-1, 1e-6, "after 8-bit operators, where roundings may fall either way", quantized=True)
# How far a quantizer's result is off depends on the model and on its calibration. This bound is a choice: what exceeds
# it is traced to the operator with which the error does.
QUANTIZED = Tolerance(1e-1, 1e-6, "for values that were quantized", quantized=True, close=True)

BITS = Tolerance(0.0, 0.0, "in exact mode", bits=True)


@dataclass(frozen=True)
class Allowed:
    """How far the outputs of a graph may differ. of_each: by name, or one for all. loosest: what a verdict names."""

    of_each: Tolerance | Mapping[str, Tolerance]
    loosest: Tolerance


NOTHING_MAY_DIFFER = Allowed(BITS, BITS)

_STRICTEST_FIRST = (FLOAT32, FLOAT16, BFLOAT16, INT8)
_DEQUANTIZE = "DequantizeLinear"
_INT8_OPERATORS = ("MatMulInteger", "ConvInteger", "DynamicQuantize", "QuantizeLinear", "QLinear", "QGemm")
_BYTES = (DataType.UINT8, DataType.INT8)
_STEP = 1.001  # times the scale; the difference of two floats is rounded
_TYPE_TOLERANCES = {DataType.FLOAT16: FLOAT16, DataType.BFLOAT16: BFLOAT16}


def tolerances_for(graph: Graph) -> dict[str, Tolerance]:
    """The tolerance of every value, from its quantization step and the operators and types on which it depends."""
    return {value: _within_a_step(graph, value, result) for value, result in _by_dependence(graph).items()}


def allowed_in(graph: Graph, narrowed: Graph | None = None) -> Allowed:
    """What the outputs of a graph allow; the looser of both if another graph has them in narrower element types."""
    of_each, loosest = tolerances_for(graph), tolerance_for(graph)
    if narrowed is None:
        return Allowed(of_each, loosest)
    # Dequantizing a weight is exact, unless the weight was float before.
    others = _by_dependence(narrowed, _INT8_OPERATORS if _dequantizes(graph) else (*_INT8_OPERATORS, _DEQUANTIZE))
    of_both = {value: _on_purpose(one, others.get(value, one)) for value, one in of_each.items()}
    return Allowed(of_both, _on_purpose(loosest, _loosest_of_outputs(narrowed, others)))


def _dequantizes(graph: Graph) -> bool:
    return any(node.op == _DEQUANTIZE for node in graph.nodes)


def _on_purpose(one: Tolerance, narrowed: Tolerance) -> Tolerance:
    """The looser of two; with a word on how ONNX Runtime runs narrower types on a CPU, where comparisons run."""
    tolerance = looser(one, narrowed)
    if narrowed.quantized and not one.quantized:
        return QUANTIZED
    if tolerance not in (FLOAT16, BFLOAT16):
        return tolerance
    return replace(tolerance, reason=f"{tolerance.reason}, which this CPU run computes in float32 between Casts")


def _within_a_step(graph: Graph, value: str, tolerance: Tolerance) -> Tolerance:
    if not tolerance.quantized:
        return tolerance
    type_, producer = graph.tensor_type(value), graph.producer(value)
    if type_ is not None and type_.dtype in _BYTES:
        return replace(tolerance, absolute=1.0)
    scale = graph.constant(producer.inputs[1]) if producer is not None and producer.op == _DEQUANTIZE else None
    return tolerance if scale is None else replace(tolerance, absolute=_STEP * float(scale.numpy().max(initial=0.0)))


def _by_dependence(graph: Graph, quantizing: tuple[str, ...] = _INT8_OPERATORS) -> dict[str, Tolerance]:
    """quantizing: with what the names of operators begin whose results have the tolerance of 8 bits."""
    of_functions: dict[Key, Tolerance] = {}
    for key, function in graph.functions.items():  # a function may call those before it
        of_functions[key] = _loosest_tolerance(function.graph, of_functions, quantizing)
    results = {value: _type_tolerance(graph, value) for value in (*graph.inputs, *graph.constants)}
    for node in graph.nodes:
        operator = _operator_tolerance(node, of_functions, quantizing)
        result = _loosest([operator, *(results.get(value, FLOAT32) for value in node.operands)])
        for value in filter(None, node.outputs):
            results[value] = _loosest([result, _type_tolerance(graph, value)])
    return results


def tolerance_for(graph: Graph) -> Tolerance:
    """The loosest tolerance of the graph's outputs, without their quantization steps."""
    return _loosest_of_outputs(graph, _by_dependence(graph))


def _loosest_of_outputs(graph: Graph, tolerances: Mapping[str, Tolerance]) -> Tolerance:
    return _loosest(tolerances.get(value, FLOAT32) for value in graph.outputs)


def _loosest(tolerances: Iterable[Tolerance]) -> Tolerance:
    return max(tolerances, key=_STRICTEST_FIRST.index, default=FLOAT32)


def _type_tolerance(graph: Graph, value: str) -> Tolerance:
    type_ = graph.tensor_type(value)
    return FLOAT32 if type_ is None else _TYPE_TOLERANCES.get(type_.dtype, FLOAT32)


def _operator_tolerance(node: Node, of_functions: Mapping[Key, Tolerance], quantizing: tuple[str, ...]) -> Tolerance:
    """The tolerance of the operator, its bodies and the function that it calls."""
    if node.op_type.startswith(quantizing):
        return INT8
    of_cast = _TYPE_TOLERANCES.get(node.attr("to"), FLOAT32)  # types inside of bodies may not be known
    of_function = of_functions.get(function_key(node), FLOAT32)
    of_bodies = (_loosest_tolerance(body, of_functions, quantizing) for body in node.bodies.values())
    return _loosest([of_cast, of_function, *of_bodies])


def _loosest_tolerance(graph: Graph, of_functions: Mapping[Key, Tolerance], quantizing: tuple[str, ...]) -> Tolerance:
    operators = (_operator_tolerance(node, of_functions, quantizing) for node in graph.nodes)
    return _loosest([*operators, *(_type_tolerance(graph, value) for value in graph.values())])


# The tolerance of each element type of a run; operands of TF32 have as many bits as those of float16.
DTYPES = {"float32": FLOAT32, "tf32": FLOAT16, "mixed": BFLOAT16, "float16": FLOAT16, "bfloat16": BFLOAT16}


def tolerances_of_run(dtype: str, graph: Graph) -> dict[str, Tolerance]:
    """The tolerance of each output of the graph in a run of that type: the looser of the type's and the graph's."""
    tolerances = tolerances_for(graph)
    return {value: looser(DTYPES[dtype], tolerances[value]) for value in graph.outputs}


def looser(first: Tolerance, second: Tolerance) -> Tolerance:
    """The one of two that allows the larger relative error; the first of equal ones."""
    return max(first, second, key=lambda tolerance: tolerance.relative)
