"""What is asked of runs of a graph: the magnitudes of its values, what operators lose in a narrower type, errors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
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


@dataclass(frozen=True)
class OutputError:
    """Asks for the largest relative error of an output of another form of a graph.

    of: called with the form, and with a limit beyond which no further run is made. The error is infinite if an output
    differs in shape or type, or is not finite elsewhere. inputs: on how many inputs it is run.
    """

    of: Callable[[Graph, float], float]
    inputs: int


class ValueRecorder:
    """Runs graphs on the inputs of the run; found in a PassContext. Each raises NotRecordedError if one does not
    run."""

    def record(self, graph: Graph, values: Collection[str]) -> Mapping[str, Magnitudes]:
        """The magnitudes of these values."""
        raise NotImplementedError

    def errors_alone(self, graph: Graph, narrow: str) -> Mapping[str, float]:
        """By node, the relative error of its results if it alone ran in the type; NaN if one arises."""
        raise NotImplementedError

    def output_error(self, graph: Graph, narrow: str) -> OutputError:
        """The error of another form of the graph if each result of an operator in the type is rounded, or if the
        runtime computes it as it does; the larger one."""
        raise NotImplementedError
