"""The searches for the least memory and for the smallest file; the former uses lower bounds to measure less.

The lower bound on memory is the bytes of the weights, the inputs, and the values that are in use at once in the
execution order. It holds for backends that run operator by operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from workbench.backends.memory import weight_bytes
from workbench.interfaces.study.tuning.halving import WITHIN, Dropped, NothingRanError, Standing
from workbench.interfaces.study.tuning.latency import Arms
from workbench.interfaces.study.tuning.measuring import BatchMeasurer
from workbench.ir import Graph
from workbench.planning.memory.planning import sharing_of
from workbench.run.measurement.statistics import Ratio

_BATCH = 4
_BOUNDED = ("torch", "arena")


def search_memory(arms: Arms, measurer: BatchMeasurer) -> Iterator[Standing]:
    """Run each candidate once, by increasing bound, until no other can take less by more than the share WITHIN.

    Yields the standing after each batch. Raises NothingRanError.
    """
    original, dims = measurer.verifier.original, measurer.verifier.dims
    as_bound = all(original.dims.get(name) == size for name, size in dims.items())  # otherwise runs have other sizes
    bounds = {
        label: memory_bound(candidate_graph.graph, c.backend) if as_bound else 0
        for label, (c, candidate_graph) in arms.items()
    }
    waiting = sorted(arms, key=lambda label: bounds[label])
    peaks: dict[str, int] = {}
    dropped: dict[str, Dropped] = {}
    while waiting:
        batch, waiting = waiting[:_BATCH], waiting[_BATCH:]
        measurer(batch, 1)
        for label in batch:
            answer = measurer.results[label]
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
    """Yields one standing, by the bytes of the files; nothing runs."""
    yield _standing_of({label: candidate_graph.bytes for label, (_, candidate_graph) in arms.items()}, {}, [])


def _standing_of(sizes: Mapping[str, int], dropped: Mapping[str, Dropped], waiting: Sequence[str]) -> Standing:
    """The standing of sizes in bytes, which have no noise. waiting: candidates without a size so far."""
    best = min(sizes, key=sizes.__getitem__)
    ratios = {label: _exact(size / max(sizes[best], 1)) for label, size in sizes.items()}
    worse = {
        label: Dropped(1, f"it takes {size:,} bytes, and the best {sizes[best]:,}")
        for label, size in sizes.items()
        if size > sizes[best]
    }
    remaining = tuple(sorted((label for label in sizes if label not in worse), key=lambda label: label != best))
    done = not waiting
    return Standing(1, 1, best, ratios, (*remaining, *waiting), {**dropped, **worse}, done, done)


def _exact(value: float) -> Ratio:
    return Ratio(value, value, value, False)


def memory_bound(graph: Graph, backend: str) -> int:
    """The lower bound on a run's bytes, without temporary memory of operators.

    It is 0 for a backend that may fuse or reorder operators.
    """
    if backend not in _BOUNDED:
        return 0
    types = (graph.tensor_type(name) for name in graph.inputs)
    input_bytes = sum(type_.bytes or 0 for type_ in types if type_ is not None)
    return weight_bytes(graph) + input_bytes + sharing_of(graph, inner=False).packing.lower_bound
