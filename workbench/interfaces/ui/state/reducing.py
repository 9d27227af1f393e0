"""A report of a defect of another tool: the smallest part found of the open model on which it is wrong or fails."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from workbench.evidence.reduction.recorded import recorded_whole
from workbench.evidence.reduction.reduce import Reduction, ReductionProgress, begin_reduction
from workbench.formats.io import load_model
from workbench.interfaces.study.compare_tools.comparing import ComparedTool
from workbench.interfaces.study.compare_tools.tool_fault import ToolFault
from workbench.interfaces.ui.state.model_inputs import saved_inputs
from workbench.interfaces.ui.state.session import Opened, worker
from workbench.interfaces.ui.state.work import Report
from workbench.ir import graph_text

_MODEL, _INPUTS, _ABOUT = "small.onnx", "small.inputs.npz", "README.txt"
_LIMIT_S = 60.0  # the time limit of one run of the tool


class _EnoughError(Exception):
    """The user ended the search; the smallest part so far is kept."""


@dataclass(frozen=True)
class Reduced:
    """A part of a model on which a tool has a fault. folder: of the part, its inputs, and the command that shows it.

    fault_text: describes the fault. text: the part as ONNX text. candidates: number of checked candidates.
    before, nodes: numbers of nodes of the model and of the part.
    """

    folder: tempfile.TemporaryDirectory[str]
    fault_text: str
    text: str
    before: int
    nodes: int
    candidates: int

    @property
    def files(self) -> list[Path]:
        return sorted(Path(self.folder.name).iterdir())


def reduce_fault(opened: Opened, tool: ComparedTool, finish: Event, report: Report) -> Reduced | None:
    """Search the smallest faulty part, on the inputs on which the tools were compared; None if there is none yet.

    finish: once set, the search ends with the smallest part so far. Raises UserError.
    """

    def on_progress(progress: ReductionProgress) -> None:
        if finish.is_set():
            raise _EnoughError
        report(f"nodes left: {progress.nodes:,}; candidates checked: {progress.checked:,}; {progress.stage}", None)

    report("running the model to record its values", None)
    fault = ToolFault(tool.name, worker(), _LIMIT_S)
    with tempfile.TemporaryDirectory(prefix="workbench-reduce-") as scratch:
        inputs_file, dims = saved_inputs(opened, Path(scratch))
        source = str(opened.graph.source)
        recorded = recorded_whole(source, dims, inputs_file, opened.seed, worker(), Path(scratch))
        reduction = begin_reduction(recorded, fault, worker(), Path(scratch), on_progress)
        with contextlib.suppress(_EnoughError):
            reduction.run()
        return _written(reduction, fault, tool)


def _written(reduction: Reduction, fault: ToolFault, tool: ComparedTool) -> Reduced | None:
    best = reduction.best
    if best is None:
        return None
    folder: tempfile.TemporaryDirectory[str] = tempfile.TemporaryDirectory(prefix="workbench-report-")
    model, inputs = Path(folder.name) / _MODEL, Path(folder.name) / _INPUTS
    best.save(model, inputs)
    fault.exit_code(model, inputs)  # sets `fault_text` for this part instead of the last candidate
    (Path(folder.name) / _ABOUT).write_text(
        f"{tool.name} {tool.version}\n\n{fault.fault_text}\n\nTo see it again:\n\n    {fault.text(_MODEL, _INPUTS)}\n"
    )
    text = graph_text(load_model(str(model)))
    return Reduced(folder, fault.fault_text, text, reduction.nodes_before, best.nodes, reduction.checked)
