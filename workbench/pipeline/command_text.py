"""Commands as text, which repeat on the command line what the app or another command did.

They begin as the user started this process: with the installed command, or with the module.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

_INSTALLED, _MODULE = "graph-workbench", "workbench"


def is_installed_command() -> bool:
    """Whether the command `graph-workbench` started this process. Streamlit may change `sys.argv`, not `orig_argv`."""
    script = next((argument for argument in sys.orig_argv[1:] if not argument.startswith("-")), "")
    return Path(script).stem == _INSTALLED


def program_name() -> str:
    """The prefix of an error message."""
    return _INSTALLED if is_installed_command() else _MODULE


def program_arguments() -> list[str]:
    """The arguments in front of a command's name."""
    return [_INSTALLED] if is_installed_command() else ["python", "-m", _MODULE]


def command_text(*arguments: str) -> str:
    """The command with its arguments, quoted for a shell."""
    return shlex.join([*program_arguments(), *arguments])


def optimize_text(
    path: str,
    *,
    target: str | None = None,
    preset: str | None = None,
    passes: Sequence[str] | None = None,
    layout: str | None = None,
) -> str:
    """The command that makes `optimized.onnx` of a model; arguments that are None keep their defaults."""
    arguments = ["optimize", path, "-o", "optimized.onnx"]
    if passes is not None:
        arguments += ["--passes", ",".join(passes)]
    for name, value in (("preset", preset), ("target", target), ("layout", layout)):
        if value is not None:
            arguments += [f"--{name}", value]
    return command_text(*arguments)
