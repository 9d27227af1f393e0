"""The context of passes, with what runs in processes: the timer of operators, and the tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.external.running import ToolCall, ToolResult, ToolRunner
from workbench.ir import Graph
from workbench.layout.profile import load_profile
from workbench.rewrite import DEFAULT_MODE, PassContext
from workbench.rewrite.core.limits import NO_LIMITS, RuleLimits
from workbench.run.measurement.operator_timer import DeviceOperatorTimer

if TYPE_CHECKING:
    from workbench.run.profiling.progress import OnShare
    from workbench.run.worker.client import Worker


def pass_context(
    target: str,
    worker: Worker | None = None,
    on_share: OnShare | None = None,
    *,
    mode: str = DEFAULT_MODE,
    limits: RuleLimits = NO_LIMITS,
) -> PassContext:
    """The context of passes: the target of that name, a timer of operators in `worker`, or in a new one, and a runner
    of tools.

    on_share: is called with the progress of timing and of tools, in words and from 0 to 1; may raise to stop.
    """

    timer = DeviceOperatorTimer(worker, on_share)
    return PassContext(load_profile(target), timer, ProcessToolRunner(on_share), mode=mode, limits=limits)


class ProcessToolRunner(ToolRunner):
    """Runs each tool in a process of its own; `on_share` as in `pass_context`."""

    def __init__(self, on_share: OnShare | None = None) -> None:
        self._on_share = on_share

    def run(self, graph: Graph, call: ToolCall) -> ToolResult:
        from workbench.run.tools import run_tool

        return run_tool(graph, call, lambda: self._on_share and self._on_share(f"{call.title} runs", 0.0))
