"""The files of a model: its own, and those that hold its weights."""

from __future__ import annotations

from pathlib import Path

from onnx import TensorProto

from workbench.errors import reading
from workbench.formats.io.checks import every_tensor
from workbench.formats.io.errors import LoadError
from workbench.formats.io.kinds import ONNX, kind_of
from workbench.formats.io.streaming_proto import MalformedProtoError, read_model
from workbench.formats.io.weights import Files, mapped
from workbench.ir.to_proto import THIS_FILE


def files_of(path: Path) -> list[Path]:
    """The file itself, then the files with its external data, which are in its folder. Raises LoadError."""
    return [path, *(path.parent / location for location in weight_locations(path))]


def weight_locations(path: Path) -> list[str]:
    """The locations of external data as the file states them, relative to its folder. Raises LoadError."""
    with reading(path.name, LoadError, "export or copy it again"):
        try:
            return _locations(path)
        except LoadError as error:
            raise LoadError(f"{path.name}: {error}") from None


def _locations(path: Path) -> list[str]:
    try:
        if kind_of(path) != ONNX:
            return []
        data = mapped(path)
        model, _ = read_model(data)
    except MalformedProtoError:
        raise LoadError("the file is not ONNX, or it was cut off; export or copy it again") from None
    except LoadError:  # MissingFileError is an OSError too
        raise
    except OSError as error:
        raise LoadError(f"the file cannot be read ({error.strerror or error})") from None
    external_files = Files(path.parent, data)
    results: dict[str, None] = {}
    for tensor in every_tensor(model):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
        if location != THIS_FILE and location not in results:
            external_files.read(tensor)  # raises for a file that is missing or outside of the folder
            results[location] = None
    return list(results)
