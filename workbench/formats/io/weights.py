"""Weights that stay in their files: tensors on a memory map, read when they are used."""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx
import onnx_ir

from workbench.formats.io.errors import LoadError
from workbench.ir.from_proto import read_copy
from workbench.ir.to_proto import THIS_FILE
from workbench.ir.types import Constant, MissingConstant
from workbench.support.files import SPECIAL, is_special

RESIDENT = 2**20  # bytes of a mapped file that may stay in memory


class MappedTensor(onnx_ir.LazyTensor):
    """A tensor whose elements are `data`, part of a mapped file. The map lives as long as a tensor needs it.

    Each access returns a read-only view of the file, a copy only if the data is not
    aligned for the type. Replacing the file (not overwriting it in place) after loading
    has no effect here.
    """

    def __init__(
        self, data: memoryview, dtype: onnx_ir.DataType, shape: tuple[int, ...], name: str, doc_string: str | None
    ) -> None:
        def view() -> onnx_ir.TensorProtocol:
            if dtype.bitwidth < 8:
                packed = onnx.TensorProto(dims=shape, data_type=int(dtype), raw_data=_bytes(data), name=name)
                return onnx_ir.TensorProtoTensor(packed)
            array = np.frombuffer(data, dtype=dtype.numpy())
            if array.flags.aligned:
                note_read(data)
            else:
                array = _copied(data).view(array.dtype)
            return onnx_ir.Tensor(array.reshape(shape), dtype=dtype, name=name)

        super().__init__(view, dtype=dtype, shape=onnx_ir.Shape(shape), name=name, doc_string=doc_string)
        self._data = data

    def tobytes(self) -> bytes:
        return _bytes(self._data)

    def tofile(self, file: BinaryIO) -> None:
        for chunk in _chunks(self._data):
            file.write(chunk)


def _chunks(data: memoryview) -> Iterator[memoryview]:
    """Consecutive parts of `data`; memory of earlier parts is released."""
    for start in range(0, len(data), RESIDENT):
        chunk = data[start : start + RESIDENT]
        note_read(chunk)
        yield chunk


def _bytes(data: memoryview) -> bytes:
    note_read(data)
    return bytes(data)


def _copied(data: memoryview) -> np.ndarray:
    """A copy of the bytes, of shape (len(data),)."""
    copy = np.empty(len(data), np.uint8)
    start = 0
    for chunk in _chunks(data):
        copy[start : start + len(chunk)] = chunk
        start += len(chunk)
    return copy


class Files:
    """The model's file and those with its external data, each mapped once.

    folder: the folder that must contain external data; None: external data is not allowed.
    may_lack: whether a file of weights may be missing. Its weights then have types, and reading one raises LoadError.
    """

    def __init__(self, folder: Path | None, model_bytes: memoryview | None = None, may_lack: bool = False) -> None:
        self._folder = folder
        self._may_lack = may_lack
        self.missing_files: dict[str, set[str]] = {}  # missing file -> its weights
        self._maps: dict[str, memoryview] = {} if model_bytes is None else {THIS_FILE: model_bytes}

    def read(self, tensor: onnx.TensorProto) -> Constant:
        """The tensor of a message, mapped if it is external. Raises LoadError for an invalid location or length."""
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            return read_copy(tensor)
        try:
            external = onnx_ir.serde.deserialize_tensor(tensor)
        except (ValueError, TypeError):
            raise LoadError(
                f"the external data of weight '{tensor.name}' has no readable location; write it again"
            ) from None
        assert isinstance(external, onnx_ir.ExternalTensor)
        return self._mapped(external)

    def _mapped(self, external: onnx_ir.ExternalTensor) -> Constant:
        name, dtype = external.name, external.dtype
        shape = tuple(int(d) for d in external.shape.numpy())
        needed = math.ceil(math.prod(shape) * dtype.bitwidth / 8)
        offset = external.offset or 0
        length = needed if external.length is None else external.length
        if self._is_missing(str(external.location), name):
            return _missing_weight(external, shape)
        data = self._map(str(external.location), name)
        if offset < 0 or length != needed or offset + length > len(data):
            available = max(0, min(length, len(data) - max(offset, 0)))
            raise LoadError(f"weight '{name}' needs {needed:,} bytes, and the file has {available:,} for it")
        return MappedTensor(data[offset : offset + length], dtype, shape, name, external.doc_string)

    def _is_missing(self, location: str, weight: str) -> bool:
        if not self._may_lack or location in self._maps or self._path(location, weight).exists():
            return False
        self.missing_files.setdefault(location, set()).add(weight)
        return True

    def _map(self, location: str, weight: str) -> memoryview:
        if location not in self._maps:
            self._maps[location] = mapped(self._path(location, weight))
        return self._maps[location]

    def _path(self, location: str, weight: str) -> Path:
        if self._folder is None:
            raise LoadError(f"the numbers of '{weight}' are not in this text; open the .onnx file instead")
        if "\0" in location:
            raise LoadError(
                f"the external data of weight '{weight}' is at {location!r}, which is not the name of a file"
            )
        folder = self._folder.resolve()
        path = folder / location
        inside = location and not Path(location).is_absolute() and ".." not in Path(location.replace("\\", "/")).parts
        if not inside or not path.resolve().is_relative_to(folder):
            raise LoadError(
                f"the external data of weight '{weight}' is at '{location}', outside the model's folder, "
                "and is not read; put the file beside the model"
            )
        if not path.is_file() and (path.exists() or not self._may_lack):
            raise LoadError(f"the external data file '{location}' is missing; put it beside the model")
        return path


def _missing_weight(external: onnx_ir.ExternalTensor, shape: tuple[int, ...]) -> Constant:
    """A weight of which only name and type are known. Reading it raises LoadError."""
    sentence = (
        f"weight '{external.name}' has no elements, since the external data file '{external.location}' is missing; "
        "put it beside the model"
    )

    def read() -> onnx_ir.TensorProtocol:
        raise LoadError(sentence)

    return MissingConstant(read, dtype=external.dtype, shape=onnx_ir.Shape(shape), name=external.name)


class _MappedFile(mmap.mmap):
    """A mapped file; up to `resident` bytes of it are in memory."""

    resident = 0

    def release(self) -> None:
        """Release memory; views stay valid, since the system maps a page again when it is accessed."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self.madvise(mmap.MADV_DONTNEED)
        self.resident = 0


def mapped(path: str | Path) -> memoryview:
    """The file's bytes, mapped and read-only. An empty file is an empty view."""
    if is_special(path):
        raise LoadError(
            f"the weights in '{os.path.basename(path)}' cannot be read, since {SPECIAL}; copy them into a file"
        )
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return memoryview(b"")
        return memoryview(_MappedFile(file.fileno(), 0, access=mmap.ACCESS_READ))


def note_read(data: memoryview) -> None:
    """Note that a part of a mapped file was read, and release memory if much was, so that large models fit."""
    file = data.obj
    if not isinstance(file, _MappedFile):
        return
    if file.resident + len(data) > RESIDENT:
        file.release()
    file.resident += len(data)
