"""A metric, and what a graph measures by all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.ir import Graph


@dataclass(frozen=True)
class Metric:
    """A number of a graph.

    name:     that of its file.
    unit:     what is counted: "nodes", "elements".
    help:     one sentence, for headings and documents.
    look:     what is found out about the graph; metrics that share the function share the work.
    value:    the number in what `look` found, None where it is not known.
    of_steps: is every step of a pipeline measured by it? Only where that costs next to nothing on a large graph.
    """

    name: str
    unit: str
    help: str
    look: Callable[[Graph], Any]
    value: Callable[[Any], int | None]
    of_steps: bool = True

    def __call__(self, graph: Graph) -> int | None:
        return self.value(self.look(graph))


@dataclass(frozen=True)
class Measurements(Mapping[str, int | None]):
    """The numbers of one graph by the names of metrics; None where one is not known."""

    values_by_name: Mapping[str, int | None]

    def __getitem__(self, name: str) -> int | None:
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def text(self, name: str) -> str:
        """The number as tables show it, "1,234"; "-" where it is not known."""
        number = self.values_by_name[name]
        return "-" if number is None else f"{number:,}"
