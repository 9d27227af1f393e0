"""Tensors in files that only this program reads: a header as JSON, then their bytes as they are in memory.

Values of a run are tens of megabytes: an .npz would compute a checksum of each, twice, and copy them. It has no element
types that numpy lacks either, such as bfloat16.

A file begins with the length of the header, 8 bytes with the lowest first. The header, and each tensor, is followed by
zeros up to a multiple of 64 bytes.
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import onnx_ir

_ALIGNMENT = 64  # bytes, for vectors


def save_tensors(path: str | Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Write the tensors, in order and under any name. Raises OSError."""
    arrays, entries, end = [], [], 0
    for name, tensor in tensors.items():
        array = np.asarray(tensor)
        if array.dtype == object:  # ONNX Runtime's strings
            array = array.astype(str)
        arrays.append(np.ascontiguousarray(array))
        entries.append((name, array.dtype.name if array.dtype.isbuiltin == 2 else array.dtype.str, array.shape, end))
        end += _aligned(array.nbytes)
    header = json.dumps(entries).encode()
    start = _aligned(8 + len(header))
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for array, (*_, offset) in zip(arrays, entries, strict=True):
            file.seek(start + offset)
            file.write(array.reshape(-1).view(np.uint8).data if array.nbytes else b"")
        file.truncate(start + end)


def load_tensors(path: str | Path) -> dict[str, np.ndarray]:
    """The tensors that `save_tensors` wrote. They are read where they are used, and may be changed.

    Raises OSError if the file cannot be read, ValueError if it was not written to its end.
    """
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    size = int.from_bytes(data[:8], "little")
    start = _aligned(8 + size)
    tensors = {}
    for name, dtype, shape, offset in json.loads(data[8 : 8 + size]):
        kind = _types_numpy_lacks().get(dtype) or np.dtype(dtype)
        tensors[name] = np.frombuffer(data, kind, math.prod(shape), start + offset).reshape(shape)
    return tensors


def _aligned(size: int) -> int:
    """The least multiple of the alignment that is not below the size."""
    return -(-size // _ALIGNMENT) * _ALIGNMENT


@cache
def _types_numpy_lacks() -> Mapping[str, np.dtype]:
    """The element types that numpy lacks, by name, such as bfloat16 and float8."""
    types = (np.dtype(kind.numpy()) for kind in onnx_ir.DataType if kind != onnx_ir.DataType.UNDEFINED)
    return {dtype.name: dtype for dtype in types if dtype.isbuiltin == 2}
