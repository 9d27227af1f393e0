"""What lanes gain, measured: operators one by one, and side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from workbench.errors import UserError
from workbench.ir import Graph
from workbench.run.measurement.measured import Measurement
from workbench.run.measurement.variants import Variant
from workbench.run.profiling.profiled import MeasuredLanes

LANE_ROUNDS = 5  # runs of each variant; lanes are compared when they are prepared
_ONE_BY_ONE, _LANES = "torch", "lanes"


@dataclass(frozen=True)
class RanOnLanes:
    """times_us: of each operator alone, by its name. lanes: None where operators could not run side by side.

    device: where. reason: why operators ran one after the other, if they did.
    """

    device: str
    times_us: Mapping[str, float]
    lanes: MeasuredLanes | None
    reason: str

    @property
    def sentence(self) -> str:
        return f"measured on {self.device}: {self.reason if self.lanes is None else self.lanes.sentence}"

    def to_json(self) -> dict[str, Any]:
        lanes = None if self.lanes is None else {**asdict(self.lanes), "ratio": self.lanes.ratio}
        return {"device": self.device, "lanes": lanes, "reason": self.reason}


def lane_variants(graph: Graph) -> dict[str, Variant]:
    """What has to be measured."""
    return {_ONE_BY_ONE: Variant(graph), _LANES: Variant(graph, "lanes")}


def ran_on_lanes(measurement: Measurement) -> RanOnLanes:
    """From a measurement of `lane_variants`. Raises UserError if one of them failed."""
    for sentence in measurement.failures.values():
        raise UserError(sentence)
    lanes = measurement.ran[_LANES]
    times = {operator.name: operator.time_ms * 1e3 for operator in measurement.ran[_ONE_BY_ONE].operators}
    return RanOnLanes(measurement.machine.device, times, lanes.lanes, lanes.fallbacks.get(_LANES, ""))
