"""Saving uploaded files, and showing paths of files on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_CERTAIN = (".onnx", ".pt2", ".onnxtxt")  # a second file of these is another model, not data of the first
_MODELS = (".onnx", ".pt2", ".txt", ".onnxtxt", ".gz", ".textproto", ".pbtxt")


def save_uploads(files: Sequence[Any]) -> tuple[tempfile.TemporaryDirectory[str], list[Path]]:
    """Save the files in a new folder; returns the folder and the paths of the models, the first at least."""
    folder = tempfile.TemporaryDirectory(prefix="workbench-upload-")
    saved = []
    for file in files:
        saved.append(Path(folder.name) / Path(file.name).name)
        saved[-1].write_bytes(file.getbuffer())
    first = next((path for path in saved if path.suffix in _MODELS), saved[0])
    return folder, [first, *(path for path in saved if path.suffix in _CERTAIN and path != first)]


def path_from_here(path: str) -> str:
    """The path, relative to the working folder if it is inside."""
    absolute = Path(path).absolute()
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else path
