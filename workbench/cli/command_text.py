"""Commands as text: what was done in the app or by another command, to be done again on the command line."""

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
    """The command that makes `optimized.onnx` of a model; what is None stays at its default."""
    words = ["python", "-m", "workbench", "optimize", path, "-o", "optimized.onnx"]
    if passes is not None:
        words += ["--passes", ",".join(passes)]
    for name, value in (("preset", preset), ("target", target), ("layout", layout)):
        if value is not None:
            words += [f"--{name}", value]
    return shlex.join(words)
