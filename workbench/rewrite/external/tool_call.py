"""The call of a tool, a third-party optimizer, and its result.

The tool runs in a separate process (`workbench/run/tools.py`). A pass gets its runner from its `PassContext`, so that
passes do not import `run`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.errors import UserError
from workbench.ir import Graph


class ToolError(UserError):
    """The tool is not installed, crashed, took too long or too much memory, or wrote no model that can be opened."""


@dataclass(frozen=True)
class ToolCall:
    """One run of a tool.

    title: the title of the pass, for the user.
    module, factory, fields: of the object whose `convert(source, target)` reads one file, writes the other and returns
                             the tool's message, if any.
    seconds, memory_bytes: limits of its process.
    keeps_names: whether values of one name are the same in its result, up to what the tool rounds.
    calibration: where the inputs come from that it reads from `calibration/` beside the source: an .npz file, a folder
                 of them, or "" for those of the run; None: it reads none.
    """

    title: str
    module: str
    factory: str
    fields: Mapping[str, Any]
    seconds: float
    memory_bytes: int
    keeps_names: bool = False
    calibration: str | None = None


@dataclass(frozen=True)
class ToolRun:
    """seconds: wall time of `convert`. peak_bytes: largest resident memory of its process. log: what it returned."""

    seconds: float
    peak_bytes: int
    log: str = ""


@dataclass(frozen=True)
class ToolResult:
    """What the tool wrote.

    same:   by value of the result, a value of the original with the same numbers in one seeded run; None if they were
            not compared.
    reason: why they were not compared, if that may matter.
    """

    graph: Graph
    run: ToolRun
    same: Mapping[str, str] | None
    reason: str = ""


class ToolRunner:
    """Runs tools, each in a process of its own; an extension of PassContext."""

    def run(self, graph: Graph, call: ToolCall) -> ToolResult:
        """Run the tool on the graph's export. Raises ToolError."""
        raise NotImplementedError
