"""Tolerances: how far each output may differ, by the operators and element types on which it depends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from workbench.ir import DataType, Graph, Node
from workbench.ir.function_calls import Key, function_key


@dataclass(frozen=True)
class Tolerance:
    """Outputs are equal if each element is within one of two bounds; `reason` says where the bounds come from.

    relative: |a - b| / (|a| + rms), where rms is the root mean square of the output. A sum that cancels has the
              rounding errors of its summands, so that an element cannot be judged by its own size alone.
    absolute: |a - b|.
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

    def largest(self, right: np.ndarray) -> np.ndarray:
        """By how much each element of an output may differ from these, which are finite; of their shape."""
        size = np.abs(right)
        rms = float(np.sqrt(np.mean(np.square(size)))) if size.size else 0.0
        return np.asarray(np.maximum(self.relative * (size + rms), self.absolute))

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
    """How far values of a graph may differ.

    of_each:    of its outputs, by name, or one for all.
    loosest:    what a verdict names.
    on_purpose: of all values that are in narrower types than before because that was asked, by name.
    numbers_only: whether elements do not count that are infinite or NaN in the original.
    """

    of_each: Tolerance | Mapping[str, Tolerance]
    loosest: Tolerance
    on_purpose: Mapping[str, Tolerance] = field(default_factory=dict)
    numbers_only: bool = False


NOTHING_MAY_DIFFER = Allowed(BITS, BITS)

_STRICTEST_FIRST = (FLOAT32, FLOAT16, BFLOAT16, INT8)
_DEQUANTIZE = "DequantizeLinear"
_INT8_OPERATORS = ("MatMulInteger", "ConvInteger", "DynamicQuantize", "QuantizeLinear", "QLinear", "QGemm")
_BYTES = (DataType.UINT8, DataType.INT8)
_STEP = 1.001  # times the scale; the difference of two floats is rounded
_TYPE_TOLERANCES = {DataType.FLOAT16: FLOAT16, DataType.BFLOAT16: BFLOAT16}

# The tolerances of the types and operators on which a value depends, FLOAT32 left out.
_Kinds = frozenset[Tolerance]
_NONE: _Kinds = frozenset()


def tolerances_for(graph: Graph) -> dict[str, Tolerance]:
    """The tolerance of every value, from its quantization step and the operators and types on which it depends."""
    return {value: _within_a_step(graph, value, _loosest(kinds)) for value, kinds in _by_dependence(graph).items()}


def allowed_in(graph: Graph, narrowed: Graph | None = None, was_asked: bool = False) -> Allowed:
    """What the outputs of a graph allow; the looser of both if another graph has them in narrower element types.

    was_asked: whether the other graph was narrowed on purpose. Otherwise a value was, if it depends on narrower types
    in one of the two on which it does not in the other; one that only the other graph has, if it depends on types on
    which nothing does in this one.
    """
    of_each, loosest = tolerances_for(graph), tolerance_for(graph)
    if narrowed is None:
        return Allowed(of_each, loosest)
    # Dequantizing a weight is exact, unless the weight was float before.
    before = _by_dependence(graph)
    others = _by_dependence(narrowed, _INT8_OPERATORS if _dequantizes(graph) else (*_INT8_OPERATORS, _DEQUANTIZE))
    of_both = {value: _on_purpose(one, _loosest(others.get(value, before[value]))) for value, one in of_each.items()}
    others_loosest = _loosest(kind for value in narrowed.outputs for kind in others.get(value, _NONE))
    known = of_both if was_asked else [v for v in of_both if v in others and others[v] != before[v]]
    purpose = {value: of_both[value] for value in known if of_both[value] is not FLOAT32}
    present = _NONE if was_asked else _NONE.union(*before.values())
    renamed = {value: _loosest(kinds - present) for value, kinds in others.items() if value not in of_each}
    purpose |= {value: _on_purpose(FLOAT32, one) for value, one in renamed.items() if one is not FLOAT32}
    return Allowed(of_both, _on_purpose(loosest, others_loosest), purpose)


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


def _by_dependence(graph: Graph, quantizing: tuple[str, ...] = _INT8_OPERATORS) -> dict[str, _Kinds]:
    """quantizing: with what the names of operators begin whose results have the tolerance of 8 bits."""
    of_functions: dict[Key, _Kinds] = {}
    for key, function in graph.functions.items():  # a function may call those before it
        of_functions[key] = _kinds_inside(function.graph, of_functions, quantizing)
    results = {value: _kinds_of_type(graph, value) for value in (*graph.inputs, *graph.constants)}
    for node in graph.nodes:
        operands = (results.get(value, _NONE) for value in node.operands)
        result = _kinds_of_operator(node, of_functions, quantizing).union(*operands)
        for value in filter(None, node.outputs):
            results[value] = result | _kinds_of_type(graph, value)
    return results


def tolerance_for(graph: Graph) -> Tolerance:
    """The loosest tolerance of the graph's outputs, without their quantization steps."""
    kinds = _by_dependence(graph)
    return _loosest(kind for value in graph.outputs for kind in kinds.get(value, _NONE))


def _loosest(kinds: Iterable[Tolerance]) -> Tolerance:
    return max(kinds, key=_STRICTEST_FIRST.index, default=FLOAT32)


def _kinds_of_type(graph: Graph, value: str) -> _Kinds:
    type_ = graph.tensor_type(value)
    return _NONE if type_ is None or type_.dtype not in _TYPE_TOLERANCES else frozenset({_TYPE_TOLERANCES[type_.dtype]})


def _kinds_of_operator(node: Node, of_functions: Mapping[Key, _Kinds], quantizing: tuple[str, ...]) -> _Kinds:
    """Those of the operator, its bodies and the function that it calls."""
    if node.op_type.startswith(quantizing):
        return frozenset({INT8})
    to = node.attr("to")  # types inside of bodies may not be known
    of_cast = frozenset({_TYPE_TOLERANCES[to]}) if to in _TYPE_TOLERANCES else _NONE
    of_bodies = (_kinds_inside(body, of_functions, quantizing) for body in node.bodies.values())
    return of_cast.union(of_functions.get(function_key(node), _NONE), *of_bodies)


def _kinds_inside(graph: Graph, of_functions: Mapping[Key, _Kinds], quantizing: tuple[str, ...]) -> _Kinds:
    operators = (_kinds_of_operator(node, of_functions, quantizing) for node in graph.nodes)
    return _NONE.union(*operators, *(_kinds_of_type(graph, value) for value in graph.values()))


# The tolerance of each element type of a run; operands of TF32 have as many bits as those of float16.
DTYPES = {"float32": FLOAT32, "tf32": FLOAT16, "mixed": BFLOAT16, "float16": FLOAT16, "bfloat16": BFLOAT16}


def tolerances_of_run(dtype: str, graph: Graph) -> dict[str, Tolerance]:
    """The tolerance of each output of the graph in a run of that type: the looser of the type's and the graph's."""
    tolerances = tolerances_for(graph)
    return {value: looser(DTYPES[dtype], tolerances[value]) for value in graph.outputs}


def looser(first: Tolerance, second: Tolerance) -> Tolerance:
    """The one of two that allows the larger relative error; the first of equal ones."""
    return max(first, second, key=lambda tolerance: tolerance.relative)
