"""A pass that is an optimizer of others: the whole model goes through it, what it changed comes back as rewrites."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import quoted
from workbench.ir import Graph, Node
from workbench.rewrite.exactness import Exactness
from workbench.rewrite.pass_context import PassContext
from workbench.rewrite.passes import Pass, option
from workbench.rewrite.rule import Rewrite
from workbench.tools.running import ToolCall, ToolError

if TYPE_CHECKING:
    from workbench.rewrite.difference import Change

MEGABYTE = 10**6
_MOST_NAMED = 3  # nodes named in a sentence


@dataclass(frozen=True)
class ToolFacts:
    """One run of a tool.

    failed:       why there is no result; "" if there is one.
    seconds, peak_bytes: its wall time, and the largest resident memory of its process.
    said:         what the tool said of itself, as a part of a sentence.
    other_values: names that mean other numbers in its result; these values have got names of their own.
    uncompared:   why values were matched by their names alone; "" if their numbers were compared.
    """

    tool: str
    version: str = ""
    failed: str = ""
    seconds: float = 0.0
    peak_bytes: int = 0
    said: str = ""
    other_values: tuple[str, ...] = ()
    uncompared: str = ""

    @property
    def sentence(self) -> str:
        if self.failed:
            return f"failed, and the step changes nothing: {self.failed}"
        version = f"version {self.version}, " if self.version else ""
        said = f"{version}{self.seconds:.1f} s, {self.peak_bytes / MEGABYTE:,.0f} MB of memory"
        if self.said:
            said += f"; {self.said}"
        if self.other_values:
            named = quoted(self.other_values, _MOST_NAMED)
            said += f"; these values have other numbers in its result, there under the same name: {named}"
        if self.uncompared:
            said += f"; values are matched by their names alone, for their numbers were not compared: {self.uncompared}"
        return said


@dataclass(frozen=True)
class ToolPass(Pass):
    """Base of the passes in `passes/tools/`: each gives its packages, of which the first is the tool, and `convert`."""

    exactness = Exactness.ROUNDING

    seconds: int = option(300, "How many seconds the tool may take.", least=1)
    megabytes: int = option(16_000, "How many megabytes of memory its process may take.", least=100)

    def convert(self, source: Path, target: Path) -> str | None:
        """Read the model in one file, write the optimized one to the other; in the tool's own process.

        Returns what the tool said of itself, to be a part of a sentence.
        """
        raise NotImplementedError(f"tool {self.name} does not define `convert`")

    @classmethod
    def switches(cls, said: str) -> list[str]:
        """What its option `without` can switch off, one at a time, of the parts of it that `convert` said acted."""
        return []

    @classmethod
    def version(cls) -> str:
        from importlib import metadata

        return metadata.version(cls.packages[0]) if cls.packages else ""

    @property
    def call(self) -> ToolCall:
        """How to run it; a process needs the class alone, and the values of the fields."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        cls = type(self)
        limit = self.megabytes * MEGABYTE
        return ToolCall(self.title, cls.__module__, cls.__qualname__, fields, self.seconds, limit)

    def run(self, graph: Graph, context: PassContext, leave_out: Collection[str] = ()) -> Iterator[Rewrite]:
        """Each change of the tool is a rewrite, which can be left out alone."""
        if not self.exactness.runs_in(context.mode):
            return iter(())
        return self._changes(graph, context, leave_out)

    def _changes(
        self, graph: Graph, context: PassContext, leave_out: Collection[str]
    ) -> Generator[Rewrite, None, ToolFacts]:
        from workbench.rewrite.difference import difference

        tool = self.title
        try:
            if self.missing() or context.tool_runner is None:
                raise ToolError(self.missing() or "there is no process for tools here")
            result = context.tool_runner(graph, self.call)
            found = difference(graph, result.graph, result.same)
        except ToolError as error:
            return ToolFacts(tool, failed=str(error).rstrip("."))
        for change in found.changes:
            sentence = _sentence(change)
            if sentence not in leave_out:
                yield Rewrite(change.edit, sentence, tuple(node.name for node in change.gone))
        ran, uncompared = result.run, result.reason.rstrip(".")
        version = self.version()
        return ToolFacts(tool, version, "", ran.seconds, ran.peak_bytes, ran.said, found.other_values, uncompared)


def _sentence(change: Change) -> str:
    gone, come = len(change.gone), len(change.come)
    new = _named(change.come)
    if change.folded:
        constants = f"{'constants' if len(change.folded) > 1 else 'constant'} {_listed(map(repr, change.folded))}"
        new = f"{new} and {constants}" if come else constants
    if not new:
        return f"{_named(change.gone)} {'goes' if gone == 1 else 'go'}; {_count(gone)} less"
    fewer = gone - come
    balance = "" if fewer == 0 else f"; {_count(abs(fewer))} {'less' if fewer > 0 else 'more'}"
    return f"{_named(change.gone)} {'becomes' if gone == 1 else 'become'} {new}{balance}"


def _named(nodes: Sequence[Node]) -> str:
    return _listed(str(node) for node in nodes)


def _listed(words: Any) -> str:
    every = list(words)
    if len(every) > _MOST_NAMED + 1:
        every = [*every[:_MOST_NAMED], f"{len(every) - _MOST_NAMED:,} more"]
    return " and ".join(filter(None, [", ".join(every[:-1]), *every[-1:]]))


def _count(nodes: int) -> str:
    return f"{nodes:,} node{'s' if nodes != 1 else ''}"
