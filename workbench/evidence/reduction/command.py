"""A check that runs the user's command on a candidate's file. Exit code 1 means that the fault shows."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path

from workbench.errors import UserError
from workbench.evidence.reduction.candidates import Candidate
from workbench.support.child_process import OutputTail, end_process_group, start_process_group

_MODEL, _INPUTS = "{}", "{inputs}"
SHOWS = 1  # the exit code


class CommandError(UserError):
    """The command cannot be run, or its text is not a valid command."""


class FileCheck(ABC):
    """A check of a candidate's file."""

    wants_inputs: bool

    @abstractmethod
    def exit_code(self, model: str | Path, inputs: str | Path) -> int | None:
        """SHOWS if the fault shows in the model; another code, or None, if it does not. inputs: an .npz, or unused."""

    @abstractmethod
    def text(self, model: str | Path, inputs: str | Path) -> str:
        """The command for a shell that shows the fault in these files."""

    @abstractmethod
    def why_not(self, code: int | None) -> str:
        """Why the search cannot start from the model itself, for which `exit_code` returned this code."""

    def __call__(self, candidate: Candidate) -> bool:
        """Whether the fault shows in the candidate, which is written to a temporary folder."""
        with tempfile.TemporaryDirectory(prefix="graph-workbench-") as folder:
            model, inputs = Path(folder) / "model.onnx", Path(folder) / "model.inputs.npz"
            candidate.save(model, inputs if self.wants_inputs else None)
            return self.exit_code(model, inputs) == SHOWS


class Command(FileCheck):
    """A command in which `{}` stands for the path of a model, and `{inputs}`, if present, for an .npz of its inputs.

    It runs without a shell, in the current folder, for at most `timeout_s`. Processes that it started end with it.
    """

    def __init__(self, text: str, timeout_s: float) -> None:
        """Raises CommandError."""
        try:
            self._arguments = shlex.split(text)
        except ValueError as error:
            raise CommandError(f"the command {text!r} cannot be split into words: {error}; close its quotes") from None
        if not any(_MODEL in argument for argument in self._arguments):
            raise CommandError(f"the command {text!r} has no {{}}; write {{}} where the path of a model belongs")
        self.timeout_s = timeout_s
        self.wants_inputs = any(_INPUTS in argument for argument in self._arguments)
        self.last_line = ""  # the last line that the last run printed

    def arguments(self, model: str | Path, inputs: str | Path) -> list[str]:
        """The program and its arguments for these files."""
        return [part.replace(_INPUTS, str(inputs)).replace(_MODEL, str(model)) for part in self._arguments]

    def text(self, model: str | Path, inputs: str | Path) -> str:
        """The command for these files, quoted for a shell."""
        return shlex.join(self.arguments(model, inputs))

    def why_not(self, code: int | None) -> str:
        """What the command did with the model itself, and what it must do."""
        if code is None:
            outcome = f"did not end within {self.timeout_s:g} s, its time limit; allow more with --timeout"
        elif code < 0:
            outcome = f"was ended by signal {-code}; let it exit with 1 if the fault shows"
        else:
            outcome = f"exits with {code} on the model itself; it must exit with 1 while the fault shows"
        output = f" (its last line: {self.last_line[:200]})" if self.last_line else ""
        return f"the command {outcome}{output}"

    def exit_code(self, model: str | Path, inputs: str | Path) -> int | None:
        """The exit code, negative for a signal; None after a timeout. Raises CommandError if it cannot start."""
        arguments = self.arguments(model, inputs)
        try:
            process = start_process_group(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except OSError as error:
            raise CommandError(
                f"the command '{arguments[0]}' cannot be run ({error.strerror or error}); see that it exists, "
                "is executable and needs no shell"
            ) from None
        assert process.stdout is not None  # it is a pipe
        output = OutputTail(process.stdout)
        try:
            return process.wait(self.timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            end_process_group(process)
            self.last_line = output.last_line()
