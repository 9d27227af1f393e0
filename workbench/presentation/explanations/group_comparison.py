"""Groupings of a model's operators side by side, with the memory traffic of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.pipeline.running import branch, extend
from workbench.planning.fusion.fusion_facts import FusionFacts
from workbench.rewrite import History, Pass, PassContext

OnGrouping = Callable[[str, float], None]


@dataclass(frozen=True)
class Grouping:
    """A grouping: what the pass found, and the seconds that it took."""

    facts: FusionFacts
    seconds: float

    def row(self) -> dict[str, Any]:
        """For tables and JSON; sizes are in bytes, None if unknown."""
        traffic = self.facts.traffic
        return {
            "groups": len(self.facts.groups),
            "unfused_bytes": traffic.unfused_bytes,
            "bytes": traffic.bytes,
            "bound_bytes": traffic.bound_bytes,
            "certified": traffic.certified,
            "seconds": round(self.seconds, 3),
        }


def compare_groupings(
    before: History, fusing: Mapping[str, Pass], context: PassContext, on_grouping: OnGrouping | None = None
) -> dict[str, Grouping]:
    """What each of the fusing passes finds on the last graph of `before`, by the pass's name in the comparison.

    on_grouping: is called with the next name and the progress from 0 to 1; may raise to stop.
    """
    results = {}
    for index, (name, pass_) in enumerate(fusing.items()):
        if on_grouping is not None:
            on_grouping(name, index / len(fusing))
        started = time.perf_counter()
        step = extend(branch(before), pass_, context)
        assert isinstance(step.facts, FusionFacts)
        results[name] = Grouping(step.facts, time.perf_counter() - started)
    return results
