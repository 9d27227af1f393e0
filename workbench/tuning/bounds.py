"""What is known before the measurements that count, by which hopeless candidates go.

For latency, a first look: each backend runs the plainest pipeline for a few turns. Then they follow one by one, the
fastest first. A backend whose interval of the ratio to the best so far lies above SPAN goes with all its candidates,
since a list of passes is assumed to gain less than SPAN in one backend; `benchmarks/tune.py` says how much it did.
A floor by the roofline is not used: on a CPU small tensors stay in caches that are faster than its memory.

For memory, a bound: weights, inputs, and the most bytes that planned values need at once in this order. It holds for
backends that compute operator by operator.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from workbench.ir import Graph
from workbench.memory.planning import sharing_of
from workbench.run.measurement.statistics import Ratio
from workbench.run.worker.memory import weight_bytes
from workbench.tuning.graphs import MadeGraph
from workbench.tuning.halving import (
    FIRST_TURNS,
    WITHIN,
    Dropped,
    Measure,
    NothingRanError,
    Standing,
    compare_arms,
    halve,
)
from workbench.tuning.measuring import LotMeasurer
from workbench.tuning.pipelines import Configuration

SPAN = 2.0
_FEW = 3  # backends that are opened at once in the first look, so that a short budget has a result
_LOT = 4
_BOUNDED = ("torch", "arena")
Arms = Mapping[str, tuple[Configuration, MadeGraph]]


def search_latency(arms: Arms, measure: Measure, together: int) -> Iterator[Standing]:
    """The first look; one round for each backend, the fastest first, beside the best so far; then successive halving of
    what is left. A backend that has become hopeless meanwhile is not opened again. Raises NothingRanError if all fail.
    """
    ways = {label: candidate.way for label, (candidate, _) in arms.items()}
    plainest = {way: label for label, way in reversed(ways.items())}  # the first of each
    ratios: Mapping[str, Ratio] = {}
    try:
        for found in compare_arms([one for one in arms if one in plainest.values()], measure, together=_FEW):
            ratios = found.ratios
            yield Standing(0, 0, found.best, found.ratios, tuple(arms), {})
    except NothingRanError:  # others may run
        ratios = {}
    looked = {way: ratios[label] for way, label in plainest.items() if label in ratios}
    left: list[str] = []  # the best first
    dropped: dict[str, Dropped] = {}
    scale: Ratio | None = None  # of the fastest plainest one to the best so far
    number = 0
    for way in sorted(plainest, key=lambda way: looked[way].ratio if way in looked else math.inf):
        group = [label for label in arms if ways[label] == way]
        if left and scale is not None and way in looked:
            behind = _product(looked[way], scale)
            if behind.ratio_low > SPAN:
                dropped |= dict.fromkeys(group, Dropped(number, _slow_words(way, behind)))
                continue
        number += 1
        try:
            for standing in halve([*left[:1], *group], measure, together=together):
                yield _renumbered(standing, number - 1, left[1:], dropped, ends=False)
                if standing.complete:
                    break
        except NothingRanError as error:
            dropped |= dict.fromkeys(group, Dropped(number, f"it does not run: {error}"))
            continue
        if not left:
            scale = standing.ratios.get(plainest[way])
        elif scale is not None and left[0] != standing.best:
            scale = _product(scale, standing.ratios[left[0]]) if left[0] in standing.ratios else None
        dropped |= {label: Dropped(number, out.why) for label, out in standing.dropped.items()}
        left = [*standing.left, *(label for label in left[1:] if label not in dropped)]
    if not left:
        raise NothingRanError(next(iter(dropped.values())).why)
    for standing in halve(left, measure, first_turns=2 * FIRST_TURNS, together=together):
        yield _renumbered(standing, number, [], dropped)


def _renumbered(
    standing: Standing, before: int, others: Sequence[str], dropped: Mapping[str, Dropped], ends: bool = True
) -> Standing:
    """The standing of a part of the candidates after `before` rounds, as one of all of them."""
    own = {label: Dropped(out.round + before, out.why) for label, out in standing.dropped.items()}
    return replace(
        standing,
        round=standing.round + before,
        left=(*standing.left, *others),
        dropped={**dropped, **own},
        complete=standing.complete and ends,
        settled=standing.settled and ends,
    )


def _product(a: Ratio, b: Ratio) -> Ratio:
    """The ratio of x to z from those of x to y and y to z; the interval is that of the worst case."""
    return Ratio(
        a.ratio * b.ratio, a.ratio_low * b.ratio_low, a.ratio_high * b.ratio_high, a.ratio_busy or b.ratio_busy
    )


def _slow_words(way: tuple[str, str], found: Ratio) -> str:
    return (
        f"{' in '.join(way)} takes {found.ratio:,.2f} times the best so far on the plainest pipeline "
        f"(at least {found.ratio_low:,.2f}), more than passes gain"
    )


def search_memory(arms: Arms, measurer: LotMeasurer) -> Iterator[Standing]:
    """One run of each, those with the least bound first, until no other can take less by more than WITHIN."""
    original, dims = measurer.verifier.original, measurer.verifier.dims
    as_bound = all(original.dims.get(name) == size for name, size in dims.items())  # else sizes are those of no run
    bounds = {label: memory_bound(made.graph, c.backend) if as_bound else 0 for label, (c, made) in arms.items()}
    waiting = sorted(arms, key=lambda label: bounds[label])
    peaks: dict[str, int] = {}
    dropped: dict[str, Dropped] = {}
    while waiting:
        lot, waiting = waiting[:_LOT], waiting[_LOT:]
        measurer(lot, 1)
        for label in lot:
            answer = measurer.found[label]
            if answer.failed or answer.peak_bytes is None:
                dropped[label] = Dropped(1, f"it does not run: {answer.failed}")
            else:
                peaks[label] = answer.peak_bytes
        if not peaks:
            continue
        best = min(peaks, key=peaks.__getitem__)
        hopeless = [label for label in waiting if bounds[label] > (1 - WITHIN) * peaks[best]]
        dropped |= {
            label: Dropped(1, f"it needs at least {bounds[label]:,} bytes, and the best takes {peaks[best]:,}")
            for label in hopeless
        }
        waiting = [label for label in waiting if label not in hopeless]
        yield _standing_of(peaks, dropped, waiting)
    if not peaks:
        raise NothingRanError(next(iter(dropped.values())).why)


def search_size(arms: Arms) -> Iterator[Standing]:
    """The bytes of the files tell; nothing runs."""
    yield _standing_of({label: made.bytes for label, (_, made) in arms.items()}, {}, [])


def _standing_of(sizes: Mapping[str, int], dropped: Mapping[str, Dropped], waiting: Sequence[str]) -> Standing:
    """The standing of numbers that have no noise."""
    best = min(sizes, key=sizes.__getitem__)
    ratios = {label: _exact(size / max(sizes[best], 1)) for label, size in sizes.items()}
    worse = {
        label: Dropped(1, f"it takes {size:,} bytes, and the best {sizes[best]:,}")
        for label, size in sizes.items()
        if size > sizes[best]
    }
    left = tuple(sorted((label for label in sizes if label not in worse), key=lambda label: label != best))
    done = not waiting
    return Standing(1, 1, best, ratios, (*left, *waiting), {**dropped, **worse}, done, done)


def _exact(value: float) -> Ratio:
    return Ratio(value, value, value, False)


def memory_bound(graph: Graph, backend: str) -> int:
    """Bytes that a run needs at least, beside what operators take in passing; 0 for a backend that may fuse operators,
    or reorder them."""
    if backend not in _BOUNDED:
        return 0
    types = (graph.tensor_type(name) for name in graph.inputs)
    given = sum(type_.bytes or 0 for type_ in types if type_ is not None)
    return weight_bytes(graph) + given + sharing_of(graph, inner=False).packing.lower_bound
