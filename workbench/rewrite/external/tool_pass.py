"""A third-party optimizer as a pass: the whole model goes through it, and its changes come back as rewrites."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from workbench.errors import quoted
from workbench.ir import Graph, Node
from workbench.rewrite.core.exactness import Exactness
from workbench.rewrite.core.exclusion import NOTHING_EXCLUDED, ExcludedRewrites
from workbench.rewrite.core.pass_context import PassContext
from workbench.rewrite.core.passes import Pass, option
from workbench.rewrite.core.rule import Rewrite
from workbench.rewrite.external.tool_call import ToolCall, ToolError, ToolRunner

if TYPE_CHECKING:
    from workbench.rewrite.external.difference import Change

MEGABYTE = 10**6
_MAX_NAMED = 3  # nodes named in a sentence


@dataclass(frozen=True)
class ToolFacts:
    """One run of a tool.

    failed:       why there is no result; "" if there is one.
    seconds, peak_bytes: its wall time, and the largest resident memory of its process.
    log:         what the tool reports about its run, as a part of a sentence.
    other_values: names that mean other numbers in its result; these values got new names.
    uncompared:   why values were matched by their names alone; "" if their numbers were compared.
    """

    tool: str
    version: str = ""
    failed: str = ""
    seconds: float = 0.0
    peak_bytes: int = 0
    log: str = ""
    other_values: tuple[str, ...] = ()
    uncompared: str = ""

    @property
    def sentence(self) -> str:
        if self.failed:
            return f"failed, and the step changes nothing: {self.failed}"
        version = f"version {self.version}, " if self.version else ""
        text = f"{version}{self.seconds:.1f} s, {self.peak_bytes / MEGABYTE:,.0f} MB of memory"
        if self.log:
            text += f"; {self.log}"
        if self.other_values:
            names = quoted(self.other_values, _MAX_NAMED)
            text += f"; these names stand for other numbers in its result: {names}"
        if self.uncompared:
            text += (
                f"; values are matched by their names alone, since their numbers were not compared: {self.uncompared}"
            )
        return text


@dataclass(frozen=True)
class ToolPass(Pass):
    """Base of the passes in `passes/tools/`: each defines its packages, the tool's first, and `convert`."""

    exactness: ClassVar[Exactness] = Exactness.ROUNDING
    keeps_names: ClassVar[bool] = False  # values of one name are the same before and after, so that none are compared

    seconds: int = option(300, "How many seconds the tool may take.", least=1)
    megabytes: int = option(16_000, "How many megabytes of memory its process may take.", least=100)

    def convert(self, source: Path, target: Path) -> str | None:
        """Read the model from `source` and write the optimized one to `target`; runs in the tool's process.

        Returns what the tool reports about its run, as a part of a sentence, or None.
        """
        raise NotImplementedError(f"tool {self.name} does not define `convert`")

    @classmethod
    def switches(cls, report: str) -> list[str]:
        """The parts of the tool that acted and that its option `without` can switch off. report: from `convert`."""
        return []

    @property
    def calibration_files(self) -> str | None:
        """Where the inputs of calibration come from, as in `ToolCall.calibration`."""
        return None

    def sentence(self, graph: Graph, change: Change) -> str:
        """What the change does. graph: before it."""
        new = named(change.inserted)
        if change.folded:
            constants = f"{'constants' if len(change.folded) > 1 else 'constant'} {_listed(map(repr, change.folded))}"
            new = f"{new} and {constants}" if change.inserted else constants
        if not new:
            removed = len(change.removed)
            return f"{named(change.removed)} {'goes' if removed == 1 else 'go'}; {_count(removed)} fewer"
        becomes = "becomes" if len(change.removed) == 1 else "become"
        return f"{named(change.removed)} {becomes} {new}{balance_of(change)}"

    @classmethod
    def version(cls) -> str:
        from importlib import metadata

        return metadata.version(cls.packages[0]) if cls.packages else ""

    @property
    def call(self) -> ToolCall:
        """How to run it: a process needs the class and the values of the fields only."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        cls = type(self)
        limit = self.megabytes * MEGABYTE
        of_values = (self.keeps_names, self.calibration_files)
        return ToolCall(self.title, cls.__module__, cls.__qualname__, fields, self.seconds, limit, *of_values)

    def run(
        self, graph: Graph, context: PassContext, exclude: ExcludedRewrites = NOTHING_EXCLUDED
    ) -> Iterator[Rewrite]:
        """Each change of the tool is a rewrite, which can be left out alone."""
        if not self.exactness.runs_in(context.mode):
            return iter(())
        return self._changes(graph, context, exclude)

    def _changes(
        self, graph: Graph, context: PassContext, exclude: ExcludedRewrites
    ) -> Generator[Rewrite, None, ToolFacts]:
        from workbench.rewrite.external.difference import difference

        tool = self.title
        try:
            runner = context.find(ToolRunner)
            if self.missing() or runner is None:
                raise ToolError(self.missing() or "there is no process for tools here")
            result = runner.run(graph, self.call)
            outcome = difference(graph, result.graph, result.same)
        except ToolError as error:
            return ToolFacts(tool, failed=str(error).rstrip("."))
        for change in outcome.changes:
            proposed = Rewrite(change.edit, self.sentence(graph, change), tuple(node.name for node in change.removed))
            if proposed not in exclude:
                yield proposed
        run, uncompared = result.run, result.reason.rstrip(".")
        version, others = self.version(), () if self.keeps_names else outcome.other_values
        return ToolFacts(tool, version, "", run.seconds, run.peak_bytes, run.log, others, uncompared)


def balance_of(change: Change) -> str:
    """How many nodes fewer or more, as the end of a sentence."""
    fewer = len(change.removed) - len(change.inserted)
    return "" if fewer == 0 else f"; {_count(abs(fewer))} {'fewer' if fewer > 0 else 'more'}"


def named(nodes: Sequence[Node]) -> str:
    """The nodes in words, the first few by name."""
    return _listed(str(node) for node in nodes)


def _listed(texts: Any) -> str:
    names = list(texts)
    if len(names) > _MAX_NAMED + 1:
        names = [*names[:_MAX_NAMED], f"{len(names) - _MAX_NAMED:,} more"]
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _count(nodes: int) -> str:
    return f"{nodes:,} node{'s' if nodes != 1 else ''}"
