"""A check for `reduce`: whether a tool still changes a candidate's results, or still fails on it in the same way."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from workbench.errors import UserError
from workbench.evidence.reduction.command import SHOWS, FileCheck
from workbench.evidence.verification.verifier import Verifier
from workbench.interfaces.api import load
from workbench.interfaces.study.compare_tools.comparing import chosen_tools
from workbench.ir import Graph
from workbench.pipeline.command_text import command_text
from workbench.rewrite.external.tool_call import ToolError
from workbench.run.inputs import read_inputs
from workbench.run.tools import convert_file
from workbench.run.worker.client import Worker
from workbench.run.worker.process import CancelledError

_RIGHT, _WRONG, _OTHER_TYPE = "", "other numbers", "another shape or type, or a model that does not run"
_NOT_OPENED = "a model that cannot be opened"
_NO_FAULT = 0  # exit code


class ToolFault(FileCheck):
    """The fault of a tool. The first model that is checked determines which fault that is."""

    wants_inputs = True

    def __init__(self, name: str, worker: Worker, timeout_s: float) -> None:
        """name: as in `compare-tools`. Raises UserError if there is no such tool or it is not installed."""
        tool = chosen_tools([name])[-1]
        if tool.call is None or tool.missing:
            raise UserError(tool.missing or f"'{name}' is the model itself; name a tool")
        self._name, self._worker = name, worker
        self._call = replace(tool.call, seconds=min(timeout_s, tool.call.seconds))
        self._fault = _RIGHT
        self.fault_text = ""  # the last model that was checked had this fault

    def exit_code(self, model: str | Path, inputs: str | Path) -> int:
        """SHOWS (1) if the tool has the fault on these files, else 0, as the exit code of a command would be."""
        result = self._fault_of(Path(model), Path(inputs))
        self._fault = self._fault or result
        return SHOWS if result and result == self._fault else _NO_FAULT

    def text(self, model: str | Path, inputs: str | Path) -> str:
        """The command that shows the fault."""
        arguments = ["compare-tools", str(model), "--inputs", str(inputs), "--tools", self._name, "--no-measure"]
        return command_text(*arguments)

    def why_not(self, code: int | None) -> str:
        """Why the model itself cannot be reduced."""
        return f"{self._name} computes what the model computes, so there is no fault to look for"

    def _fault_of(self, model: Path, inputs: Path) -> str:
        """The fault on this model: a constant of this module, or the start of the tool's error; "" for none."""
        with tempfile.TemporaryDirectory(prefix="graph-workbench-") as folder:
            written = Path(folder) / "model.onnx"
            try:
                convert_file(model, written, self._call, lambda: None)
            except ToolError as error:
                self.fault_text = str(error)
                return self.fault_text.partition(":")[0]
            try:
                original = load(model)
            except UserError:  # a candidate that cannot be opened itself
                return _RIGHT
            try:
                result = load(written)
            except UserError as error:
                self.fault_text = f"its result cannot be opened: {error}"
                return _NOT_OPENED
            try:
                verdict = self._verifier(original, inputs).check_file(result, written)
            except CancelledError:
                raise
            except UserError:  # a candidate that does not run
                return _RIGHT
            self.fault_text = verdict.sentence
            if verdict.ok is not False:
                return _RIGHT
            return _WRONG if verdict.max_rel_error is not None else _OTHER_TYPE

    def _verifier(self, graph: Graph, inputs: Path) -> Verifier:
        try:
            tensors = read_inputs(str(inputs), graph)
        except UserError:  # the file holds no inputs
            tensors = None
        return Verifier(graph, tensors, worker=self._worker)
