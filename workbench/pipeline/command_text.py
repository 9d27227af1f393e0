"""Commands as text, to repeat on the command line what was done in the app or by another command.

They begin as the user began this process: by the installed command, or by the module.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

_INSTALLED, _MODULE = "graph-workbench", "workbench"


def is_installed_command() -> bool:
    """Whether the command `graph-workbench` began this process; what it runs, as Streamlit, may change `sys.argv`."""
    script = next((word for word in sys.orig_argv[1:] if not word.startswith("-")), "")
    return Path(script).stem == _INSTALLED


def program_name() -> str:
    """What stands in front of an error."""
    return _INSTALLED if is_installed_command() else _MODULE


def program_words() -> list[str]:
    """What stands in front of a command's name."""
    return [_INSTALLED] if is_installed_command() else ["python", "-m", _MODULE]


def command_text(*words: str) -> str:
    """The command with its arguments, as a shell takes it."""
    return shlex.join([*program_words(), *words])


def optimize_text(
    path: str,
    *,
    target: str | None = None,
    preset: str | None = None,
    passes: Sequence[str] | None = None,
    layout: str | None = None,
) -> str:
    """The command that makes `optimized.onnx` of a model; arguments that are None keep their defaults."""
    words = ["optimize", path, "-o", "optimized.onnx"]
    if passes is not None:
        words += ["--passes", ",".join(passes)]
    for name, value in (("preset", preset), ("target", target), ("layout", layout)):
        if value is not None:
            words += [f"--{name}", value]
    return command_text(*words)
