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
from workbench.checker.types import PlainType, differ_in_width, in_words, is_tensor, symbol_of, with_numbers

Array = npt.NDArray[Any]
_SIZE = 2  # the size of a dim for which the certificate has no number, or 0
_MAX_ELEMENTS = 2**28  # the most elements of an input
_NONZERO = 0.75  # the share of nonzero numbers in every second run; the others become 0
_HIGHEST = (10, 2, 1)  # limits of random integers, tried in this order until the model accepts them
# The largest difference that is rounding, as a part of the largest element of a result.
ROUNDING = {"float16": 1e-2, "float32": 1e-3, "float64": 1e-9}
# The same, of results that were rounded to a narrower element type on the way. How far they are off depends on the
# model; what is beyond is no rounding, and what is within the second number counts as equal.
NARROWED = {TensorProto.FLOAT16: 0.25, TensorProto.BFLOAT16: 0.5}
_CLOSE = 2e-2
_STEP = 1.001  # times the scale: one step of quantization, with the rounding of a difference
_QUANTIZED = 5e-2  # the same, of a result that depends on numbers of 8 bits or less, whose rounding may flip


@dataclass(frozen=True)
class RunsCompared:
    """equal: whether all results are equal, as far as the mode allows. sentence: says how equal they are."""

    sentence: str
    equal: bool = False

    def __str__(self) -> str:
        return self.sentence


class _NotCompared(Exception):
    """The models cannot be compared, without a fault of the output; the message says why."""


def compared_runs(
    model: PlainModel,
    output: PlainModel,
    dims: Mapping[str, int],
    runs: int,
    mode: str,
    hinted: bool,
    narrowed: float = 0.0,
) -> RunsCompared:
    """Runs both models. Raises DoesNotHold if a result of the output differs, or if only the model runs.

    narrowed: the largest difference that narrower element types make, as a part of the largest element; 0 without them.

    hinted: whether the output declares sizes that do not follow from its nodes. Optimizations rely on such sizes, so
    the output then also runs with optimizations.
    """
    seed = secrets.randbits(32)  # not known beforehand, so that no file is made for it
    try:
        worst = _worst(model, output, dims, runs, seed, hinted, narrowed)
    except _NotCompared as why:
        return RunsCompared(f"not compared, since {why}")
    many = "1 random input" if runs == 1 else f"{runs:,} random inputs"
    sizes = f" with {', '.join(used)}" if (used := _sizes(dims, model, output)) else ""
    where = f"on {many}{sizes} in ONNX Runtime without optimizations{', and with them' if hinted else ''} (seed {seed})"
    if not worst:
        return RunsCompared(f"equal to the last bit {where}", equal=True)
    if narrowed:
        sentence = f"close {where}: in a narrower element type, off by {worst:.1e} of the largest element at most"
        return RunsCompared(sentence, equal=worst <= _CLOSE)
    sentence = f"equal {where}, up to rounding: by {worst:.1e} of the largest element at most"
    return RunsCompared(
        f"{sentence}; its mode exact allows none" if mode == "exact" else sentence, equal=mode != "exact"
    )


def _sizes(dims: Mapping[str, int], model: PlainModel, output: PlainModel) -> list[str]:
    named = {*model.symbols, *(symbol for symbol in output.symbols if symbol in dims)}
    return [f"{escaped(symbol, 40)}={dims.get(symbol) or _SIZE:,}" for symbol in sorted(named)]


def narrowed_rounding(output: PlainModel) -> float:
    """The largest difference that the element types of its Casts and results make, as a part of the largest element."""
    casts = (call for call in output.proto.graph.node if call.op_type == "Cast")
    targets = {attribute.i for call in casts for attribute in call.attribute if attribute.name == "to"}
    targets |= {type_[0] for type_ in output.types.values() if is_tensor(type_)}
    return max((NARROWED[target] for target in targets & NARROWED.keys()), default=0.0)


