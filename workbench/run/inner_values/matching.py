"""Which value of a graph is which of another, by the numbers that they have in the same runs.

A value has a name in both graphs, or not: a rewrite that folds a bias into a convolution may leave the sum under the
name of the product, and a layout gives new names to values with permuted axes. So a value is first compared with the
one of its name, then with those of the same sizes, in any order of axes.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from workbench.run.inner_values.rounding import OF_ONE, TIMES_MOVED, Values, holds_floats, unexplained
from workbench.run.tolerances import Tolerance

Order = tuple[int, ...] | None  # of axes; None for their own


class MovementOf(Protocol):
    """By how much a value of a run moves by rounding, at most in so many times; None if unknown."""

    def __call__(self, run: int, name: str, times: int = 1) -> np.ndarray | None: ...


FLOAT16_INSIDE = Tolerance(0.2, 0.0, "for a value in two types")
_MOST_TIMES = 4  # that all is rounded anew, where a difference seems to be more than rounding
_RUNS_OF_LINE = 3
_LEAST_OF_LINE = 3  # numbers; fewer lie on a line always
_FEW = 8  # elements; fewer may be equal by chance
_PLACES = 512  # elements of a value by which another is found that it mostly equals
_MOSTLY = 0.4  # share of them
_CLOSE = 1e-3  # of the root mean square: two sketches, or two elements, that may belong to one value
_NEARER = 0.1  # times the distance of two slices: how near the one is to a line of the other that it is to be
_BEYOND_ROUNDING = 3e-2  # an error of that share of the largest number is none of rounding
_OF_NARROWED = 0.1  # times what a narrowed value may be off: elements nearer than that say that it is the same value
_PARTLY = 0.2  # share of a value's elements that say that it is the value of its name, where others differ


@dataclass(frozen=True)
class ValueMatch:
    """What a value of the second graph is in the first.

    name:    the value there; "" if there is none.
    wrong:   elements that rounding does not explain, over all runs; 0 if the two are the same.
    equal:   the share of the other elements, of those that are not 0 or nearly.
    example: the first that is wrong, in words; "" if none is.
    order:   the order of its axes in which it is the other.
    off:     of each run with wrong elements the right value, the found one, and which elements are wrong.
    run:     the number of the run of the example.
    """

    name: str
    wrong: int = 0
    equal: float = 1.0
    example: str = ""
    order: Order = None
    off: tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...] = ()
    run: int = 0

    @property
    def is_rescaled(self) -> bool:
        """Whether each slice with wrong elements is a multiple of the right one, or has a number added."""
        return bool(self.off) and _is_rescaled(self.off[:_RUNS_OF_LINE])


class ValueMatcher:
    """Compares the values of a graph with those of the first one.

    runs:     of the first graph, on several inputs.
    moved:    asked only where that may be all.
    narrowed: how far values may differ that were narrowed on purpose, by name.
    numbers_only: whether elements do not count that are infinite or NaN in the first graph.
    unrecorded: sizes of values of the first graph that were too large to be recorded.
    """

    def __init__(
        self,
        runs: Sequence[Values],
        moved: MovementOf,
        narrowed: Mapping[str, Tolerance],
        numbers_only: bool = False,
        unrecorded: Collection[Sequence[int]] = (),
    ) -> None:
        self._runs, self._moved, self._narrowed, self._numbers_only = runs, moved, narrowed, numbers_only
        self._unrecorded = {tuple(sorted(shape)) for shape in unrecorded}
        self._sketches: dict[str, np.ndarray] = {}

    def match(self, runs: Sequence[Values], name: str) -> ValueMatch:
        """What the second graph's value is in the first one, of any name. `wrong` is 0, or it is compared by name."""
        own = self.by_name(runs, name)
        return own if own.name and not own.wrong else self._equal_one(runs, name) or own

    def by_name(self, runs: Sequence[Values], name: str, tolerance: Tolerance | None = None) -> ValueMatch:
        """The value beside the one of its name in the first graph, if that has one of its sizes.

        tolerance: elements within it are equal too.
        """
        own = self._compared(runs, name, name, None, tolerance) if name in self._runs[0] else None
        return own or ValueMatch("")

    def is_explained(self, runs: Sequence[Values], name: str, match: ValueMatch) -> bool:
        """Whether rounding explains what differs from the first graph's value, however much that is.

        A run says nothing in which rounding alone moves an element by what is no rounding, as where a Softmax takes the
        larger one of two large numbers that are about equal, unless the value is farther off than any element moves.
        At least one run must say something.
        """
        tells = False
        for run, (first, second) in enumerate(zip(self._runs, runs, strict=True)):
            right, moved = first[match.name], self._moved(run, match.name)
            found = second[name] if match.order is None else second[name].transpose(match.order)
            if holds_floats(right) and moved is not None and moved.size and not _is_rounding(right, moved):
                if np.abs(_finite(right) - _finite(found)).max() > TIMES_MOVED * moved.max():
                    return False
                continue
            wrong = self._beyond_bounds(right, found, self._narrowed_of(match.name, name))
            for times in range(1, _MOST_TIMES + 1):
                wrong = None if wrong is None else self._beyond_movement(run, match.name, right, found, wrong, times)
            if wrong is not None:
                return False
            tells = True
        return tells

    def mostly_equal(self, runs: Sequence[Values], name: str) -> ValueMatch | None:
        """The value of the first graph that the value has at most places of a sample, as if one channel was wrong.

        None where the right one may be among those that were not recorded: what stands before a Relu has most of its
        elements.
        """
        array = runs[0][name]
        if tuple(sorted(array.shape)) in self._unrecorded:
            return None
        best, best_share = None, _MOSTLY
        for other in self._candidates(array):
            right = self._runs[0][other]
            for order in _orders(array.shape, right.shape):
                share = _equal_share(right, array if order is None else array.transpose(order))
                if share > best_share:
                    best, best_share = (other, order), share
        return None if best is None else self._compared(runs, name, *best)

    def _compared(
        self, runs: Sequence[Values], name: str, other: str, order: Order, tolerance: Tolerance | None = None
    ) -> ValueMatch | None:
        """The value `name`, its axes in that order, beside `other` of the first graph; None if sizes differ."""
        pairs = []
        for first, second in zip(self._runs, runs, strict=True):
            right, found = first[other], second[name] if order is None else second[name].transpose(order)
            if right.shape != found.shape or not _of_one_kind(right, found):
                return None
            pairs.append((right, found))
        of_types = FLOAT16_INSIDE if pairs[0][0].dtype != pairs[0][1].dtype else tolerance
        narrowed = self._narrowed_of(other, name)
        masks = self._unexplained(other, pairs, narrowed or of_types)
        if all(mask is None for mask in masks):
            return ValueMatch(other)
        wrong = equal = distinct = 0
        for (right, found), mask in zip(pairs, masks, strict=True):
            large, apart = _distinct(right), self._apart(right, found, mask, narrowed)
            distinct += int(np.count_nonzero(large))
            equal += int(np.count_nonzero(large if apart is None else large & ~apart))
            wrong += 0 if mask is None else int(np.count_nonzero(mask))
        off = {run: (*pairs[run], mask) for run, mask in enumerate(masks) if mask is not None}
        run = min(off, key=lambda run: _may_be_rounding(*pairs[run]))
        example = _example(*off[run], run)
        return ValueMatch(other, wrong, equal / max(distinct, 1), example, order, tuple(off.values()), run)

    def _narrowed_of(self, first: str, second: str) -> Tolerance | None:
        """How far a value may differ that was narrowed on purpose, by its names in both graphs; None if it was not."""
        return self._narrowed.get(first) or self._narrowed.get(second)

    def _apart(
        self, right: np.ndarray, found: np.ndarray, wrong: np.ndarray | None, narrowed: Tolerance | None
    ) -> np.ndarray | None:
        """The elements that are not equal: those that are wrong, and of a narrowed value those that it may be off too.

        What a narrowed value may be off is so much that other values are within it: one to which a bias was added, say.
        """
        if narrowed is None:
            return wrong
        return self._beyond_bounds(right, found, replace(narrowed, relative=_OF_NARROWED * narrowed.relative))

    def _unexplained(
        self, name: str, pairs: Sequence[tuple[np.ndarray, np.ndarray]], tolerance: Tolerance | None
    ) -> list[np.ndarray | None]:
        """By run, the elements that rounding does not explain.

        What it may explain is asked, which takes runs, only as long as no run shows that the values are not the same.
        """
        masks = [self._beyond_bounds(right, found, tolerance) for right, found in pairs]
        wrong = [(run, mask) for run, mask in enumerate(masks) if mask is not None]
        if any(not _may_be_rounding(*pairs[run]) for run, _ in wrong):
            return masks
        for run, mask in wrong:
            masks[run] = self._beyond_movement(run, name, *pairs[run], mask)
            if masks[run] is not None:
                break
        return masks

    def _beyond_bounds(self, right: np.ndarray, found: np.ndarray, tolerance: Tolerance | None) -> np.ndarray | None:
        wrong = unexplained(right, found, None, self._numbers_only)
        if wrong is not None and tolerance is not None:
            wrong &= np.abs(_finite(right) - _finite(found)) > tolerance.largest(_finite(right))
        return wrong if wrong is not None and wrong.any() else None

    def _beyond_movement(
        self, run: int, name: str, right: np.ndarray, found: np.ndarray, wrong: np.ndarray, times: int = 1
    ) -> np.ndarray | None:
        moved = self._moved(run, name, times)
        beyond = wrong if moved is None else unexplained(right, found, moved, self._numbers_only)
        if beyond is None:
            return None
        both = np.asarray(wrong & beyond)
        return both if both.any() else None

    # ---- by numbers -----------------------------------------------------------------------

    @cached_property
    def _by_sizes(self) -> Mapping[tuple[int, ...], list[str]]:
        results = defaultdict(list)
        for name, array in self._runs[0].items():
            if _is_distinctive(array):
                results[tuple(sorted(array.shape))].append(name)
        return results

    def _sketch_of(self, name: str) -> np.ndarray:
        if name not in self._sketches:
            self._sketches[name] = _sketch(self._runs[0][name])
        return self._sketches[name]

    def _candidates(self, array: np.ndarray) -> list[str]:
        return self._by_sizes.get(tuple(sorted(array.shape)), []) if _is_distinctive(array) else []

    def _equal_one(self, runs: Sequence[Values], name: str) -> ValueMatch | None:
        array, sketch = runs[0][name], None
        for other in self._candidates(array):
            sketch = _sketch(array) if sketch is None else sketch
            if not np.allclose(self._sketch_of(other), sketch, rtol=_CLOSE):
                continue
            for order in _orders(array.shape, self._runs[0][other].shape):
                found = self._compared(runs, name, other, order)
                if found is not None and not found.wrong:
                    return found
        return None


