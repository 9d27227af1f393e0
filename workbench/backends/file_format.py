"""Files of a newer format version (IR) than ONNX Runtime reads; onnx writes such files by default."""

from __future__ import annotations

from workbench.formats.io.streaming_proto import MalformedProtoError, format_version
from workbench.formats.io.weights import mapped
from workbench.formats.opsets.versions import NEWEST_IR


def at_readable_ir(path: str) -> bytes | None:
    """The file's bytes at the newest version that ONNX Runtime reads; None if the file is not newer than that.

    Only the number changes: features of a newer version are refused when the file is opened.
    """
    data = mapped(path)
    try:
        version, position = format_version(data)
    except MalformedProtoError:
        return None  # ONNX Runtime says what is wrong with it
    if version <= NEWEST_IR:
        return None
    return b"".join((data[:position], bytes([NEWEST_IR]), data[position + 1 :]))
