"""Files that a user uploads, and the paths of those that are on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_MODELS = (".onnx", ".pt2", ".txt", ".onnxtxt", ".gz", ".textproto", ".pbtxt")


def save_uploads(files: Sequence[Any]) -> tuple[tempfile.TemporaryDirectory[str], Path]:
    """Save the files in a new folder; returns it and the path of the model."""
    folder = tempfile.TemporaryDirectory(prefix="workbench-upload-")
    saved = []
    for file in files:
        saved.append(Path(folder.name) / Path(file.name).name)
        saved[-1].write_bytes(file.getbuffer())
    return folder, next((path for path in saved if path.suffix in _MODELS), saved[0])


def path_from_here(path: str) -> str:
    """The path relative to the working folder if it lies inside, as a user would type it."""
    absolute = Path(path).absolute()
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else path
