"""Measures what streams gain: operators one by one, and concurrently."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from workbench.backends.profiling.profile_result import MeasuredStreams
from workbench.errors import UserError
from workbench.ir import Graph
from workbench.run.measurement.measurement_result import Measurement
from workbench.run.measurement.variants import Variant

STREAM_ROUNDS = 5  # runs of each variant; streams were already compared with sequential runs in preparation
_SEQUENTIAL, _STREAMS = "torch", "streams"


@dataclass(frozen=True)
class RanOnStreams:
    """A measurement of a graph on streams.

    device:   the device of the measurement.
    times_us: the time of each operator alone, by its name.
    streams:  None if operators could not run concurrently.
    reason:   why operators ran sequentially; "" if they did not.
    """

    device: str
    times_us: Mapping[str, float]
    streams: MeasuredStreams | None
    reason: str

    @property
    def sentence(self) -> str:
        return f"measured on {self.device}: {self.reason if self.streams is None else self.streams.sentence}"

    def to_json(self) -> dict[str, Any]:
        streams = None if self.streams is None else {**asdict(self.streams), "ratio": self.streams.ratio}
        return {"device": self.device, "streams": streams, "reason": self.reason}


def stream_variants(graph: Graph) -> dict[str, Variant]:
    """The variants to measure: one by one, and on streams."""
    return {_SEQUENTIAL: Variant(graph), _STREAMS: Variant(graph, _STREAMS)}


def ran_on_streams(measurement: Measurement) -> RanOnStreams:
    """The result of a measurement of `stream_variants`. Raises UserError if one of them failed."""
    for sentence in measurement.failures.values():
        raise UserError(sentence)
    concurrent = measurement.ran[_STREAMS]
    times = {operator.name: operator.time_ms * 1e3 for operator in measurement.ran[_SEQUENTIAL].operators}
    return RanOnStreams(measurement.machine.device, times, concurrent.streams, concurrent.fallbacks.get(_STREAMS, ""))
