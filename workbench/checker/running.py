"""Runs both models on random inputs in ONNX Runtime, without its optimizations, and compares every element."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx

from workbench.checker.comparing import Differences, largest_difference, narrowed_outputs
from workbench.checker.drawing import Array, other_sizes, random_array, size_of_dim, with_corners
from workbench.checker.in_float32 import InFloat32
from workbench.checker.inference import inferred
from workbench.checker.outcome import DoesNotHold, escaped, in_quotes, listed, one_line
from workbench.checker.plain import PlainModel
from workbench.checker.rounding import moved_array, with_noise
from workbench.checker.sessions import NotCompared, cpu_session, with_weights
from workbench.checker.types import PlainType, differ_in_width, in_words, is_tensor, symbol_of, with_numbers

_HIGHEST = (10, 2, 1)  # limits of random integers, tried in this order until the model accepts them
_TRIED_SIZES = 4  # other sizes that are drawn until the model accepts them
_NOISY_RUNS = 3
_CLOSE = 2e-2  # the largest difference in narrower types that counts as equal, as a part of the largest element


@dataclass(frozen=True)
class RunsCompared:
    """equal: whether all results are equal, as far as the mode and narrower types allow. sentence: says how equal."""

    sentence: str
    equal: bool = False

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True)
class _Inputs:
    """Inputs that the model accepts, its results, the sizes of its free dims, and whether corner values are in them."""

    feed: Mapping[str, Array]
    expected: Sequence[Any]
    sizes: Mapping[str, int]
    corners: bool = False


def compared_runs(
    model: PlainModel, output: PlainModel, dims: Mapping[str, int], runs: int, mode: str, hinted: bool
) -> RunsCompared:
    """Runs both models on `runs` inputs: the first at the certificate's sizes, the others at other sizes where both
    models are free to take them; in mode `exact` each with corner values too.

    Raises DoesNotHold if a result of the output differs, or has not the shape that the output declares, or if only the
    model runs.

    hinted: whether the output declares sizes that do not follow from its nodes. Optimizations rely on such sizes, so
    the output then also runs with optimizations.
    """
    seed = secrets.randbits(32)  # not known beforehand, so that no file is made for it
    found = Differences(model, output, mode, narrowed_outputs(model, output))
    try:
        compared = _compare(found, dims, runs, seed, hinted)
    except NotCompared as why:
        return RunsCompared(f"not compared, since {why}")
    in_narrower = max((found.largest[name] for name in found.narrowed), default=0.0)
    rounded = max((size for name, size in found.largest.items() if name not in found.narrowed), default=0.0)
    where = f"on {_many(compared)}{_sizes(compared)} in ONNX Runtime without optimizations"
    where += f"{', and with them' if hinted else ''} (seed {seed})"
    if found.not_counted:
        where += f", without {found.not_counted:,} elements that are no numbers in the model, as mode fast allows"
    if not (in_narrower or rounded or found.zero_signs):
        return RunsCompared(f"equal to the last bit {where}", equal=True)
    how = f"rounding: by {rounded:.1e} of the largest element at most" if rounded else "the signs of zeros"
    sentence = f"equal {where}, up to {how}"
    if in_narrower:
        others = f", all other outputs by {rounded:.1e}" if len(found.narrowed) < len(found.largest) else ""
        named = f"{listed(found.narrowed)}, computed in a narrower element type,"
        sentence = f"close {where}: {named} off by {in_narrower:.1e} of the largest element at most{others}"
    if mode == "exact":
        return RunsCompared(f"{sentence}; its mode exact allows none")
    return RunsCompared(sentence, equal=in_narrower <= _CLOSE)


def _many(compared: Sequence[_Inputs]) -> str:
    corners = sum(one.corners for one in compared)
    plain = len(compared) - corners
    many = "1 random input" if plain == 1 else f"{plain:,} random inputs"
    return f"{many}, and {corners:,} with NaN, infinities or the largest numbers," if corners else many


def _sizes(compared: Sequence[_Inputs]) -> str:
    used: dict[str, list[int]] = {}
    for one in compared:
        for symbol, size in one.sizes.items():
            used[symbol] = [*dict.fromkeys([*used.get(symbol, []), size])]
    each = [f"{escaped(symbol, 40)}={' or '.join(f'{size:,}' for size in used[symbol])}" for symbol in sorted(used)]
    return f" with {', '.join(each)}" if each else ""


# ---- both models -------------------------------------------------------------------------------


def _compare(found: Differences, dims: Mapping[str, int], runs: int, seed: int, hinted: bool) -> list[_Inputs]:
    """Adds the differences of all runs, and gives their inputs."""
    model, output = found.model, found.output
    differing = next((name for name in model.feed_inputs if not _same_for_callers(name, model, output, dims)), None)
    if differing is not None:
        raise NotCompared(f"the input {in_quotes(differing)} has another type or shape in each model")
    proto = with_weights(model)
    try:
        session = cpu_session(proto)
    except Exception as error:  # ONNX Runtime has its own classes
        raise NotCompared(f"ONNX Runtime does not load the model ({one_line(str(error))})") from None
    try:
        levels = (False, True) if hinted else (False,)
        output_sessions = [cpu_session(with_weights(output), level) for level in levels]
    except Exception as error:
        if type(error).__name__ == "NotImplemented":  # as for bfloat16 on a CPU, which says nothing of the numbers
            raise NotCompared(f"ONNX Runtime cannot run the output here ({one_line(str(error))})") from None
        raise DoesNotHold(f"ONNX Runtime loads the model, but not the output ({one_line(str(error))})") from None
    random = np.random.default_rng(seed)
    in_float32 = InFloat32(model, output, found.mode, found.narrowed, random) if found.narrowed else None
    noisy = cache(lambda: _noisy_sessions(proto, model, dims, random))
    compared: list[_Inputs] = []
    for inputs in _drawn(session, found, dims, runs, random):
        if not compared and largest_difference(inputs.expected, session.run(None, inputs.feed)) > 0:
            raise NotCompared("the model gives different results in each run")
        where = f"run on random inputs (seed {seed}){_sizes([inputs])}"
        movements = cache(lambda feed=inputs.feed: list(_noisy_results(noisy(), feed, random)))
        for output_session in output_sessions:
            try:
                results = output_session.run(None, _as_taken(inputs.feed, model, output))
            except Exception as error:
                raise DoesNotHold(
                    f"ONNX Runtime runs the model{_sizes([inputs])}, but not the output ({one_line(str(error))})"
                ) from None
            found.add(inputs.expected, results, movements, where)
            _check_declared_shapes(model, output, results, inputs, where)
        if in_float32 is not None:
            in_float32.check(inputs.feed, inputs.expected, movements, where)
        compared.append(inputs)
    return compared


def _check_declared_shapes(
    model: PlainModel, output: PlainModel, results: Sequence[Any], inputs: _Inputs, where: str
) -> None:
    """Raises DoesNotHold if a result has not the shape that the output declares, and the model does not declare."""
    for name, result in zip(model.graph.outputs, results, strict=True):
        declared: PlainType = output.types.get(name)
        if not is_tensor(declared) or declared[1] is None or not isinstance(result, np.ndarray):
            continue
        if declared == model.types.get(name):
            continue
        sizes = with_numbers(declared, inputs.sizes)[1]
        known = [
            (size, dim) for size, dim in zip(result.shape, sizes, strict=False) if isinstance(dim, int) and dim >= 0
        ]
        if len(sizes) != result.ndim or any(size != dim for size, dim in known):
            shape = f"[{', '.join(map(str, result.shape))}]"
            raise DoesNotHold(
                f"{where}, the output's {in_quotes(name)} has the shape {shape}, and it declares {in_words(declared)}"
            )


def _drawn(
    session: Any, found: Differences, dims: Mapping[str, int], runs: int, random: np.random.Generator
) -> Iterator[_Inputs]:
    """Inputs that the model accepts: `runs` of them, and in mode `exact` also each with corner values."""
    model, output = found.model, found.output
    named = sorted({*model.symbols, *(symbol for symbol in output.symbols if symbol in dims)})
    usual = {symbol: size_of_dim(symbol, dims) for symbol in named}
    free = sorted(model.symbols & output.symbols)
    for number in range(runs):
        needed = _fed_inputs(model, output, with_defaults=number % 2 == 1)
        others = [usual | other_sizes(free, dims, random) for _ in range(_TRIED_SIZES)] if number and free else []
        inputs = _first_that_runs(session, needed, [*others, usual], random, number)
        yield inputs
        for finite in (True, False) if found.mode == "exact" else ():
            feed = {name: with_corners(array, random, finite) for name, array in inputs.feed.items()}
            try:
                expected = session.run(None, feed)
            except Exception:  # as a Gather whose indices are computed from NaN
                continue
            yield _Inputs(feed, expected, inputs.sizes, corners=True)


def _first_that_runs(
    session: Any,
    needed: Mapping[str, PlainType],
    tries: Sequence[Mapping[str, int]],
    random: np.random.Generator,
    kind: int,
) -> _Inputs:
    """Random inputs at the first of these sizes that the model accepts. kind: of floats, as of `random_array`."""
    why = ""
    for sizes in tries:
        for highest in _HIGHEST:
            try:
                feed = {name: random_array(name, type_, sizes, random, highest, kind) for name, type_ in needed.items()}
                return _Inputs(feed, session.run(None, feed), sizes)
            except Exception as error:
                why = why or one_line(str(error))
    raise NotCompared(f"ONNX Runtime does not run the model ({why})")


def _noisy_sessions(
    proto: onnx.ModelProto, model: PlainModel, dims: Mapping[str, int], random: np.random.Generator
) -> list[Any]:
    """The model with noise; none if ONNX Runtime does not run it so."""
    try:
        return [cpu_session(with_noise(proto, inferred(model, dims).types, random)) for _ in range(_NOISY_RUNS)]
    except Exception:  # as for a type of which it draws no random numbers
        return []


def _noisy_results(
    sessions: Sequence[Any], feed: Mapping[str, Array], random: np.random.Generator
) -> Iterator[Sequence[Any]]:
    for session in sessions:
        try:
            yield session.run(None, {name: moved_array(array, random) for name, array in feed.items()})
        except Exception:  # as where noise moves a number out of its range
            continue


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


def _fed_inputs(model: PlainModel, output: PlainModel, with_defaults: bool) -> dict[str, PlainType]:
    """The inputs to feed. with_defaults: also inputs with a default, if both models have them."""
    return {
        name: type_
        for name, type_ in model.feed_inputs.items()
        if name not in model.defaults or (with_defaults and name in output.feed_inputs)
    }
