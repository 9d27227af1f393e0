"""Models in other encodings than protobuf's bytes: gzip, protobuf text, JSON."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

from google.protobuf import json_format, text_format
from google.protobuf.message import DecodeError
from onnx import ModelProto

from workbench.formats.io.errors import LoadError
from workbench.formats.io.kinds import GZIP, JSON, PROTO_TEXT

LARGEST = 2**31  # bytes of a message, which protobuf allows
_CHUNK = 2**20


def write_unpacked(path: Path, kind: str, target: Path) -> None:
    """Write the model of the file to `target`, as an `.onnx` file. Raises LoadError."""
    if kind == GZIP:
        _decompress(path, target)
        return
    if path.stat().st_size > LARGEST:
        raise LoadError("the text is longer than 2 GB; store the model as .onnx")
    parse, format_text = _TEXTS[kind]
    try:
        target.write_bytes(parse(path.read_text(encoding="utf-8")).SerializeToString())
    except UnicodeDecodeError:
        raise LoadError("the file is not text") from None
    except (text_format.ParseError, json_format.ParseError, DecodeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise LoadError(f"the text is not a model {format_text}: {reason}; write it again") from None


def _decompress(path: Path, target: Path) -> None:
    written = 0
    try:
        with gzip.open(path, "rb") as packed, open(target, "wb") as file:
            while chunk := packed.read(_CHUNK):
                written += len(chunk)
                if written > LARGEST:
                    raise LoadError("it contains more than 2 GB, which no model may have; decompress it yourself")
                file.write(chunk)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise LoadError("the compressed file is damaged, or it was cut off; copy it again") from None


def _from_text(text: str) -> ModelProto:
    model = ModelProto()
    text_format.Parse(text, model)
    return model


def _from_json(text: str) -> ModelProto:
    model = ModelProto()
    json_format.Parse(text, model)
    return model


_TEXTS: Mapping[str, tuple[Callable[[str], ModelProto], str]] = {
    PROTO_TEXT: (_from_text, "in protobuf's text format"),
    JSON: (_from_json, "as JSON"),
}
