"""What rounding explains of the difference between two runs of a value, element by element.

Two graphs that compute the same round differently. By how much an element may differ for that is seen in two ways:
by its size and by the sizes around it; and, where that is not enough, by how far it moves when the original's weights
and inputs are rounded anew (Monte Carlo arithmetic: Stott Parker, "Monte Carlo Arithmetic", UCLA 1997).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

OF_ELEMENT = 1e-5  # of the element itself: a hundred units in the last place of float32
OF_VALUE = 5e-5  # of the root mean square of the value
OF_SLICE = 1e-2  # of the root mean square of each slice with the element, such as its channel and its row
OF_LARGEST = 2.0**-22  # of the largest element, of which a Sigmoid's kernel has no smaller parts
OF_VALUE_AT_ZERO = 1e-5  # of the root mean square of the value, where a Relu or Clip made 0 of one of the two
LAST_PLACES = 2  # units in the last place, of numbers that were rounded to a type of few places
TIMES_MOVED = 16  # times the largest movement in a slice with the element, where it is not less than usual in the value
OF_ONE = 2.0**-20  # of small numbers that move: a Sigmoid's kernel is off by so much where it is almost 0
SOME_STEPS, FEW = 4, 1e-3  # a few of a quantized value's elements may be so many steps off, the others one
TIMES_AS_MANY = 4  # times the elements that rounding moves by more than a step
_SLICE = 16  # elements that a slice has at least; the rms of fewer says little

Values = Mapping[str, np.ndarray]  # of one run, by name
_Reduce = Callable[..., np.ndarray]


def unexplained(
    a: np.ndarray, b: np.ndarray, moved: np.ndarray | None = None, numbers_only: bool = False
) -> np.ndarray | None:
    """The elements whose difference rounding does not explain, as a mask; None if there is none.

    a, b: of one shape; `a` is right. A NaN equals a NaN. Integers of 8 bits may differ by a step, a few by some; other
          integers, bools and strings not at all.
    moved: by how much the elements of `a` moved when weights and inputs were rounded anew; of the shape of `a`.
    numbers_only: whether elements do not count that are infinite or NaN in `a`.
    """
    if _same_bits(a, b):
        return None
    if not holds_floats(a):
        wrong = _off_by_steps(a, b, moved) if a.dtype in (np.uint8, np.int8) else a != b
        return wrong if wrong.any() else None
    right, found = (_wide(number) for number in (a, b))
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(right - found)
        excess = error - OF_ELEMENT * np.abs(right)
    if float(excess.max()) <= 0.0 or _is_small(excess, right):  # neither holds where one is no number
        return None
    finite = np.isfinite(right) & np.isfinite(found)
    other_end = ~finite & ~((right == found) | (np.isnan(right) & np.isnan(found)))
    if numbers_only:
        other_end &= np.isfinite(right)
    right, found, excess = (np.where(finite, number, 0) for number in (right, found, excess))
    wrong = excess > _of_surroundings(right, found)
    if wrong.any():
        wrong &= error > LAST_PLACES * _last_place(a, right) * np.abs(right)
    if moved is not None and wrong.any():
        moved = _wide(moved)
        allowed = np.maximum(TIMES_MOVED * least_of_slices(np.max, moved), _rms(moved))
        wrong &= excess > np.maximum(allowed, min(TIMES_MOVED * _usual(moved), OF_ONE))
    wrong |= other_end
    return wrong if wrong.any() else None


def _off_by_steps(a: np.ndarray, b: np.ndarray, moved: np.ndarray | None) -> np.ndarray:
    """The quantized elements that are more than a step off.

    Behind others that are, a few may be some steps off, or as many by as much as rounding moves them so far.
    """
    steps = np.abs(a.astype(np.int16) - b)
    wrong = steps > 1
    few, most = FEW * a.size, float(SOME_STEPS)
    if moved is not None:
        few = max(few, TIMES_AS_MANY * int(np.count_nonzero(moved > 1)))
        most = max(most, 2 * float(moved.max()))
    return np.asarray(steps > most if np.count_nonzero(wrong) <= few else wrong)


def _usual(moved: np.ndarray) -> float:
    """How far the elements move that move."""
    moving = moved[moved > 0]
    return float(np.median(moving)) if moving.size else 0.0


def _last_place(a: np.ndarray, right: np.ndarray) -> float:
    """The unit in the last place of the type that the numbers were rounded to, if that has 16 bits; else 0."""
    if a.dtype.itemsize == 2:
        return float(2.0**-10 if a.dtype == np.float16 else 2.0**-7)
    with np.errstate(over="ignore", invalid="ignore"):
        return 2.0**-10 if np.array_equal(right.astype(np.float16).astype(right.dtype), right) else 0.0


def _is_small(excess: np.ndarray, right: np.ndarray) -> bool:
    """Whether the largest excess of each slice is within its bound: quick, and enough for most values."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.square(right)
        whole = float(np.sqrt(squares.mean()))
    if not (float(excess.max()) <= OF_VALUE * whole and math.isfinite(whole)):
        return False
    for axis in _axes_of_slices(right.shape):
        others = tuple(other for other in range(right.ndim) if other != axis)
        if not np.all(excess.max(axis=others) <= OF_SLICE * np.sqrt(squares.mean(axis=others))):
            return False
    return True


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype != b.dtype or a.dtype.kind in "USO":
        return False
    if not (a.flags.c_contiguous and b.flags.c_contiguous):
        return a.dtype.kind in "fiub" and np.array_equal(a, b)
    bits = np.uint64 if a.nbytes % 8 == 0 else np.uint8
    return np.array_equal(a.reshape(-1).view(bits), b.reshape(-1).view(bits))


def holds_floats(number: np.ndarray) -> bool:
    """Whether its elements are floats, of types that numpy lacks too."""
    return number.dtype.kind in "fV"


def _wide(number: np.ndarray) -> np.ndarray:
    return number if number.dtype in (np.float32, np.float64) else number.astype(np.float32)


def _of_surroundings(right: np.ndarray, found: np.ndarray) -> np.ndarray:
    whole = _rms(right)
    allowed = np.minimum(OF_VALUE * whole, OF_SLICE * least_of_slices(_rms, right))
    at_zero = (right == 0) | (found == 0)
    allowed = np.where(at_zero, np.maximum(allowed, OF_VALUE_AT_ZERO * whole), allowed)
    return np.asarray(np.maximum(allowed, OF_LARGEST * np.abs(right).max()))


def _rms(number: np.ndarray, axis: tuple[int, ...] | None = None, keepdims: bool = False) -> np.ndarray:
    return np.asarray(np.sqrt(np.mean(np.square(number, dtype=np.float64), axis, keepdims=keepdims)))


def least_of_slices(reduce: _Reduce, number: np.ndarray) -> np.ndarray:
    """For each element the least of `reduce` over the slices that hold it: one across each axis, and the whole."""
    least = np.broadcast_to(np.asarray(reduce(number)), number.shape)
    for axis in _axes_of_slices(number.shape):
        others = tuple(other for other in range(number.ndim) if other != axis)
        least = np.minimum(least, reduce(number, axis=others, keepdims=True))
    return least


def _axes_of_slices(shape: tuple[int, ...]) -> list[int]:
    """The axes whose slices have enough elements for a root mean square to say something."""
    elements = math.prod(shape)
    return [axis for axis, size in enumerate(shape) if size > 1 and elements // size >= _SLICE]
