"""The format of a file, from its first bytes and its name, before it is parsed."""

from __future__ import annotations

import zipfile
from pathlib import Path

from workbench.formats.io.errors import LoadError, MissingFileError
from workbench.support.files import SPECIAL, is_special

ONNX, TEXT, TORCH = "onnx", "text", "torch"
GZIP, PROTO_TEXT, JSON = PACKINGS = ("gzip", "protobuf text", "json")  # other programs need them unpacked
_TEXT_SUFFIXES = (".onnxtxt", ".txt")
_PACKED_SUFFIXES = {".textproto": PROTO_TEXT, ".pbtxt": PROTO_TEXT, ".prototxt": PROTO_TEXT, ".json": JSON}
_ORT = "this is a model in ONNX Runtime's own format (.ort), which is made from an .onnx file; open that file"
_PICKLE_SUFFIXES = (".pt", ".pth", ".pkl", ".pickle")
_PICKLE = (
    "a pickle runs code when it is opened, so it is not opened; save the program with torch.export.save "
    "as .pt2, or export it with torch.onnx.export"
)
_FOREIGN = {
    **dict.fromkeys((".tflite", ".h5", ".keras"), "this is a model of TensorFlow; convert it to ONNX with tf2onnx"),
    **dict.fromkeys(
        (".safetensors", ".gguf"),
        "this file has weights without a graph; export the program that uses them with torch.onnx.export",
    ),
}


def kind_of(path: Path) -> str:
    """ONNX, TEXT, TORCH or one of PACKINGS.

    Raises LoadError for a missing or empty file, a folder, a pipe, a pickle, or a format that must be converted first.
    """
    if path.is_dir():
        inside = sorted(path.glob("*.onnx"))
        hint = f"open '{inside[0].name}' in it" if len(inside) == 1 else "name a file in it"
        raise LoadError(f"this is a folder; {hint}")
    if not path.exists():
        raise MissingFileError("there is no such file")
    if is_special(path):
        raise LoadError(f"{SPECIAL}; copy the model into a file first")
    with open(path, "rb") as file:
        head = file.read(8)
    if not head:
        raise LoadError("the file is empty")
    suffix = path.suffix.lower()
    if head[4:] == b"ORTM":
        raise LoadError(_ORT)
    if suffix in _FOREIGN:
        raise LoadError(_FOREIGN[suffix])
    if head[:2] == b"\x1f\x8b":
        return GZIP
    if suffix in _PACKED_SUFFIXES:
        return _PACKED_SUFFIXES[suffix]
    if suffix in _TEXT_SUFFIXES:
        return TEXT
    is_zip = head[:4] == b"PK\x03\x04"
    if suffix in _PICKLE_SUFFIXES or _is_pickle(head) or (is_zip and suffix != ".pt2" and _holds_pickle(path)):
        raise LoadError(_PICKLE)
    if suffix == ".pt2" or is_zip:
        return TORCH
    return ONNX


def _is_pickle(head: bytes) -> bool:
    """Whether the file begins like pickle protocols 2 to 5, with 0x80, which is not a field key of an ONNX model."""
    return head[0] == 0x80 and len(head) > 1 and 2 <= head[1] <= 5


def _holds_pickle(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name == "data.pkl" or name.endswith("/data.pkl") for name in archive.namelist())
    except zipfile.BadZipFile:
        return False
