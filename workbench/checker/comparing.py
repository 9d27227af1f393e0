"""Compares the results of two models: element by element, each result as far as the mode and element types allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from workbench.checker.drawing import Array
from workbench.checker.outcome import DoesNotHold, in_quotes
from workbench.checker.plain import PlainGraph, PlainModel, PlainNode
from workbench.checker.rounding import ROUNDING, largest_rounding
from workbench.checker.types import PlainType, is_tensor

# The largest difference of results that were rounded to a narrower element type on the way, as a part of the largest
# element. How far they are off depends on the model; what is beyond is no rounding.
NARROWED: dict[int, float] = {TensorProto.FLOAT16: 0.25, TensorProto.BFLOAT16: 0.5}
_STEP = 1.001  # times the scale: one step of quantization, with the rounding of a difference
_QUANTIZED = 5e-2  # the same, of a result that depends on numbers of 8 bits or less, whose rounding may flip
# Of the elements behind such numbers so many may be off: some, a share of all, and four times those that noise moves.
_SOME, _FEW, _TIMES_AS_MANY = 2, 1e-3, 4
NoisyResults = Callable[[], Sequence[Sequence[Any]]]  # the results of runs with noise


@dataclass
class Differences:
    """What the runs have shown.

    narrowed: outputs that may differ by more, and by how much, as a part of the largest element.
    largest: of each output the largest difference, as a part of its largest element.
    zero_signs: whether zeros had another sign. not_counted: elements that are no number in the model, in mode `fast`.
    """

    model: PlainModel
    output: PlainModel
    mode: str
    narrowed: Mapping[str, float]
    largest: dict[str, float] = field(default_factory=dict)
    zero_signs: bool = False
    not_counted: int = 0

    @cached_property
    def _quantized(self) -> set[str]:
        graph = self.model.graph
        return {output for output in graph.outputs if _is_quantized(graph, output)}

    def add(
        self, expected: Sequence[Any], results: Sequence[Any], movements: NoisyResults, where: str, how: str = ""
    ) -> None:
        """Raises DoesNotHold if a result differs by more than rounding. where, how: for its message."""
        for place, (name, one, other) in enumerate(zip(self.model.graph.outputs, expected, results, strict=True)):
            try:
                self._add(name, one, other, lambda place=place: [run[place] for run in movements()])  # type: ignore[misc]
            except _Differs as difference:
                raise DoesNotHold(f"{where}, the output's {in_quotes(name)} differs{how} {difference}") from None

    def _add(self, name: str, expected: Any, result: Any, moved: Callable[[], Sequence[Any]]) -> None:
        if isinstance(expected, list) and isinstance(result, list) and len(expected) == len(result):
            for place, (one, other) in enumerate(zip(expected, result, strict=True)):
                self._add(name, one, other, lambda place=place: [e[place] for e in moved() if len(e) > place])  # type: ignore[misc]
            return
        if not (isinstance(expected, np.ndarray) and isinstance(result, np.ndarray)):
            if expected != result:
                raise _Differs("in what it is")
            return
        result = _in_type_of(expected, result)
        if expected.dtype != result.dtype or expected.shape != result.shape:
            raise _Differs(f"in shape or type: {_words(result)} in place of {_words(expected)}")
        if self.mode == "fast" and expected.dtype.kind == "f":
            number = np.isfinite(expected)
            self.not_counted += int(np.count_nonzero(~number))
            expected, result = (np.where(number, array, array.dtype.type(0)) for array in (expected, result))
        self.zero_signs = self.zero_signs or _has_other_zeros(expected, result)
        difference = largest_difference([expected], [result])
        if difference:
            difference = self._allowed(name, expected, result, difference, moved)
        self.largest[name] = max(difference, self.largest.get(name, 0.0))

    def _allowed(
        self, name: str, expected: Array, result: Array, difference: float, moved: Callable[[], Sequence[Any]]
    ) -> float:
        """The difference. Raises _Differs if it is more than may be."""
        if name in self._quantized:
            step = _within_a_step(self.model, name, expected, result)
            if step is not None:
                return step
        if str(expected.dtype) not in ROUNDING:
            raise _Differs(f"in {_first(expected != result, expected, result)}")
        if not _same_ends(expected, result).all():
            raise _Differs(f"in {_first(~_same_ends(expected, result), expected, result)}")
        coarse = max(_QUANTIZED if name in self._quantized else 0.0, self.narrowed.get(name, 0.0))
        error = np.abs(_finite(expected) - _finite(result))
        if coarse and difference <= coarse:
            if name not in self.narrowed and self.mode != "fast":
                _refuse_more_than_flips(expected, result, error, moved())
            return difference
        wrong = error > largest_rounding(expected, moved() if not coarse else ())
        if wrong.any():
            raise _Differs(f"by {difference:.1e} of its largest element: {_first(wrong, expected, result)}")
        return difference


def _refuse_more_than_flips(expected: Array, result: Array, error: Array, noisy: Sequence[Any]) -> None:
    """Raises _Differs if more elements are off behind numbers of 8 bits than where noise makes some of these flip.

    error: of each element. noisy: the same result of runs with noise; without any, nothing is known.
    """
    bound = largest_rounding(expected, ())
    right, off = _finite(expected), error > bound
    flips = [
        int(np.count_nonzero(np.abs(right - _finite(one)) > bound)) for one in noisy if one.shape == expected.shape
    ]
    most = _TIMES_AS_MANY * max(flips) if flips else expected.size
    count = int(np.count_nonzero(off))
    if count > max(_SOME, _FEW * expected.size, most):
        where = _first(off, expected, result)
        raise _Differs(f"in {count:,} of {off.size:,} elements, more than rounding flips behind 8 bits: {where}")


def narrowed_outputs(model: PlainModel, output: PlainModel) -> dict[str, float]:
    """The outputs that the output computes in narrower element types than the model, each with the largest difference
    that these make, as a part of the largest element."""
    narrower = {name: narrower_types(model, output, name) for name in output.graph.outputs}
    return {name: max(NARROWED[type_] for type_ in types) for name, types in narrower.items() if types}


def narrower_types(model: PlainModel, output: PlainModel, name: str) -> set[int]:
    """The narrow types on the way to a result of the output, and not of the model."""
    return _narrow_types(output, name) - _narrow_types(model, name)


class _Differs(Exception):
    """The message says by what, after "differs"."""


def largest_difference(expected: Sequence[Any], results: Sequence[Any]) -> float:
    """The largest difference, as a part of the largest finite element of its result.

    It is infinite if types, shapes or non-finite elements differ, or elements that are not floats.
    """
    worst = 0.0
    for one, other in zip(expected, results, strict=True):
        if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)):
            same = isinstance(one, list) == isinstance(other, list) and len(one or ()) == len(other or ())
            inner = (
                largest_difference(one, other) if same and isinstance(one, list) else 0.0 if one == other else np.inf
            )
            worst = max(worst, float(inner))
            continue
        if one.dtype != other.dtype or one.shape != other.shape:
            return float("inf")
        if one.tobytes() == other.tobytes() and one.dtype != object:
            continue
        if one.dtype.kind != "f":
            if not np.array_equal(one, other):
                return float("inf")
            continue
        if not _same_ends(one, other).all():
            return float("inf")
        a, b = _finite(one), _finite(other)
        scale, difference = np.abs(a).max(initial=0.0), np.abs(a - b).max(initial=0.0)
        worst = max(worst, float(difference / scale) if scale else float("inf") if difference else 0.0)
    return worst


def cast_to(node: PlainNode) -> list[int]:
    """The type to which the node casts, if it does."""
    kind, to = node.attributes.get("to", ("", 0))
    return [to] if node.op_type == "Cast" and kind == "int" else []


# ---- elements ----------------------------------------------------------------------------------


def _finite(array: Array) -> Array:
    return np.where(np.isfinite(array), array, 0).astype(np.float64)


def _same_ends(one: Array, other: Array) -> Array:
    """Where both are finite, or both are the same infinity or NaN."""
    both = np.isfinite(one) & np.isfinite(other)
    return np.asarray(both | (one == other) | (np.isnan(one) & np.isnan(other)))


def _has_other_zeros(one: Array, other: Array) -> bool:
    if one.dtype.kind != "f":
        return False
    return bool(((one == 0) & (other == 0) & (np.signbit(one) != np.signbit(other))).any())


def _in_type_of(expected: Array, result: Array) -> Array:
    """A result in float16 in float32, if the model gives it so, and the other way round."""
    both = {expected.dtype, result.dtype} == {np.dtype(np.float32), np.dtype(np.float16)}
    return result.astype(expected.dtype) if both else result


def _first(wrong: Array, expected: Array, result: Array) -> str:
    """The first element that is wrong, in words."""
    place = tuple(int(index) for index in np.argwhere(wrong)[0])
    one, other = (array[place] for array in (expected, result))
    words = [f"{number:.6g}" if expected.dtype.kind == "f" else str(number)[:40] for number in (one, other)]
    return f"{words[1]} in place of {words[0]} at {list(place)}"


def _words(array: Array) -> str:
    return f"{array.dtype}{list(array.shape)}"


# ---- what an output depends on -----------------------------------------------------------------


def _values_before(graph: PlainGraph, value: str) -> Iterator[str]:
    """The value, and those from which it is computed."""
    waiting, seen = [value], {value}
    while waiting:
        name = waiting.pop()
        yield name
        fresh = graph.producers[name].reads - seen if name in graph.producers else frozenset[str]()
        seen |= fresh
        waiting += fresh


def _narrow_types(model: PlainModel, value: str) -> set[int]:
    """The narrow types in which a value is, or to which something is cast on the way to it."""
    types = {**model.feed_inputs, **model.types}
    found: set[int] = set()
    called = set()
    for name in _values_before(model.graph, value):
        type_: PlainType = types.get(name)
        found |= {type_[0]} if is_tensor(type_) else set()
        calls = [model.graph.producers[name]] if name in model.graph.producers else []
        while calls:
            call = calls.pop()
            found.update(cast_to(call))
            graphs = list(call.bodies)
            key = (call.domain, call.op_type, call.overload)
            if key in model.functions and key not in called:
                called.add(key)
                graphs.append(model.functions[key].graph)
            calls += [inner for graph in graphs for inner in graph.nodes.values()]
    return found & NARROWED.keys()


def _is_quantized(graph: PlainGraph, output: str) -> bool:
    """Whether the output depends on an operator that rounds to 8 bits or less."""
    operators = (graph.producers[name].op_type for name in _values_before(graph, output) if name in graph.producers)
    return any("Quantize" in operator or "QLinear" in operator for operator in operators)


def _within_a_step(model: PlainModel, output: str, expected: Array, result: Array) -> float | None:
    """The largest difference as a part of the largest element, if it is at most one step of the output's quantization;
    None if it is more, or if the output has no step. Both are of one shape and type."""
    if expected.dtype.kind not in "fiu":
        return None
    step = 1.0 if expected.dtype in (np.uint8, np.int8) else _scale_of(model, output)
    a, b = expected.astype(np.float64), result.astype(np.float64)
    difference = np.abs(a - b).max(initial=0.0)
    return float(difference / max(np.abs(a).max(), step)) if difference <= _STEP * step else None


def _scale_of(model: PlainModel, output: str) -> float:
    """The scale of the DequantizeLinear that computes the output; 0 if there is none or its scale is not constant."""
    producer = model.graph.producers.get(output)
    if producer is None or producer.op_type != "DequantizeLinear":
        return 0.0
    scales = (tensor for tensor in model.proto.graph.initializer if tensor.name == producer.inputs[1])
    return max((float(numpy_helper.to_array(tensor).max(initial=0.0)) for tensor in scales), default=0.0)
