"""Files of a newer version of the format (IR) than ONNX Runtime reads, which onnx writes by default."""

from __future__ import annotations

from workbench.io.streaming_proto import MalformedProtoError, format_version
from workbench.io.weights import mapped
from workbench.opsets.versions import NEWEST_IR


def at_readable_ir(path: str) -> bytes | None:
    """The file's bytes at the newest version that ONNX Runtime reads; None if the file is not newer than that.

    The version is only a number: what a file has that came with a newer one is refused when it is opened.
    """
    data = mapped(path)
    try:
        version, at = format_version(data)
    except MalformedProtoError:
        return None  # ONNX Runtime says what is wrong with it
    if version <= NEWEST_IR:
        return None
    return b"".join((data[:at], bytes([NEWEST_IR]), data[at + 1 :]))
