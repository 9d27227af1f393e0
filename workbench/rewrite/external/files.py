"""Reads and writes whole models, and captures what a library logs, in a tool's process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
from onnx import ModelProto

MAX_INSIDE = 2**31 - 2**24  # bytes of a file with its weights inside


def read_whole(source: Path) -> ModelProto:
    """The model with its weights, external ones too."""
    return onnx.load(source)


def write_whole(model: ModelProto, target: Path) -> None:
    """Write the model, with its weights in an external file if one file cannot hold them."""
    onnx.save(model, target, save_as_external_data=model.ByteSize() > MAX_INSIDE)


@contextmanager
def logged() -> Iterator[list[str]]:
    """A list to which the end of the block adds what the block wrote to the process's standard error."""
    text: list[str] = []
    saved = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield text
        finally:
            os.dup2(saved, 2)
            os.close(saved)
        file.seek(0)
        text.append(file.read().decode(errors="replace"))
