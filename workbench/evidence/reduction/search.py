"""The search for the smallest region that still shows a fault. The caller tests the regions.

Bisection along the topological order comes first, as in the bisect mode of Polygraphy's `debug reduce` (NVIDIA): a
wrong number mostly stays wrong after the operator that computed it. The rest is delta debugging.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from workbench.evidence.reduction.regions import Region, Whole
from workbench.evidence.verification.steps import bisect
from workbench.support.delta_debugging import minimized

_Shows = Callable[[Region], bool]
_Item = TypeVar("_Item")
_Regions = Callable[[Region, Sequence[_Item]], Iterator[Region]]
_OnStage = Callable[[str, int], None]  # the kind of move, and about how many regions it tries


class RegionSearch:
    """The search. It is deterministic: the same answers of `shows` give the same region."""

    def __init__(self, whole: Whole, shows: _Shows, on_stage: _OnStage) -> None:
        self._whole, self._shows, self._on_stage = whole, shows, on_stage

    def smallest(self, region: Region) -> Region:
        """A part of the region that shows the fault and that no move makes smaller."""
        self._on_stage("declared types", 1)
        region = self._first([replace(region, declared=False)]) or region
        while True:
            before = region
            for move in (self._fewer_outputs, self._earlier_end, self._fewer_outputs, self._later_start):
                region = move(region)
            region = self._bypassed(self._fewer_outputs(self._fewer_nodes(region)))
            if (region.nodes, region.outputs) == (before.nodes, before.outputs):
                return region

    # ---- moves, coarse to fine ---------------------------------------------------------------

    def _fewer_outputs(self, region: Region) -> Region:
        """Fewer outputs, with only the nodes that these need."""

        def regions(base: Region, outputs: Sequence[str]) -> Iterator[Region]:
            yield self._whole.live(replace(base, outputs=tuple(outputs)))

        return self._minimized(region, region.outputs, regions, "fewer outputs")

    def _earlier_end(self, region: Region) -> Region:
        """As few first nodes in topological order as show the fault; their results that others read become outputs."""

        def regions(count: int) -> Iterator[Region]:
            first, rest = region.nodes[:count], region.nodes[count:]
            read = set(self._whole.read_by(replace(region, nodes=rest))) | set(region.outputs)
            outputs = tuple(value for value in self._whole.results_of(first) if value in read)
            yield replace(region, nodes=first, outputs=outputs)
            yield self._closed(region, first)

        return self._bisected(region, regions, "an earlier end")

    def _later_start(self, region: Region) -> Region:
        """As few last nodes as show the fault; what they read of the others becomes inputs or constants."""

        def regions(count: int) -> Iterator[Region]:
            last = region.nodes[len(region.nodes) - count :]
            yield from self._with_sources(self._closed(region, last), region)

        return self._bisected(region, regions, "a later start")

    def _fewer_nodes(self, region: Region) -> Region:
        """The region without nodes that the fault does not need, by delta debugging."""

        def regions(base: Region, nodes: Sequence[int]) -> Iterator[Region]:
            yield from self._with_sources(self._closed(base, nodes), base)

        return self._minimized(region, region.nodes, regions, "fewer nodes")

    def _bypassed(self, region: Region) -> Region:
        """The region with nodes replaced by one of their operands of the same type and shape."""
        self._on_stage("bypassed nodes", len(region.nodes))
        for index in reversed(region.nodes):
            region = self._first(self._bypasses(region, index)) or region
        return region

    def _bypasses(self, region: Region, index: int) -> Iterator[Region]:
        """The regions without this node, its result replaced by one of its operands."""
        whole = self._whole
        read = {*whole.read_by(region), *region.outputs}
        results = [value for value in whole.results_of([index]) if value in read]
        rest = tuple(other for other in region.nodes if other != index)
        if len(results) != 1 or not rest:
            return
        computed = set(whole.results_of(rest))
        for operand in dict.fromkeys(map(region.resolved, whole.operands[index])):
            if not whole.same_type(operand, results[0]) or (results[0] in region.outputs and operand not in computed):
                continue
            outputs = dict.fromkeys(operand if value == results[0] else value for value in region.outputs)
            bypassed = {**region.bypassed, results[0]: operand}
            yield whole.live(replace(region, nodes=rest, outputs=tuple(outputs), bypassed=bypassed))

    # ---- trying regions ----------------------------------------------------------------------

    def _closed(self, region: Region, nodes: Sequence[int]) -> Region:
        """The region with only these nodes. Results that no node reads any more become outputs, so that each node is
        needed."""
        whole = self._whole
        part = replace(region, nodes=tuple(nodes))
        was_read = {*whole.read_by(region), *region.outputs}
        read = set(whole.read_by(part))
        outputs = [v for v in whole.results_of(nodes) if v in region.outputs or (v in was_read and v not in read)]
        return whole.live(replace(part, outputs=tuple(outputs)))

    def _with_sources(self, part: Region, region: Region) -> Iterator[Region]:
        """The part with the values that it newly reads from outside as inputs or as recorded constants.

        First each in its likely role, then all as constants, whose numbers the fault may need, then all as inputs.
        """
        if not part.outputs:
            return
        known = {*self._whole.boundary(region), *self._whole.inputs}
        new = [value for value in self._whole.boundary(part) if value not in known]
        likely = frozenset(value for value in new if self._whole.is_likely_constant(value))
        recorded = frozenset(value for value in new if value in self._whole.recorded)
        for constants in dict.fromkeys((likely, recorded, frozenset[str]())):
            yield replace(part, constants=part.constants | constants)

    def _first(self, regions: Iterable[Region]) -> Region | None:
        """The first region that has outputs and shows the fault."""
        return next((region for region in regions if region.outputs and self._shows(region)), None)

    def _minimized(self, region: Region, items: Sequence[_Item], regions: _Regions[_Item], stage: str) -> Region:
        """The smallest region for a minimal part of the items.

        regions: given the smallest region so far and some items, the regions to try with only these items.
        """
        smallest = region

        def shows(part: Sequence[_Item]) -> bool:
            nonlocal smallest
            smaller = self._first(regions(smallest, part))
            smallest = smaller or smallest
            return smaller is not None

        minimized(items, shows, lambda count: self._on_stage(stage, count))
        return smallest

    def _bisected(self, region: Region, regions: Callable[[int], Iterator[Region]], stage: str) -> Region:
        """The region with as few nodes as show the fault, if more nodes always show it too.

        regions: the regions to try with so many nodes.
        """
        count = len(region.nodes)
        if count < 2:
            return region
        self._on_stage(stage, math.ceil(math.log2(count)))
        smallest = region

        def shows(nodes: int) -> bool:
            nonlocal smallest
            smaller = self._first(regions(nodes))
            smallest = smaller or smallest
            return smaller is not None

        bisect(shows, count, known_right=True)
        return smallest