def _worst(
    model: PlainModel,
    output: PlainModel,
    dims: Mapping[str, int],
    runs: int,
    seed: int,
    hinted: bool,
    narrowed: float,
) -> float:
    """The largest difference of all results."""
    differing = next((name for name in model.feed_inputs if not _same_for_callers(name, model, output, dims)), None)
    if differing is not None:
        raise _NotCompared(f"the input {in_quotes(differing)} has another type or shape in each model")
    try:
        session = cpu_session(_with_weights(model))
    except Exception as error:  # ONNX Runtime has its own classes
        raise _NotCompared(f"ONNX Runtime does not load the model ({_one_line(error)})") from None
    try:
        output_sessions = [
            cpu_session(_with_weights(output), optimized) for optimized in ((False, True) if hinted else (False,))
        ]
    except Exception as error:
        if type(error).__name__ == "NotImplemented":  # as for bfloat16 on a CPU, which says nothing of the numbers
            raise _NotCompared(f"ONNX Runtime cannot run the output here ({_one_line(error)})") from None
        raise DoesNotHold(f"ONNX Runtime loads the model, but not the output ({_one_line(error)})") from None
    worst, random = 0.0, np.random.default_rng(seed)
    for number in range(runs):
        odd_run = number % 2 == 1
        feed, expected = _first_that_runs(
            session, _fed_inputs(model, output, with_defaults=odd_run), dims, random, zeros=odd_run
        )
        if not number and largest_difference(expected, session.run(None, feed)) > 0:
            raise _NotCompared("the model gives different results in each run")
        for output_session in output_sessions:
            try:
                results = output_session.run(None, _as_taken(feed, model, output))
            except Exception as error:
                raise DoesNotHold(f"ONNX Runtime runs the model, but not the output ({_one_line(error)})") from None
            results = [_in_type_of(one, result) for one, result in zip(expected, results, strict=True)]
            worst = max(worst, _compared(model, expected, results, seed, narrowed))
    return worst


def _first_that_runs(
    session: Any, needed: Mapping[str, PlainType], dims: Mapping[str, int], random: np.random.Generator, zeros: bool
) -> tuple[dict[str, Array], Sequence[Any]]:
    """Random inputs that the model accepts, and its results. zeros: whether many of their numbers are 0."""
    why = ""
    for highest in _HIGHEST:
        try:
            feed = {name: random_array(name, type_, dims, random, highest) for name, type_ in needed.items()}
            if zeros:
                feed = {name: _with_zeros(array, random) for name, array in feed.items()}
            return feed, session.run(None, feed)
        except Exception as error:
            why = why or _one_line(error)
    raise _NotCompared(f"ONNX Runtime does not run the model ({why})")


def _with_zeros(array: Array, random: np.random.Generator) -> Array:
    if array.dtype.kind not in "fiu":
        return array
    kept = random.random(array.shape) < _NONZERO
    if array.size > 1:
        kept.flat[random.integers(array.size)] = False  # of few numbers chance alone would often keep all
    return np.where(kept, array, np.zeros((), array.dtype))


def _same_for_callers(name: str, model: PlainModel, output: PlainModel, dims: Mapping[str, int]) -> bool:
    """Whether both models take arrays of the same sizes as this input, in one element type or in float32 and a narrower
    one. A symbol that only the output has stands for the certificate's number."""
    one: PlainType = model.feed_inputs[name]
    new_symbols = {symbol: size for symbol, size in dims.items() if symbol not in model.symbols}
    other: PlainType = with_numbers(output.feed_inputs.get(name, one), new_symbols)
    if one is None or other is None or not is_tensor(one) or not is_tensor(other) or one[1] is None or other[1] is None:
        return bool(one == other)
    sizes = [[symbol_of(name, axis, dim) or dim for axis, dim in enumerate(shape)] for shape in (one[1], other[1])]
    return bool((one[0] == other[0] or differ_in_width(one, other)) and sizes[0] == sizes[1])


def _as_taken(feed: Mapping[str, Array], model: PlainModel, output: PlainModel) -> dict[str, Array]:
    """The inputs of the model in the element types that the output takes."""
    types = {name: type_ for name, type_ in output.feed_inputs.items() if name in feed}
    cast = [name for name, type_ in types.items() if differ_in_width(model.feed_inputs[name], type_)]
    dtypes = {name: onnx.helper.tensor_dtype_to_np_dtype(types[name][0]) for name in cast}
    return {name: array.astype(dtypes[name]) if name in dtypes else array for name, array in feed.items()}


def _in_type_of(expected: Any, result: Any) -> Any:
    """A result in float16 in float32, if the model gives it so, and the other way round."""
    if not (isinstance(expected, np.ndarray) and isinstance(result, np.ndarray)):
        return result
    both = {expected.dtype, result.dtype} == {np.dtype(np.float32), np.dtype(np.float16)}
    return result.astype(expected.dtype) if both else result


def cpu_session(proto: onnx.ModelProto, optimized: bool = False) -> Any:
    """An ONNX Runtime session on the CPU, without optimizations unless `optimized`."""
    import onnxruntime

    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _with_weights(model: PlainModel) -> onnx.ModelProto:
    """The message with the weights of its external files."""
    message = onnx.ModelProto()
    message.CopyFrom(model.proto)
    onnx.external_data_helper.load_external_data_for_model(message, str(model.folder))
    return message


def _fed_inputs(model: PlainModel, output: PlainModel, with_defaults: bool) -> dict[str, PlainType]:
    """The inputs to feed. with_defaults: also inputs with a default, if both models have them."""
    return {
        name: type_
        for name, type_ in model.feed_inputs.items()
        if name not in model.defaults or (with_defaults and name in output.feed_inputs)
    }


