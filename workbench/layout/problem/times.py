"""What operators and transposes of one graph take, by an operator timer: asked for first, then timed all together.

Source: buddy plan, "layout conversion" (docs/references.md): an operator is timed with and without the conversion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from workbench.ir import Graph, Node, TensorType
from workbench.ir.permutation import Permutation, permuted
from workbench.layout.cost import bound_shape
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


class OperatorTimes:
    """`ask_*` notes what is wanted, `take` has it timed, `transpose` and `operator` tell, in nanoseconds."""

    def __init__(self, graph: Graph, target: Profile, timer: OperatorTimer | None) -> None:
        self.graph = graph
        self.target = target
        self.timer = timer
        self.device = ""
        self._pairs: dict[str, tuple[Probe, Probe]] = {}  # by node: as written, and in the other layout
        self._moves: dict[Probe, int] = {}
        self._times: Mapping[Probe, Time] = {}

    def ask_transpose(self, value: str, perm: Permutation, way: Permutation | None = None) -> None:
        """A Transpose by `perm` of `value`, which was transposed by `way` before."""
        probe = self._move(value, perm, way)
        if probe is not None:
            self._moves[probe] = self._moves.get(probe, 0) + 1

    def ask_operator(self, node: Node, perm: Permutation, layout: str) -> None:
        """The node as it is written, and on operands transposed by `perm` (which is to `layout`)."""
        own = probe_of(self.graph, node)
        other = None if own is None else converted_probe(own, perm, layout, self.target)
        if own is not None and other is not None:
            self._pairs[node.name] = (own, other)

    def take(self, device: str) -> None:
        """Time all that was asked for. Raises UserError where there is no timer, or its device cannot be used."""
        probes = (*(probe for pair in self._pairs.values() for probe in pair), *self._moves)
        found = require_operator_timer(self.timer, self.target).times(probes, device)
        self.device, self._times = found.device, found.by_probe

    def transpose(self, value: str, perm: Permutation, way: Permutation | None = None) -> int | None:
        """0 where it moves nothing, None where it could not be timed."""
        probe = self._move(value, perm, way)
        if probe is None:
            return None if bound_shape(self.graph, value) is None else 0
        return self._times[probe].best if probe in self._times else None

    def operator(self, name: str) -> tuple[int, int] | None:
        """As written and in the other layout; equal where the difference is noise; None where it was not timed."""
        pair = self._pairs.get(name)
        if pair is None or any(probe not in self._times for probe in pair):
            return None
        return distinguishable(self._times[pair[0]], self._times[pair[1]])

    def facts(self, converted: Collection[str]) -> dict[str, Any]:
        """The device and a row an operator and shape, then a row a Transpose that was weighed, each what takes
        longest first; nothing where nothing was timed.

        Times are in microseconds; `nodes` have that shape, `converted` of them run in the other layout.
        """
        if not self.device:
            return {}
        operators = sorted(self._operator_rows(converted), key=lambda row: -row["nodes"] * row["us"])
        return {"device": self.device, "times": [*operators, *sorted(self._transpose_rows(), key=lambda r: -r["us"])]}

    def _operator_rows(self, converted: Collection[str]) -> Iterator[dict[str, Any]]:
        all_, changed = Counter(self._pairs.values()), Counter(self._pairs[n] for n in converted if n in self._pairs)
        for pair, nodes in all_.items():
            own, other = (self._times.get(probe) for probe in pair)
            if own is not None and other is not None:
                row = _row(pair[0], nodes, own)
                yield row | {"other_us": other.best / 1e3, "converted": changed[pair]}

    def _transpose_rows(self) -> Iterator[dict[str, Any]]:
        for probe, values in self._moves.items():
            if probe in self._times:
                yield _row(probe, values, self._times[probe]) | {"other_us": None, "converted": None}

    def _move(self, value: str, perm: Permutation, way: Permutation | None) -> Probe | None:
        type_, shape = self.graph.tensor_type(value), bound_shape(self.graph, value)
        if type_ is None or shape is None or len(shape) != len(perm):
            return None
        placed = shape if way is None else permuted(shape, way)
        return transpose_probe(self.graph, TensorType(type_.dtype, tuple(placed)), perm)


def _row(probe: Probe, nodes: int, time: Time) -> dict[str, Any]:
    return {
        "operator": probe.operator,
        "operands": probe.signature,
        "nodes": nodes,
        "us": time.best / 1e3,
        "spread_us": time.spread / 1e3,
    }
