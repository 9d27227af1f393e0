"""A metric, and the measurements of a graph by all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.ir import Graph


@dataclass(frozen=True)
class Metric:
    """A number of a graph.

    name:     the name of its file.
    unit:     what is counted, such as "nodes" or "elements".
    help:     one sentence, for headings of tables and for documents.
    analyse:  analyses the graph; metrics with the same function share its result.
    value:    the number, from the result of `analyse`; None if unknown.
    of_steps: whether it is computed after every step of a pipeline, for which it must be fast on large graphs.
    column:   its place among the metrics of the tables of steps and of reports; None: it is in none.
    """

    name: str
    unit: str
    help: str
    analyse: Callable[[Graph], Any]
    value: Callable[[Any], int | None]
    of_steps: bool = True
    column: int | None = None

    @property
    def title(self) -> str:
        return self.name.replace("_", " ")

    def __call__(self, graph: Graph) -> int | None:
        return self.value(self.analyse(graph))


@dataclass(frozen=True)
class Measurements(Mapping[str, int | None]):
    """The numbers of one graph by name of the metric; None if unknown."""

    values_by_name: Mapping[str, int | None]

    def __getitem__(self, name: str) -> int | None:
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def text(self, name: str) -> str:
        """The number for a table, "1,234"; "-" if unknown."""
        number = self.values_by_name[name]
        return "-" if number is None else f"{number:,}"
