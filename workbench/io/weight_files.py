"""The files in which a model's weights lie."""

from __future__ import annotations

import os
from pathlib import Path

from onnx import TensorProto

from workbench.io.checks import every_tensor
from workbench.io.errors import LoadError
from workbench.io.streaming_proto import MalformedProtoError, read_model
from workbench.io.weights import mapped
from workbench.ir.to_proto import THIS_FILE


def weight_files(path: str) -> set[str]:
    """The real paths of a model's external data; none for what is no ONNX file that can be read."""
    try:
        model, _ = read_model(mapped(Path(path)))
    except (MalformedProtoError, LoadError, OSError, ValueError):  # loading it says what is wrong
        return set()
    outside = [tensor for tensor in every_tensor(model) if tensor.data_location == TensorProto.EXTERNAL]
    named = {entry.value for tensor in outside for entry in tensor.external_data if entry.key == "location"}
    folder = os.path.dirname(os.path.realpath(path))
    return {os.path.realpath(os.path.join(folder, name)) for name in named - {THIS_FILE} if "\0" not in name}
