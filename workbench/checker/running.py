"""Runs both models on random inputs in ONNX Runtime, without its optimizations, and compares every result."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from workbench.checker.outcome import DoesNotHold, escaped, in_quotes
from workbench.checker.plain import PlainModel
from workbench.checker.types import PlainType, in_words, is_tensor, symbol_of, with_numbers

Array = npt.NDArray[Any]
_SIZE = 2  # of a dim for which the certificate has no number, or 0
_MOST_ELEMENTS = 2**28  # of an input
_KEPT = 0.75  # of the numbers, where others become 0
_HIGHEST = (10, 2, 1)  # of random whole numbers, in turn until the model takes them
# The largest difference that is rounding, as a part of the largest element of a result.
ROUNDING = {"float16": 1e-2, "float32": 1e-3, "float64": 1e-9}
_STEP = 1.001  # times the scale; the difference of two floats is rounded
_OF_STEPS = 5e-2  # of a result that depends on numbers of 8 bits or less, where rounding may change a step


@dataclass(frozen=True)
class RunsCompared:
    """equal: whether all results are, as far as the mode allows. words: what was found."""

    words: str
    equal: bool = False

    def __str__(self) -> str:
        return self.words


class _NotCompared(Exception):
    """The message says why both cannot be compared, which is no fault of the output."""


def compared_runs(
    model: PlainModel, output: PlainModel, dims: Mapping[str, int], runs: int, mode: str, hinted: bool
) -> RunsCompared:
    """hinted: whether the output declares sizes that do not follow from it, on which optimizations rely; then it also
    runs with them. Raises DoesNotHold if a result of the output differs, or if only the model runs."""
    seed = secrets.randbits(32)  # not known beforehand, so that no file is made for it
    try:
        worst = _worst(model, output, dims, runs, seed, hinted)
    except _NotCompared as why:
        return RunsCompared(f"not compared, since {why}")
    many = "1 random input" if runs == 1 else f"{runs:,} random inputs"
    sizes = f" with {', '.join(used)}" if (used := _sizes(dims, model, output)) else ""
    where = f"on {many}{sizes} in ONNX Runtime without optimizations{', and with them' if hinted else ''} (seed {seed})"
    if not worst:
        return RunsCompared(f"equal to the last bit {where}", equal=True)
    words = f"equal {where}, but for rounding: by {worst:.1e} of the largest element at most"
    return RunsCompared(f"{words}; its mode exact allows none" if mode == "exact" else words, equal=mode != "exact")


def _sizes(dims: Mapping[str, int], model: PlainModel, output: PlainModel) -> list[str]:
    named = {*model.symbols, *(symbol for symbol in output.symbols if symbol in dims)}
    return [f"{escaped(symbol, 40)}={dims.get(symbol) or _SIZE:,}" for symbol in sorted(named)]


def _worst(model: PlainModel, output: PlainModel, dims: Mapping[str, int], runs: int, seed: int, hinted: bool) -> float:
    """The largest difference of all results."""
    odd = next((name for name in model.given if not _same_for_callers(name, model, output, dims)), None)
    if odd is not None:
        raise _NotCompared(f"the input {in_quotes(odd)} is of another shape in each of them")
    try:
        one = cpu_session(_whole(model))
    except Exception as error:  # ONNX Runtime has its own classes
        raise _NotCompared(f"ONNX Runtime does not load the model ({_words(error)})") from None
    try:
        others = [cpu_session(_whole(output), optimized) for optimized in ((False, True) if hinted else (False,))]
    except Exception as error:
        raise DoesNotHold(f"ONNX Runtime loads the model, and not the output ({_words(error)})") from None
    worst, random = 0.0, np.random.default_rng(seed)
    for number in range(runs):
        odd_turn = number % 2 == 1
        feed, wanted = _first_that_runs(one, _fed(model, output, whole=odd_turn), dims, random, zeros=odd_turn)
        if not number and largest_difference(wanted, one.run(None, feed)) > 0:
            raise _NotCompared("the model gives other results each time")
        for other in others:
            try:
                result = other.run(None, feed)
            except Exception as error:
                raise DoesNotHold(f"ONNX Runtime runs the model, and not the output ({_words(error)})") from None
            worst = max(worst, _compared(model, wanted, result, seed))
    return worst


def _first_that_runs(
    session: Any, needed: Mapping[str, PlainType], dims: Mapping[str, int], random: np.random.Generator, zeros: bool
) -> tuple[dict[str, Array], Sequence[Any]]:
    """Random inputs that the model takes, and its results. zeros: with many among the numbers."""
    why = ""
    for highest in _HIGHEST:
        try:
            feed = {name: random_array(name, type_, dims, random, highest) for name, type_ in needed.items()}
            if zeros:
                feed = {name: _with_zeros(array, random) for name, array in feed.items()}
            return feed, session.run(None, feed)
        except Exception as error:
            why = why or _words(error)
    raise _NotCompared(f"ONNX Runtime does not run the model ({why})")


def _with_zeros(array: Array, random: np.random.Generator) -> Array:
    if array.dtype.kind not in "fiu":
        return array
    return np.where(random.random(array.shape) < _KEPT, array, np.zeros((), array.dtype))


def _same_for_callers(name: str, model: PlainModel, output: PlainModel, dims: Mapping[str, int]) -> bool:
    """Whether both take the same arrays as this input, which may have names for its sizes in the output alone; those
    that are new have the certificate's number."""
    one: PlainType = model.given[name]
    new = {symbol: size for symbol, size in dims.items() if symbol not in model.symbols}
    other: PlainType = with_numbers(output.given.get(name, one), new)
    if one is None or other is None or not is_tensor(one) or not is_tensor(other) or one[1] is None or other[1] is None:
        return bool(one == other)
    sizes = [[symbol_of(name, axis, dim) or dim for axis, dim in enumerate(shape)] for shape in (one[1], other[1])]
    return bool(one[0] == other[0] and sizes[0] == sizes[1])


