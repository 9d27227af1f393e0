"""The oldest ONNX Runtime that reads a file, by its opset and its version of the format (IR).

Versions up to 1.15 are from its documents (docs/Versioning.md); 1.16 to 1.24 and 1.31 were tested.
"""

from __future__ import annotations

_READS = (  # version, newest opset, newest IR
    *(
        ("1.0", 11, 6),
        ("1.3", 12, 7),
        ("1.6", 13, 7),
        ("1.8", 14, 7),
        ("1.10", 15, 8),
        ("1.11", 16, 8),
        ("1.12", 17, 8),
    ),
    *(("1.14", 18, 8), ("1.15", 19, 9), ("1.17", 20, 9), ("1.18", 21, 10), ("1.21", 22, 10), ("1.23", 23, 11)),
    *(("1.24", 25, 13), ("1.31", 26, 13)),
)
OLDEST_OPSET = 7  # the oldest opset that ONNX Runtime and the workbench read and write
NEWEST_IR = _READS[-1][2]


def oldest_onnxruntime(opset: int, ir: int) -> str | None:
    """The oldest version that reads a file of this opset and IR, such as "1.17"; None if no known version does."""
    return next((version for version, newest, format_ in _READS if opset <= newest and ir <= format_), None)