def is_partly_equal(match: ValueMatch) -> bool:
    """Whether it is the value of its name after all, of which a part is wrong."""
    return match.wrong > 0 and match.equal >= _PARTLY


def _is_rescaled(off: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> bool:
    """Whether along some axis each slice with wrong elements is a * x + b of the right one, a not 0, over some runs.

    A scale or a shift that a rewrite moved through the graph does that, where it is 1 or 0 for the other slices. These
    are few; a fault has one slice of many.
    """
    if len({mask.shape for *_, mask in off}) > 1 or not holds_floats(off[0][0]):
        return False
    right, found = (np.stack([np.asarray(one[side], np.float64) for one in off]) for side in (0, 1))
    wrong = np.stack([mask for *_, mask in off])
    if not (np.isfinite(right).all() and np.isfinite(found).all()):
        return False
    return any(_is_rescaled_along(axis, right, found, wrong) for axis in range(1, right.ndim))


def _is_rescaled_along(axis: int, right: np.ndarray, found: np.ndarray, wrong: np.ndarray) -> bool:
    a, b, mask = (np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1) for array in (right, found, wrong))
    rows = np.flatnonzero(mask.any(axis=1))
    return (2 * rows.size >= len(a) or len(a) <= _FEW) and all(_is_line(a[row], b[row]) for row in rows)


