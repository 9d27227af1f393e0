"""Reading and writing whole models, and hearing what a library logs, in a tool's process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
from onnx import ModelProto

MOST_INSIDE = 2**31 - 2**24  # bytes of a file with its weights inside


def read_whole(source: Path) -> ModelProto:
    """The model with its weights, external ones too."""
    return onnx.load(source)


def write_whole(model: ModelProto, target: Path) -> None:
    """Write it, its weights beside it if one file could not hold them."""
    onnx.save(model, target, save_as_external_data=model.ByteSize() > MOST_INSIDE)


@contextmanager
def logged() -> Iterator[list[str]]:
    """A list that gets, at the end of the block, what a library wrote to the process's standard error meanwhile."""
    text: list[str] = []
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield text
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        text.append(file.read().decode(errors="replace"))
