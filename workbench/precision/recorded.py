"""What the values of a graph were in a run: the largest magnitude of each, and the smallest that is not 0."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from workbench.errors import UserError
from workbench.ir import Graph


class NotRecordedError(UserError):
    """The graph does not run, or not here; the message says why."""


@dataclass(frozen=True)
class Magnitudes:
    """Of the elements of one value: the largest magnitude, and the smallest that is not 0; None if all are 0."""

    largest: float
    smallest: float | None


class ValueRecorder:
    """Runs a graph on the inputs of the session and keeps the magnitudes of its values; found in a PassContext."""

    def record(self, graph: Graph, values: Collection[str]) -> Mapping[str, Magnitudes]:
        """The magnitudes of these values. Raises NotRecordedError if the graph does not run."""
        raise NotImplementedError
