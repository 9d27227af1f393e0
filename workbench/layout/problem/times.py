"""The times of operators and transposes of one graph: requested first, then measured together.

Source: buddy plan, "layout conversion" (docs/references.md): an operator is timed with and without the conversion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from workbench.inference.bound_shapes import bound_shape
from workbench.ir import Graph, Node, TensorType
from workbench.ir.permutation import Permutation, permuted
from workbench.layout.layout_facts import OperatorTime
from workbench.layout.problem.probe import (
    OperatorTimer,
    Probe,
    Time,
    converted_probe,
    distinguishable,
    probe_of,
    require_operator_timer,
    transpose_probe,
)
from workbench.layout.profile import Profile

AUTO, DEVICES = "auto", ("auto", "cpu", "cuda")
TIMED_IN = ("float32", "tf32", "mixed", "float16", "bfloat16")  # the types in which operators can be timed


class OperatorTimes:
    """`ask_*` requests times, `take` measures them, `transpose` and `operator` return them, in nanoseconds."""

    def __init__(self, graph: Graph, target: Profile, timer: OperatorTimer | None) -> None:
        self.graph = graph
        self.target = target
        self.timer = timer
        self.device = ""
        self._pairs: dict[str, tuple[Probe, Probe]] = {}  # by node: as written, and in the other layout
        self._moves: dict[Probe, int] = {}
        self._times: Mapping[Probe, Time] = {}

    def ask_transpose(self, value: str, perm: Permutation, way: Permutation | None = None) -> None:
        """Request a Transpose by `perm` of `value`, which was transposed by `way` before."""
        probe = self._move(value, perm, way)
        if probe is not None:
            self._moves[probe] = self._moves.get(probe, 0) + 1

    def ask_operator(self, node: Node, perm: Permutation, layout: str) -> None:
        """Request the node as written, and on operands transposed by `perm`, which gives `layout`."""
        own = probe_of(self.graph, node)
        other = None if own is None else converted_probe(own, perm, layout, self.target)
        if own is not None and other is not None:
            self._pairs[node.name] = (own, other)

    def take(self, device: str, dtype: str) -> None:
        """Measure what was requested. Raises UserError if there is no timer, or its device cannot be used."""
        probes = (*(probe for pair in self._pairs.values() for probe in pair), *self._moves)
        result = require_operator_timer(self.timer, self.target).times(probes, device, dtype)
        self.device, self._times = result.device, result.by_probe

    def transpose(self, value: str, perm: Permutation, way: Permutation | None = None) -> int | None:
        """The time of a Transpose; 0 if it moves nothing, None if it could not be timed."""
        probe = self._move(value, perm, way)
        if probe is None:
            return None if bound_shape(self.graph, value) is None else 0
        return self._times[probe].best if probe in self._times else None

    def operator(self, name: str) -> tuple[int, int] | None:
        """The times as written and in the other layout, equal if the difference is noise; None if not timed."""
        pair = self._pairs.get(name)
        if pair is None or any(probe not in self._times for probe in pair):
            return None
        return distinguishable(self._times[pair[0]], self._times[pair[1]])

    def rows(self, converted: Collection[str]) -> tuple[OperatorTime, ...]:
        """A row for each operator and shape, then for each Transpose, those with the longest total time first.

        converted: names of the nodes that run in the other layout.
        """
        operators = sorted(self._operators(converted), key=lambda row: -row.nodes * row.us)
        return (*operators, *sorted(self._transposes(), key=lambda row: -row.us))

    def _operators(self, converted: Collection[str]) -> Iterator[OperatorTime]:
        all_, changed = Counter(self._pairs.values()), Counter(self._pairs[n] for n in converted if n in self._pairs)
        for pair, nodes in all_.items():
            own, other = (self._times.get(probe) for probe in pair)
            if own is not None and other is not None:
                yield _row(pair[0], nodes, own, other.best / 1e3, changed[pair])

    def _transposes(self) -> Iterator[OperatorTime]:
        for probe, values in self._moves.items():
            if probe in self._times:
                yield _row(probe, values, self._times[probe])

    def _move(self, value: str, perm: Permutation, way: Permutation | None) -> Probe | None:
        type_, shape = self.graph.tensor_type(value), bound_shape(self.graph, value)
        if type_ is None or shape is None or len(shape) != len(perm):
            return None
        placed = shape if way is None else permuted(shape, way)
        return transpose_probe(self.graph, TensorType(type_.dtype, tuple(placed)), perm)


def _row(
    probe: Probe, nodes: int, time: Time, other_us: float | None = None, converted: int | None = None
) -> OperatorTime:
    us, spread_us = time.best / 1e3, time.spread / 1e3
    return OperatorTime(probe.operator, probe.signature, nodes, us, spread_us, other_us, converted)
