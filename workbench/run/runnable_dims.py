"""Numbers for free dims with which a model runs, found by trying common ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice, product
from typing import Any

from workbench.ir import Graph
from workbench.run.inputs import bound_dims, bound_sizes, dim_name

TRIES = 80
PIXELS = (256, 320, 48, 32, 64, 128, 512, 640, 1024, 1)  # sides of images, the usual ones first
LENGTHS = (512, 1, 256, 128, 1024, 32, 48, 64, 80, 16000)  # sizes of samples, batches, tokens, features
SMALLER = (4, 16, 64)  # parts to which sizes shrink if a run takes long
MAX_INPUT = 2**25  # elements; larger attempts would take too long


def settle_dims(
    graph: Graph, run: Callable[[Mapping[str, int]], str | None], given: Collection[str] = ()
) -> dict[str, int]:
    """Numbers for free dims with which the model runs, if it does not with the present ones.

    `run` is called with all free dims and returns the error, None for success.
    Common sizes are tried for one dim, then for all dims but the batch, then for
    pairs, at most TRIES times. Returns only changed dims: {} if none had to change,
    or if nothing helped. Dims in `given` are the user's and are not changed.
    """
    start = bound_dims(graph)
    if run(start) is None:
        return {}
    free = [name for name in start if name not in given]
    for candidate in islice(_changes(graph, free, start), TRIES):
        dims = {**start, **candidate}
        if _elements(graph, dims) <= MAX_INPUT and run(dims) is None:
            return _minimized(candidate, start, run)
    return {}


def smaller_dims(graph: Graph, given: Collection[str] = ()) -> Iterator[dict[str, int]]:
    """Smaller numbers for free dims, batches and those in `given` excepted: a quarter of each, a sixteenth, ...

    Sides of images stay among the usual ones, of which models make multiples.
    """
    start = bound_dims(graph)
    free = [name for name in start if name not in given and not _is_batch(graph, name)]
    last: dict[str, int] = {}
    for part in SMALLER:
        dims = {name: _at_most(graph, name, start[name] // part) for name in free}
        changed = {name: size for name, size in dims.items() if size < start[name]}
        if changed and changed != last:
            last = changed
            yield changed


def _at_most(graph: Graph, name: str, size: int) -> int:
    """The size itself; of the side of an image the largest usual one that is no larger, or the smallest."""
    sides = sorted(_candidates(graph, name)) if _is_side(graph, name) else []
    usual = [side for side in sides if 1 < side <= size]
    return max(1, size) if not sides else max(usual, default=next(side for side in sides if side > 1))


def _changes(graph: Graph, free: list[str], start: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Candidates, each with at least one changed dim, the most likely first."""
    sizes = {name: _candidates(graph, name) for name in free}
    inner = [name for name in free if not _is_batch(graph, name)]
    for name in [*inner, *(name for name in free if name not in inner)]:
        yield from ({name: size} for size in sizes[name] if size != start[name])
    if len(inner) > 1:
        yield from (dict.fromkeys(inner, size) for size in dict.fromkeys((*PIXELS, *LENGTHS)))
    for index, first in enumerate(inner):
        for second in inner[index + 1 :]:
            yield from ({first: a, second: b} for a, b in product(sizes[first], sizes[second]) if a != b)


def _minimized(candidate: dict[str, int], start: Mapping[str, int], run: Callable[..., Any]) -> dict[str, int]:
    """The candidate without dims that need not change."""
    for name in list(candidate):
        reduced = {key: size for key, size in candidate.items() if key != name}
        if reduced and run({**start, **reduced}) is None:
            candidate = reduced
    return candidate


def _axes_of(graph: Graph, name: str) -> Iterator[tuple[int, int]]:
    """(axis, rank) of every input dim that is bound under `name`."""
    for value in graph.inputs:
        shape = graph.shape(value) or ()
        yield from ((axis, len(shape)) for axis, dim in enumerate(shape) if dim_name(value, axis, dim) == name)


def _is_batch(graph: Graph, name: str) -> bool:
    return any(axis == 0 for axis, _ in _axes_of(graph, name))


def _candidates(graph: Graph, name: str) -> tuple[int, ...]:
    if _is_batch(graph, name):
        return (1, 2, 4, 8)
    return PIXELS if _is_side(graph, name) else LENGTHS


def _is_side(graph: Graph, name: str) -> bool:
    return any(rank >= 4 for _, rank in _axes_of(graph, name))


def _elements(graph: Graph, dims: Mapping[str, int]) -> int:
    return sum(math.prod(bound_sizes(value, graph.shape(value) or (), dims)) for value in graph.inputs)
