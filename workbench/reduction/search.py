"""The search for the smallest region that still shows a fault; it asks about regions and runs nothing itself.

Bisection along the topological order comes first, as in the bisect mode of Polygraphy's `debug reduce` (NVIDIA): a
wrong number mostly stays wrong after the operator that made it. The rest is delta debugging.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from workbench.reduction.delta_debugging import minimized
from workbench.reduction.regions import Region, Whole
from workbench.verification.verifier import bisect

_Shows = Callable[[Region], bool]
_Item = TypeVar("_Item")
_Kept = Callable[[Region, Sequence[_Item]], Iterator[Region]]
_OnStage = Callable[[str, int], None]  # what is tried now, and about how many regions that is


class RegionSearch:
    """Deterministic: the same answers give the same region."""

    def __init__(self, whole: Whole, shows: _Shows, on_stage: _OnStage) -> None:
        self._whole, self._shows, self._on_stage = whole, shows, on_stage

    def smallest(self, region: Region) -> Region:
        """A part of the region, which shows the fault, from which no move takes anything any more."""
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
        """Fewer outputs, without the nodes that these do not need."""

        def kept(base: Region, outputs: Sequence[str]) -> Iterator[Region]:
            yield self._whole.live(replace(base, outputs=tuple(outputs)))

        return self._minimized(region, region.outputs, kept, "fewer outputs")

    def _earlier_end(self, region: Region) -> Region:
        """The first nodes in topological order, as few as show the fault; what others read of them goes out."""

        def kept(count: int) -> Iterator[Region]:
            first, rest = region.nodes[:count], region.nodes[count:]
            read = set(self._whole.read(replace(region, nodes=rest))) | set(region.outputs)
            outputs = tuple(value for value in self._whole.made(first) if value in read)
            yield replace(region, nodes=first, outputs=outputs)
            yield self._closed(region, first)

        return self._bisected(region, kept, "an earlier end")

    def _later_start(self, region: Region) -> Region:
        """The last nodes, as few as show the fault; what they read of others comes from outside."""

        def kept(count: int) -> Iterator[Region]:
            last = region.nodes[len(region.nodes) - count :]
            yield from self._with_sources(self._closed(region, last), region)

        return self._bisected(region, kept, "a later start")

    def _fewer_nodes(self, region: Region) -> Region:
        def kept(base: Region, nodes: Sequence[int]) -> Iterator[Region]:
            yield from self._with_sources(self._closed(base, nodes), base)

        return self._minimized(region, region.nodes, kept, "fewer nodes")

    def _bypassed(self, region: Region) -> Region:
        """Nodes replaced by one of their operands, of the same type and shape."""
        self._on_stage("bypassed nodes", len(region.nodes))
        for place in reversed(region.nodes):
            region = self._first(self._bypasses(region, place)) or region
        return region

    def _bypasses(self, region: Region, place: int) -> Iterator[Region]:
        whole = self._whole
        read = {*whole.read(region), *region.outputs}
        results = [value for value in whole.made([place]) if value in read]
        rest = tuple(other for other in region.nodes if other != place)
        if len(results) != 1 or not rest:
            return
        made = set(whole.made(rest))
        for operand in dict.fromkeys(map(region.standing_for, whole.operands[place])):
            if not whole.same_type(operand, results[0]) or (results[0] in region.outputs and operand not in made):
                continue
            outputs = dict.fromkeys(operand if value == results[0] else value for value in region.outputs)
            bypassed = {**region.bypassed, results[0]: operand}
            yield whole.live(replace(region, nodes=rest, outputs=tuple(outputs), bypassed=bypassed))

    # ---- trying regions ----------------------------------------------------------------------

    def _closed(self, region: Region, nodes: Sequence[int]) -> Region:
        """Some of the region's nodes; what nothing reads any more goes out, so that every node is needed."""
        whole = self._whole
        part = replace(region, nodes=tuple(nodes))
        was_read = {*whole.read(region), *region.outputs}
        read = set(whole.read(part))
        out = [v for v in whole.made(nodes) if v in region.outputs or (v in was_read and v not in read)]
        return whole.live(replace(part, outputs=tuple(out)))

    def _with_sources(self, part: Region, region: Region) -> Iterator[Region]:
        """The part with what it newly reads from outside as inputs or as recorded constants.

        First each as it is by nature, then all as constants, whose numbers the fault may need, then all as inputs.
        """
        if not part.outputs:
            return
        known = {*self._whole.boundary(region), *self._whole.inputs}
        new = [value for value in self._whole.boundary(part) if value not in known]
        natural = frozenset(value for value in new if self._whole.is_constant_by_nature(value))
        recorded = frozenset(value for value in new if value in self._whole.recorded)
        for constants in dict.fromkeys((natural, recorded, frozenset[str]())):
            yield replace(part, constants=part.constants | constants)

    def _first(self, regions: Iterable[Region]) -> Region | None:
        """The first that shows the fault."""
        return next((region for region in regions if region.outputs and self._shows(region)), None)

    def _minimized(self, region: Region, items: Sequence[_Item], kept: _Kept[_Item], words: str) -> Region:
        """kept: the regions that keep only some of the items, given the smallest region so far."""
        found = region

        def shows(part: Sequence[_Item]) -> bool:
            nonlocal found
            smaller = self._first(kept(found, part))
            found = smaller or found
            return smaller is not None

        minimized(items, shows, lambda count: self._on_stage(words, count))
        return found

    def _bisected(self, region: Region, kept: Callable[[int], Iterator[Region]], words: str) -> Region:
        """The region with as few nodes as show the fault, if more of them always show it too."""
        count = len(region.nodes)
        if count < 2:
            return region
        self._on_stage(words, math.ceil(math.log2(count)))
        found = region

        def shows(nodes: int) -> bool:
            nonlocal found
            smaller = self._first(kept(nodes))
            found = smaller or found
            return smaller is not None

        bisect(shows, count, known_right=True)
        return found
