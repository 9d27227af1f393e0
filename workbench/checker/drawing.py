"""Random inputs for a model: of several kinds, with corner values, at several sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper

from workbench.checker.types import PlainType, in_words, is_tensor, symbol_of

Array = npt.NDArray[Any]
SMALLEST = 2  # the size of a dim for which the certificate has no number, or 0
_OTHER_SIZES = (1, 3, 4, 5, 8, 32)
_DOUBLED = 256  # sizes up to it are doubled too
_MAX_ELEMENTS = 2**28  # the most elements of an input
_NONZERO = 0.75  # the share of nonzero numbers in every second input; the others become 0
_BLOCKS = 4  # areas of one scale along an axis
_ONE_CORNER_IN = 32  # elements


def size_of_dim(symbol: str, dims: Mapping[str, int]) -> int:
    """The size of a dim with this name. dims: the certificate's numbers."""
    return dims.get(symbol) or SMALLEST


def other_sizes(symbols: Sequence[str], dims: Mapping[str, int], random: np.random.Generator) -> dict[str, int]:
    """Sizes for these dims, of which a few are the certificate's."""
    drawn = {}
    for symbol in symbols:
        usual = size_of_dim(symbol, dims)
        drawn[symbol] = int(random.choice([usual, *([2 * usual] if usual <= _DOUBLED else []), *_OTHER_SIZES]))
    return drawn


def random_array(
    value: str, type_: PlainType, dims: Mapping[str, int], random: np.random.Generator, highest: int, kind: int = 0
) -> Array:
    """Random elements for an input. dims: numbers for symbols. highest: the limit of integers, exclusive.

    kind: that of floats. 0, 2, 4 and so on: normal numbers, areas of 0.01 to 10 times the usual, large numbers on one
    side, and again. Odd: the same, with many zeros.
    """
    if not is_tensor(type_) or type_[1] is None:
        raise ValueError(f"an input is {in_words(type_)}")
    named_sizes = [symbol_of(value, axis, dim) for axis, dim in enumerate(type_[1])]
    shape = [size_of_dim(symbol, dims) if symbol else dim for symbol, dim in zip(named_sizes, type_[1], strict=True)]
    if math.prod(shape) > _MAX_ELEMENTS:
        raise ValueError(f"an input of {math.prod(shape):,} elements is too large")
    if type_[0] == TensorProto.STRING:
        return random.choice(np.array(["a", "b", "c d"], object), shape)
    dtype = helper.tensor_dtype_to_np_dtype(type_[0])
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype)
    if dtype.kind == "f":
        array = (_FLOATS[kind // 2 % len(_FLOATS)](shape, random)).astype(dtype)
    elif dtype.kind in "iu":
        array = random.integers(0, highest, shape).astype(dtype)
    else:
        raise ValueError(f"an input is {in_words(type_)}")
    return _with_zeros(array, random) if kind % 2 else array


def with_corners(array: Array, random: np.random.Generator, finite: bool) -> Array:
    """The array with corner values in place of a few floats.

    finite: the largest and the smallest numbers and zeros of both signs, in place of NaN and infinities.
    """
    if array.dtype.kind != "f" or not array.size:
        return array
    limits = np.finfo(array.dtype)
    ends = [np.nan, np.inf, -np.inf]
    corners = [limits.max, -limits.max, limits.smallest_subnormal, 0.0, -0.0] if finite else ends
    result = array.copy()
    many = min(array.size, max(len(corners), array.size // _ONE_CORNER_IN))
    places = random.choice(array.size, many, replace=False)
    result.flat[places] = np.resize(random.permutation(np.array(corners, array.dtype)), many)
    return result


def _with_zeros(array: Array, random: np.random.Generator) -> Array:
    kept = random.random(array.shape) < _NONZERO
    if array.size > 1:
        kept.flat[random.integers(array.size)] = False  # of few numbers chance alone would often keep all
    return np.where(kept, array, np.zeros((), array.dtype))


def _normal(shape: Sequence[int], random: np.random.Generator) -> Array:
    return random.standard_normal(shape)


def _areas(shape: Sequence[int], random: np.random.Generator) -> Array:
    """Normal numbers, whose scale is another in each area along the last two axes."""
    grid = [min(_BLOCKS, size) for size in shape[-2:]]
    scale = 10.0 ** random.uniform(-2, 1, grid)
    for axis, size in enumerate(shape[-2:]):
        scale = np.take(scale, np.arange(size) * grid[axis] // max(size, 1), axis)
    return random.standard_normal(shape) * scale


def _one_side(shape: Sequence[int], random: np.random.Generator) -> Array:
    """Small numbers, and large ones of one sign in the second half of the last axis."""
    numbers = 0.01 * random.standard_normal(shape)
    if shape and shape[-1]:
        numbers[..., shape[-1] // 2 :] += 20.0 * random.standard_normal()
    return numbers


_FLOATS = (_normal, _areas, _one_side)
