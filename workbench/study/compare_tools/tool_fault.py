"""A check for `reduce`: a tool still changes the results of a candidate, or still fails on it in the same way."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from workbench.api import load
from workbench.errors import UserError
from workbench.external.running import ToolError
from workbench.ir import Graph
from workbench.pipeline.command_text import command_text
from workbench.reduction.command import SHOWS, FileCheck
from workbench.run.inputs import read_inputs
from workbench.run.tools import convert_file
from workbench.run.worker.client import Worker
from workbench.run.worker.process import CancelledError
from workbench.study.compare_tools.comparing import chosen_rivals
from workbench.verification.verifier import Verifier

_RIGHT, _WRONG, _UNLIKE = "", "other numbers", "another shape or type, or a model that does not run"
_NOT_OPENED = "a model that cannot be opened"
_HIDDEN = 0  # the exit code where the fault does not show


class ToolFault(FileCheck):
    """Of a tool, by its name in `rivals`. The first model asked says which fault it is."""

    wants_inputs = True

    def __init__(self, name: str, worker: Worker, timeout_s: float) -> None:
        """Raises UserError if there is no such tool, or if it is not installed."""
        rival = chosen_rivals([name])[-1]
        if rival.call is None or rival.missing:
            raise UserError(rival.missing or f"'{name}' is the model itself; name a tool")
        self._name, self._worker = name, worker
        self._call = replace(rival.call, seconds=min(timeout_s, rival.call.seconds))
        self._fault = _RIGHT
        self.last_words = ""

    def exit_code(self, model: str | Path, inputs: str | Path) -> int:
        """As a command's: 1 if the fault shows."""
        result = self._found(Path(model), Path(inputs))
        self._fault = self._fault or result
        return SHOWS if result and result == self._fault else _HIDDEN

    def text(self, model: str | Path, inputs: str | Path) -> str:
        """The command that shows the fault."""
        words = ["rivals", str(model), "--inputs", str(inputs), "--tools", self._name, "--no-measure"]
        return command_text(*words)

    def why_not(self, code: int | None) -> str:
        """Why the model itself is no beginning."""
        return f"{self._name} computes what the model computes, so there is no fault to look for"

    def _found(self, model: Path, inputs: Path) -> str:
        """What is wrong: one of these, or how the tool's sentence begins if it fails; "" if it is right."""
        with tempfile.TemporaryDirectory(prefix="graph-workbench-") as folder:
            written = Path(folder) / "model.onnx"
            try:
                convert_file(model, written, self._call, lambda: None)
            except ToolError as error:
                self.last_words = str(error)
                return self.last_words.partition(":")[0]
            try:
                original = load(model)
            except UserError:  # a candidate that cannot be opened itself
                return _RIGHT
            try:
                result = load(written)
            except UserError as error:
                self.last_words = f"its result cannot be opened: {error}"
                return _NOT_OPENED
            try:
                verdict = self._verifier(original, inputs).check_file(result, written)
            except CancelledError:
                raise
            except UserError:  # a candidate that does not run
                return _RIGHT
            self.last_words = verdict.sentence
            if verdict.ok is not False:
                return _RIGHT
            return _WRONG if verdict.max_rel_error is not None else _UNLIKE

    def _verifier(self, graph: Graph, inputs: Path) -> Verifier:
        try:
            given = read_inputs(str(inputs), graph)
        except UserError:  # nothing was recorded
            given = None
        return Verifier(graph, given, worker=self._worker)
