"""The context of passes, with the operator timer, the recorder of values and the tool runner, which use processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.backends.onnxruntime.kernel_lists import InstalledKernels
from workbench.ir import Graph
from workbench.planning.layout.profile import load_profile
from workbench.rewrite import DEFAULT_MODE, PassContext
from workbench.rewrite.core.limits import NO_LIMITS, RuleLimits
from workbench.rewrite.external.tool_call import ToolCall, ToolResult, ToolRunner
from workbench.run.measurement.operator_timer import DeviceOperatorTimer
from workbench.run.value_recording import RunRecorder

if TYPE_CHECKING:
    from workbench.backends.profiling.progress import ProgressCallback
    from workbench.run.calibration import RunInputs
    from workbench.run.worker.client import Worker


def pass_context(
    target: str,
    worker: Worker | None = None,
    on_progress: ProgressCallback | None = None,
    *,
    mode: str = DEFAULT_MODE,
    run_inputs: RunInputs | None = None,
    limits: RuleLimits = NO_LIMITS,
) -> PassContext:
    """The context of passes: the target of that name, an operator timer and a tool runner.

    worker:   the process in which operators are timed; a new one if None. on_progress: is called with the progress of
    timing, trials and tools, a text and the fraction done, from 0 to 1; may raise to stop. run_inputs: on which a graph
    is run to record its values, and a quantizer is calibrated; seeded ones if None.
    """
    timer = DeviceOperatorTimer(worker, on_progress)
    recorder = RunRecorder(worker, None if run_inputs is None else run_inputs.several, on_progress)
    tools = ProcessToolRunner(on_progress, run_inputs)
    return PassContext(load_profile(target), timer, recorder, tools, InstalledKernels(), mode=mode, limits=limits)


class ProcessToolRunner(ToolRunner):
    """Runs each tool in a separate process; `on_progress` as in `pass_context`. run_inputs: for calibration."""

    def __init__(self, on_progress: ProgressCallback | None = None, run_inputs: RunInputs | None = None) -> None:
        self._on_progress, self._run_inputs = on_progress, run_inputs

    def run(self, graph: Graph, call: ToolCall) -> ToolResult:
        from workbench.run.tools import run_tool

        report = lambda: self._on_progress and self._on_progress(f"{call.title} runs", 0.0)  # noqa: E731
        return run_tool(graph, call, report, self._run_inputs)
