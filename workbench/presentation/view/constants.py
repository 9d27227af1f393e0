"""Statistics of a constant's elements, with a small histogram."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.ir import Constant, DataType, constant_shape, constant_type

BINS = 24
MAX_READ = 50_000_000  # elements; a larger constant is sampled
_SAMPLE_SIZE = 5_000_000
_MAX_SHOWN = 8  # elements in a row of first values
_MAX_TEXT = 60  # characters of a shown string


@dataclass(frozen=True)
class Statistics:
    """Statistics of a constant's elements; of complex elements, of their magnitudes.

    elements, read: numbers of all elements, and of those that were read.
    low, high, mean, deviation: of the finite elements that were read; None if there are none. `deviation` is the
              standard deviation of the population.
    zeros, nans, infinite: numbers of such elements among those that were read.
    counts:   of the histogram's equal bins from low to high; empty if low and high are equal or not finite.
    """

    elements: int
    read: int
    low: float | int | None
    high: float | int | None
    mean: float | None
    deviation: float | None
    zeros: int
    nans: int
    infinite: int
    counts: tuple[int, ...]


def statistics_of(array: np.ndarray) -> Statistics:
    """The statistics of an array of any of ONNX's element types except strings."""
    array = array.reshape(-1)
    elements = array.size
    if elements > MAX_READ:
        array = array[:: math.ceil(elements / _SAMPLE_SIZE)]
    numbers = _as_numbers(array)
    floats = numbers.dtype.kind == "f"
    finite = numbers[np.isfinite(numbers)] if floats else numbers
    nans = int(np.isnan(numbers).sum()) if floats else 0
    mean, deviation = _mean_and_deviation(finite)
    low, high = (finite.min().item(), finite.max().item()) if finite.size else (None, None)
    return Statistics(
        elements=elements,
        read=array.size,
        low=low,
        high=high,
        mean=mean,
        deviation=deviation,
        zeros=int((numbers == 0).sum()),
        nans=nans,
        infinite=numbers.size - finite.size - nans,
        counts=_histogram(finite, low, high),
    )


def constant_section(value: str, tensor: Constant, layout: str) -> dict[str, Any]:
    """The inspector's section on a constant: type, layout, bytes, statistics, histogram."""
    type_ = constant_type(tensor)
    rows = [["type", str(type_)], ["layout", layout], ["shape", _shape_text(constant_shape(tensor))]]
    section: dict[str, Any] = {"title": f"Constant {value}", "open": True, "rows": rows}
    try:
        rows.append(["bytes", f"{tensor.nbytes:,}"])
        array = np.asarray(tensor.numpy()).reshape(-1)
        if tensor.dtype == DataType.STRING:
            rows += _string_rows(array)
            return section
        statistics = statistics_of(array)
        rows += _rows(statistics, array)
    except Exception as error:  # the weights file is missing, or a computed constant failed: shown, not raised
        section["text"] = f"It cannot be read: {type(error).__name__}: {error}"
        return section
    if statistics.counts:
        caption = f"{statistics.read:,} values of {value}"
        section["histogram"] = {
            "low": statistics.low,
            "high": statistics.high,
            "counts": list(statistics.counts),
            "words": caption,
        }
    if statistics.read < statistics.elements:
        section["text"] = f"Of {statistics.elements:,} elements {statistics.read:,} were read, evenly spaced."
    return section


def first_values(tensor: Constant) -> str:
    """The first elements as text; a sentence if they cannot be read."""
    try:
        array = np.asarray(tensor.numpy()).reshape(-1)
    except Exception as error:  # as above
        return f"it cannot be read: {type(error).__name__}: {error}"
    return _first(array)


def _number(value: float | int | None) -> str:
    """A number as text, "-" for None."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def _as_numbers(array: np.ndarray) -> np.ndarray:
    """The elements in a type with which NumPy computes: narrow types widened, complex numbers as magnitudes."""
    if array.dtype.kind == "c":
        return np.asarray(np.abs(array))
    if array.dtype.kind == "b":
        return array.view(np.uint8)
    if array.dtype in (np.float32, np.float64) or (array.dtype.kind in "iu" and array.dtype.isbuiltin == 1):
        return array
    return array.astype(np.float32)  # float16, bfloat16, float8, int4 and similar: every value fits


def _mean_and_deviation(finite: np.ndarray) -> tuple[float | None, float | None]:
    """Mean and standard deviation, computed on scaled values so that no square overflows."""
    if not finite.size:
        return None, None
    scale = max(abs(float(finite.min())), abs(float(finite.max())), np.finfo(np.float64).tiny)
    parts = finite.astype(np.float64) / scale
    return float(parts.mean() * scale), float(parts.std() * scale)


def _histogram(finite: np.ndarray, low: float | int | None, high: float | int | None) -> tuple[int, ...]:
    if low is None or high is None or low == high:
        return ()
    half_range = float(high) / 2 - float(low) / 2  # the whole range may exceed float64
    if not half_range:
        return ()
    bins = (finite.astype(np.float64) / 2 - float(low) / 2) / half_range * BINS
    counts = np.bincount(np.clip(bins.astype(np.int64), 0, BINS - 1), minlength=BINS)
    return tuple(int(count) for count in counts)


def _rows(statistics: Statistics, array: np.ndarray) -> list[list[str]]:
    if not statistics.elements:
        return [["elements", "none"]]
    if statistics.elements == 1:
        return [["value", str(array[0])]]
    suffix = " of magnitudes" if array.dtype.kind == "c" else ""
    return [
        [f"minimum{suffix}", _number(statistics.low)],
        [f"maximum{suffix}", _number(statistics.high)],
        [f"mean{suffix}", _number(statistics.mean)],
        [f"standard deviation{suffix}", _number(statistics.deviation)],
        ["zeros", f"{statistics.zeros / statistics.read:.2%}"],
        ["NaN", f"{statistics.nans:,}"],
        ["infinite", f"{statistics.infinite:,}"],
        ["first values", _first(array)],
    ]


def _string_rows(array: np.ndarray) -> list[list[str]]:
    texts = [_text(t) for t in array]
    return [["elements", f"{len(texts):,}"], ["different", f"{len(set(texts)):,}"], ["first values", _first(array)]]


def _first(array: np.ndarray) -> str:
    shown = [repr(_text(v)[:_MAX_TEXT]) if array.dtype.kind in "OSU" else str(v) for v in array[:_MAX_SHOWN]]
    return ", ".join(shown) + (", ..." if array.size > _MAX_SHOWN else "")


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _shape_text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"
