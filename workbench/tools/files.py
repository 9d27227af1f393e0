"""Reading and writing whole models, in a tool's process."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import ModelProto

_MOST_INSIDE = 2**31 - 2**24  # bytes of a file with its weights inside


def read_whole(source: Path) -> ModelProto:
    """The model with its weights, external ones too."""
    return onnx.load(source)


def write_whole(model: ModelProto, target: Path) -> None:
    """Write it, its weights beside it if one file could not hold them."""
    onnx.save(model, target, save_as_external_data=model.ByteSize() > _MOST_INSIDE)
