"""Commands as text, to repeat on the command line what was done in the app or by another command."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def optimize_text(
    path: str,
    *,
    target: str | None = None,
    preset: str | None = None,
    passes: Sequence[str] | None = None,
    layout: str | None = None,
) -> str:
    """The command that makes `optimized.onnx` of a model; arguments that are None keep their defaults."""
    words = ["python", "-m", "workbench", "optimize", path, "-o", "optimized.onnx"]
    if passes is not None:
        words += ["--passes", ",".join(passes)]
    for name, value in (("preset", preset), ("target", target), ("layout", layout)):
        if value is not None:
            words += [f"--{name}", value]
    return shlex.join(words)