def _is_line(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether y = a * x + b with one a, not 0, and one b, which is 0 if there are few numbers.

    The line must be far nearer to y than x is: else some elements are wrong, by less than what a line may be off.
    """
    difference = float(np.abs(y - x).max())
    if x.size >= _FEW:
        x, y = x - x.mean(), y - y.mean()
    square = float(x @ x)
    if square == 0.0:
        return False
    if np.count_nonzero(x) < _LEAST_OF_LINE:
        return True  # nothing speaks against it
    slope = float(x @ y) / square
    off = float(np.abs(y - slope * x).max())
    return slope != 0.0 and off <= min(_CLOSE * math.sqrt(square / x.size) * abs(slope), _NEARER * difference)


def _of_one_kind(right: np.ndarray, found: np.ndarray) -> bool:
    return right.dtype == found.dtype or (holds_floats(right) and holds_floats(found))


def _finite(array: np.ndarray) -> np.ndarray:
    wide = array.astype(np.float32, copy=False)
    return np.where(np.isfinite(wide), wide, 0)


def _distinct(array: np.ndarray) -> np.ndarray:
    """The elements that tell a value from others: not those near 0, which a Relu makes of many values."""
    if not holds_floats(array) or not array.size:
        return np.ones(array.shape, bool)
    size = np.abs(_finite(array))
    return np.asarray(size > _CLOSE * np.sqrt(np.mean(np.square(size, dtype=np.float64))))


def _may_be_rounding(right: np.ndarray, found: np.ndarray) -> bool:
    if not holds_floats(right):
        return False
    return _is_rounding(right, _finite(right) - _finite(found))


def _is_rounding(right: np.ndarray, difference: np.ndarray) -> bool:
    """Whether no element differs by what is certainly more than rounding."""
    return bool(np.abs(difference).max() <= max(_BEYOND_ROUNDING * np.abs(_finite(right)).max(), OF_ONE))


def _is_distinctive(array: np.ndarray) -> bool:
    """Whether equal numbers identify a value; those of a mask, a size or a constant do not."""
    return holds_floats(array) and array.size >= _FEW and bool((array != array.reshape(-1)[0]).any())


def _sketch(array: np.ndarray) -> np.ndarray:
    """Two numbers that no order of axes changes."""
    wide = np.abs(_finite(array)).astype(np.float64)
    return np.array([wide.sum(), np.sqrt(np.square(wide).sum())])


def _orders(shape: tuple[int, ...], other: tuple[int, ...]) -> Iterator[Order]:
    """The orders of axes in which the first shape is the other."""
    if shape == other:
        yield None
    own = tuple(range(len(shape)))
    if len(shape) == len(other) and 3 <= len(shape) <= 5:
        orders = itertools.permutations(own)
        yield from (order for order in orders if order != own and tuple(shape[axis] for axis in order) == other)


def _equal_share(right: np.ndarray, found: np.ndarray) -> float:
    """The share of sampled elements, those near 0 left out, that are about equal."""
    places = np.random.default_rng(0).integers(0, right.size, _PLACES)
    index = np.unravel_index(places, right.shape)
    a, b = (np.nan_to_num(array[index].astype(np.float64)) for array in (right, found))
    limit = _CLOSE * np.sqrt(np.mean(np.square(a)))
    distinct = np.abs(a) > limit
    return float(np.count_nonzero(distinct & (np.abs(a - b) <= limit)) / max(int(np.count_nonzero(distinct)), 1))


def _example(right: np.ndarray, found: np.ndarray, wrong: np.ndarray, run: int) -> str:
    place = np.unravel_index(int(wrong.argmax()), wrong.shape)
    at = f" at {[int(index) for index in place]}" if right.ndim else ""
    other, one = (f"{float(n):.6g}" if holds_floats(right) else str(n) for n in (found[place], right[place]))
    return f"{other} in place of {one}{at}, input {run + 1}"
