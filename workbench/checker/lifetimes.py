"""When the values of a file are in use, if its nodes run in the order of the file."""

from __future__ import annotations

from workbench.checker.output import Output


class FileLifetimes:
    """Steps are the nodes of the main graph, those without results too, from 0 in the order of the file."""

    def __init__(self, output: Output) -> None:
        self.steps = output.model.steps
        self._outputs = frozenset(output.model.graph.outputs)
        self.born = {value: n for n, step in enumerate(self.steps) for value in step.outputs if value}
        self._last_read: dict[str, int] = {}
        for number, step in enumerate(self.steps):
            self._last_read.update(dict.fromkeys(step.reads, number))

    def of(self, value: str) -> tuple[int, int]:
        """The steps in which a computed value is in use, half-open; an output to the end."""
        born = self.born[value]
        if value in self._outputs:
            return born, len(self.steps)
        return born, max(born, self._last_read.get(value, born)) + 1

    def is_last_read(self, value: str, step: int) -> bool:
        """Whether nothing uses the value after the step, in which it is read."""
        return value in self.born and self.of(value)[1] == step + 1 and value not in self._outputs