def cpu_session(proto: onnx.ModelProto, optimized: bool = False) -> Any:
    """An ONNX Runtime session on the CPU, without optimizations unless `optimized`."""
    import onnxruntime

    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _whole(model: PlainModel) -> onnx.ModelProto:
    """The message with the weights beside it."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model.proto)
    onnx.external_data_helper.load_external_data_for_model(whole, str(model.folder))
    return whole


def _fed(model: PlainModel, output: PlainModel, whole: bool) -> dict[str, PlainType]:
    """The inputs that are given. whole: also those with a default, if both have them."""
    return {n: type_ for n, type_ in model.given.items() if n not in model.defaults or (whole and n in output.given)}


def random_array(
    value: str, type_: PlainType, dims: Mapping[str, int], random: np.random.Generator, highest: int
) -> Array:
    """For an input of this type, with the numbers of the certificate for its symbols."""
    if not is_tensor(type_) or type_[1] is None:
        raise ValueError(f"an input is {in_words(type_)}")
    named_sizes = [symbol_of(value, axis, dim) for axis, dim in enumerate(type_[1])]
    shape = [(dims.get(symbol) or _SIZE) if symbol else dim for symbol, dim in zip(named_sizes, type_[1], strict=True)]
    if math.prod(shape) > _MOST_ELEMENTS:
        raise ValueError(f"an input of {math.prod(shape):,} elements is too large")
    if type_[0] == TensorProto.STRING:
        return random.choice(np.array(["a", "b", "c d"], object), shape)
    kind = onnx.helper.tensor_dtype_to_np_dtype(type_[0])
    if kind.kind == "f":
        return random.standard_normal(shape).astype(kind)
    if kind.kind == "b":
        return random.integers(0, 2, shape).astype(kind)
    if kind.kind in "iu":
        return random.integers(0, highest, shape).astype(kind)
    raise ValueError(f"an input is {in_words(type_)}")


def _compared(model: PlainModel, wanted: Sequence[Any], results: Sequence[Any], seed: int) -> float:
    """The largest difference. Raises DoesNotHold if one is more than rounding."""
    worst = 0.0
    coarse = _of_few_bits(model)
    for name, one, other in zip(model.graph.outputs, wanted, results, strict=True):
        difference = largest_difference([one], [other])
        kind = str(one.dtype) if isinstance(one, np.ndarray) else ""
        most = max(ROUNDING.get(kind, 0.0), _OF_STEPS if name in coarse and kind in ROUNDING else 0.0)
        step = _within_a_step(model, name, one, other) if difference > most and name in coarse else None
        if difference > most and step is None:
            by = (
                f"by {difference:.1e} of its largest element" if np.isfinite(difference) else "in shape, type or places"
            )
            raise DoesNotHold(f"run on random inputs (seed {seed}), the output's {in_quotes(name)} differs {by}")
        worst = max(worst, difference if step is None else step)
    return worst


def _within_a_step(model: PlainModel, output: str, one: Any, other: Any) -> float | None:
    """The largest difference as a part of the largest element, if it is at most one step of the output's own
    quantization, where a rounding may fall either way; None if it is more, or if the output has no step."""
    if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)) or one.dtype.kind not in "fiu":
        return None
    if one.dtype != other.dtype or one.shape != other.shape:
        return None
    step = 1.0 if one.dtype in (np.uint8, np.int8) else _scale_of(model, output)
    a, b = one.astype(np.float64), other.astype(np.float64)
    apart = np.abs(a - b).max(initial=0.0)
    return float(apart / max(np.abs(a).max(), step)) if apart <= _STEP * step else None


def _scale_of(model: PlainModel, output: str) -> float:
    """Of the DequantizeLinear that makes the output; 0 if nothing like that does, or the scale is not a constant."""
    made = next((call for call in model.graph.nodes.values() if output in call.outputs), None)
    if made is None or made.op_type != "DequantizeLinear":
        return 0.0
    held = (tensor for tensor in model.proto.graph.initializer if tensor.name == made.inputs[1])
    return max((float(onnx.numpy_helper.to_array(tensor).max(initial=0.0)) for tensor in held), default=0.0)


def largest_difference(wanted: Sequence[Any], results: Sequence[Any]) -> float:
    """The largest, as a part of the largest finite element of its result; infinite if no number says it."""
    worst = 0.0
    for one, other in zip(wanted, results, strict=True):
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
        a, b = one.astype(np.float64), other.astype(np.float64)
        odd = ~np.isfinite(a)
        if not np.array_equal(a[odd], b[odd], equal_nan=True) or not np.isfinite(b[~odd]).all():
            return float("inf")
        scale = np.abs(a[~odd]).max(initial=0.0)
        apart = np.abs(a[~odd] - b[~odd]).max(initial=0.0)
        worst = max(worst, float(apart / scale) if scale else float("inf") if apart else 0.0)
    return worst


def _of_few_bits(model: PlainModel) -> set[str]:
    """The outputs that depend on an operator which rounds to 8 bits or less."""
    producers = {value: call for call in model.graph.nodes.values() for value in call.outputs if value}
    rounds = {
        call.key for call in model.graph.nodes.values() if "Quantize" in call.op_type or "QLinear" in call.op_type
    }
    result = set()
    for output in model.graph.outputs:
        waiting, seen = [output], {output}
        while waiting:
            call = producers.get(waiting.pop())
            if call is None:
                continue
            if call.key in rounds:
                result.add(output)
                break
            fresh = call.reads - seen
            seen |= fresh
            waiting += fresh
    return result


def _words(error: Exception) -> str:
    return escaped(" ".join(str(error).split()), 160)