def random_array(
    value: str, type_: PlainType, dims: Mapping[str, int], random: np.random.Generator, highest: int
) -> Array:
    """Random elements for an input. dims: numbers for symbols. highest: the limit of integers, exclusive."""
    if not is_tensor(type_) or type_[1] is None:
        raise ValueError(f"an input is {in_words(type_)}")
    named_sizes = [symbol_of(value, axis, dim) for axis, dim in enumerate(type_[1])]
    shape = [(dims.get(symbol) or _SIZE) if symbol else dim for symbol, dim in zip(named_sizes, type_[1], strict=True)]
    if math.prod(shape) > _MAX_ELEMENTS:
        raise ValueError(f"an input of {math.prod(shape):,} elements is too large")
    if type_[0] == TensorProto.STRING:
        return random.choice(np.array(["a", "b", "c d"], object), shape)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(type_[0])
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        return random.integers(0, highest, shape).astype(dtype)
    raise ValueError(f"an input is {in_words(type_)}")


def _compared(
    model: PlainModel, expected_results: Sequence[Any], results: Sequence[Any], seed: int, narrowed: float
) -> float:
    """The largest difference. Raises DoesNotHold if one is more than rounding."""
    worst = 0.0
    coarse = _quantized_outputs(model)
    for name, expected, result in zip(model.graph.outputs, expected_results, results, strict=True):
        difference = largest_difference([expected], [result])
        kind = str(expected.dtype) if isinstance(expected, np.ndarray) else ""
        tolerance = max(ROUNDING.get(kind, 0.0), _QUANTIZED if name in coarse and kind in ROUNDING else 0.0)
        tolerance = max(tolerance, narrowed if kind in ROUNDING else 0.0)
        step = _within_a_step(model, name, expected, result) if difference > tolerance and name in coarse else None
        if difference > tolerance and step is None:
            by = (
                f"by {difference:.1e} of its largest element"
                if np.isfinite(difference)
                else "in shape, type or non-finite elements"
            )
            raise DoesNotHold(f"run on random inputs (seed {seed}), the output's {in_quotes(name)} differs {by}")
        worst = max(worst, difference if step is None else step)
    return worst


def _within_a_step(model: PlainModel, output: str, expected: Any, result: Any) -> float | None:
    """The largest difference as a part of the largest element, if it is at most one step of the output's quantization;
    None if it is more, or if the output has no step."""
    if not (isinstance(expected, np.ndarray) and isinstance(result, np.ndarray)) or expected.dtype.kind not in "fiu":
        return None
    if expected.dtype != result.dtype or expected.shape != result.shape:
        return None
    step = 1.0 if expected.dtype in (np.uint8, np.int8) else _scale_of(model, output)
    a, b = expected.astype(np.float64), result.astype(np.float64)
    difference = np.abs(a - b).max(initial=0.0)
    return float(difference / max(np.abs(a).max(), step)) if difference <= _STEP * step else None


def _scale_of(model: PlainModel, output: str) -> float:
    """The scale of the DequantizeLinear that computes the output; 0 if there is none or its scale is not constant."""
    producer = next((call for call in model.graph.nodes.values() if output in call.outputs), None)
    if producer is None or producer.op_type != "DequantizeLinear":
        return 0.0
    scales = (tensor for tensor in model.proto.graph.initializer if tensor.name == producer.inputs[1])
    return max((float(onnx.numpy_helper.to_array(tensor).max(initial=0.0)) for tensor in scales), default=0.0)


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
        a, b = one.astype(np.float64), other.astype(np.float64)
        special = ~np.isfinite(a)
        if not np.array_equal(a[special], b[special], equal_nan=True) or not np.isfinite(b[~special]).all():
            return float("inf")
        scale = np.abs(a[~special]).max(initial=0.0)
        difference = np.abs(a[~special] - b[~special]).max(initial=0.0)
        worst = max(worst, float(difference / scale) if scale else float("inf") if difference else 0.0)
    return worst


def _quantized_outputs(model: PlainModel) -> set[str]:
    """The outputs that depend on an operator that rounds to 8 bits or less."""
    producers = {value: call for call in model.graph.nodes.values() for value in call.outputs if value}
    rounding = {
        call.key for call in model.graph.nodes.values() if "Quantize" in call.op_type or "QLinear" in call.op_type
    }
    quantized = set()
    for output in model.graph.outputs:
        waiting, seen = [output], {output}
        while waiting:
            call = producers.get(waiting.pop())
            if call is None:
                continue
            if call.key in rounding:
                quantized.add(output)
                break
            fresh = call.reads - seen
            seen |= fresh
            waiting += fresh
    return quantized


def _one_line(error: Exception) -> str:
    return escaped(" ".join(str(error).split()), 160)
