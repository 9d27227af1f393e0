"""A check that runs a command of the user's on a candidate's file: exit code 1 says that the fault shows."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import threading
from abc import ABC, abstractmethod
from collections import deque
from pathlib import Path
from typing import IO

from workbench.errors import UserError
from workbench.reduction.candidates import Candidate

_MODEL, _INPUTS = "{}", "{inputs}"
SHOWS = 1  # the exit code
_KEPT = 4096  # bytes of what the command printed last
_CLOSING_S = 1.0  # for which a child of an ended command may still hold its output open


class CommandError(UserError):
    """The command cannot be run, or is none."""


class FileCheck(ABC):
    """A check of a candidate's file."""

    wants_inputs: bool

    @abstractmethod
    def exit_code(self, model: str | Path, inputs: str | Path) -> int | None:
        """SHOWS if the fault shows in the model; inputs: an .npz, if it wants one."""

    @abstractmethod
    def text(self, model: str | Path, inputs: str | Path) -> str:
        """The command for a shell that shows the fault in these files."""

    @abstractmethod
    def why_not(self, code: int | None) -> str:
        """Why the model itself, with this exit code, is no beginning."""

    def __call__(self, candidate: Candidate) -> bool:
        """Whether the fault shows."""
        with tempfile.TemporaryDirectory(prefix="graph-workbench-") as folder:
            model, inputs = Path(folder) / "model.onnx", Path(folder) / "model.inputs.npz"
            candidate.save(model, inputs if self.wants_inputs else None)
            return self.exit_code(model, inputs) == SHOWS


class Command(FileCheck):
    """A command with `{}` for the path of a model, and `{inputs}` for that of an .npz of its inputs, if it wants one.

    It is run without a shell, in this folder, for at most `timeout_s`, and ends with all that it started.
    """

    def __init__(self, text: str, timeout_s: float) -> None:
        """Raises CommandError."""
        try:
            self._words = shlex.split(text)
        except ValueError as error:
            raise CommandError(f"the command {text!r} cannot be split into words: {error}; close its quotes") from None
        if not any(_MODEL in word for word in self._words):
            raise CommandError(f"the command {text!r} has no {{}}; write {{}} where the path of a model belongs")
        self.timeout_s = timeout_s
        self.wants_inputs = any(_INPUTS in word for word in self._words)
        self.last_words = ""

    def words(self, model: str | Path, inputs: str | Path) -> list[str]:
        """The command for these files."""
        return [word.replace(_INPUTS, str(inputs)).replace(_MODEL, str(model)) for word in self._words]

    def text(self, model: str | Path, inputs: str | Path) -> str:
        """The same for a shell."""
        return shlex.join(self.words(model, inputs))

    def why_not(self, code: int | None) -> str:
        """Why the model itself is no beginning: what the command does with it, and what it must do."""
        if code is None:
            what = f"did not end within {self.timeout_s:g} s, its time limit; allow more with --timeout"
        elif code < 0:
            what = f"was ended by signal {-code}; let it exit with 1 if the fault shows"
        else:
            what = f"exits with {code} on the model itself; it must exit with 1 while the fault shows"
        message = f" (its last line: {self.last_words[:200]})" if self.last_words else ""
        return f"the command {what}{message}"

    def exit_code(self, model: str | Path, inputs: str | Path) -> int | None:
        """The code, negative for a signal; None if it took too long. Raises CommandError if it cannot be started."""
        words = self.words(model, inputs)
        try:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a group of its own, which ends as a whole; Ctrl-C is ours to handle
            )
        except OSError as error:
            raise CommandError(
                f"the command '{words[0]}' cannot be run ({error.strerror or error}); see that it exists, "
                "is executable and needs no shell"
            ) from None
        sentences: deque[bytes] = deque(maxlen=2)
        assert process.stdout is not None  # it is a pipe
        reader = threading.Thread(target=_drain, args=(process.stdout, sentences), daemon=True)
        reader.start()
        try:
            return process.wait(self.timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):  # all of the group have ended
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            reader.join(_CLOSING_S)
            lines = b"".join(sentences).decode(errors="replace").strip().splitlines()
            self.last_words = lines[-1].strip() if lines else ""


def _drain(stream: IO[bytes], messages: deque[bytes]) -> None:
    """Read to the end, of which only the last part is kept."""
    with stream:
        while part := stream.read1(_KEPT):  # type: ignore[attr-defined]  # pipes are buffered readers
            messages.append(part)
