"""The user's inputs in an .npz file: names and headers are checked before any array is unpacked."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from workbench.backends.memory import available_bytes, in_gigabytes
from workbench.backends.nontensor_inputs import OF_OPTIONAL, OF_SEQUENCE, container_type, sequence_items, type_of_input
from workbench.errors import UserError, quoted, reading
from workbench.ir import Graph
from workbench.ir.types import Shape
from workbench.support.files import SPECIAL, is_special

_NPY_MAGIC = b"\x93NUMPY"
_MAX_HEADER = 10_000  # bytes, as in numpy
_SAVE = "save the inputs with numpy.savez(path, name=array)"


class InputError(UserError):
    """The inputs cannot be generated, or the user's do not fit the model."""


def read_arrays(path: Path, graph: Graph) -> dict[str, np.ndarray]:
    """An array for every input of the graph, of a shape that it can have.

    Raises InputError for a file that is not an .npz of plain arrays, for other names, and for arrays that do not fit
    the model or the memory.
    """
    if is_special(path):
        raise InputError(f"{path} cannot be read, for {SPECIAL}; save the inputs with numpy.savez.")
    with reading(f"{path} is not an .npz file of plain arrays: it", InputError, _SAVE):
        try:
            return _arrays(path, graph)
        except FileNotFoundError:
            raise InputError(f"There is no inputs file {path}.") from None
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror or error}; name a file that can.") from None


def _arrays(path: Path, graph: Graph) -> dict[str, np.ndarray]:
    with open(path, "rb") as file:
        if file.read(len(_NPY_MAGIC)) == _NPY_MAGIC:
            raise InputError(f"{path} holds one array without a name; save with numpy.savez(path, name=array).")
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path} is not an .npz file of plain arrays; save one with numpy.savez.")
    with zipfile.ZipFile(path) as archive:
        entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
        defaults = graph.kept.defaults
        required = required_tensors(graph, entries)
        missing = [name for name in required if name not in entries and name not in defaults]
        surplus = [name for name in entries if name not in required and not graph.is_input(name)]
        if missing or surplus:
            wrong = f"has no array '{missing[0]}'" if missing else f"has an array '{surplus[0]}' that is not an input"
            raise InputError(f"{path} {wrong}; the model's inputs are {quoted(graph.inputs)}.")
        present = {name: value for name, value in required.items() if name in entries}
        for name, value in present.items():
            _check(name, archive, entries[name], graph, value)
        arrays = {name: _array(archive, entries[name]) for name in present}
        return {name: arrays[name] if name in arrays else defaults[name].numpy() for name in required}


def required_tensors(graph: Graph, present: Mapping[str, Any]) -> dict[str, str]:
    """For each name of a required tensor, its input: all present tensors of a sequence, a present optional input."""
    results: dict[str, str] = {}
    for value in graph.inputs:
        container = container_type(graph, value)
        if container is None or (container[0] == OF_OPTIONAL and value in present):
            results[value] = value
        elif container[0] == OF_SEQUENCE:
            results.update((f"{value}[{index}]", value) for index in range(len(sequence_items(value, present))))
    return results


def _check(name: str, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, graph: Graph, value: str) -> None:
    """Check the header of a tensor of the input `value`.

    Raises InputError if it does not fit, and ValueError for an invalid header.
    """
    type_ = type_of_input(graph, value)
    if type_ is None:
        raise InputError(f"Input '{value}' has type {graph.type(value)}, not a tensor, and cannot come from an .npz.")
    with archive.open(entry) as stream:
        _check_length(stream.read(12))
    with archive.open(entry) as stream:
        shape, dtype, header = _header(stream)
    if dtype.hasobject:
        raise ValueError(f"'{entry.filename}' holds Python objects")
    if not shape_fits(type_.shape, shape):
        raise InputError(f"Input '{name}' has shape {list(shape)}; the model takes {type_}.")
    need, free = dtype.itemsize, available_bytes()
    for size in shape:
        need *= size
    if need != entry.file_size - header:
        raise ValueError(f"'{entry.filename}' holds {entry.file_size - header:,} bytes, and its shape needs {need:,}")
    if need > free:
        raise InputError(
            f"Input '{name}' needs {in_gigabytes(need)}, and {in_gigabytes(free)} are free; give smaller inputs."
        )


def _check_length(begin: bytes) -> None:
    """Raises ValueError for a long header, since numpy reads all of a header before it refuses it."""
    size = begin[8:10] if begin[6:7] == b"\x01" else begin[8:12]
    if int.from_bytes(size, "little") > _MAX_HEADER:
        raise ValueError(f"its header is longer than {_MAX_HEADER:,} bytes")


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape, element type, and the bytes before the elements."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    return shape, dtype, stream.tell()


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(entry) as stream:
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def shape_fits(expected: Shape, shape: tuple[int, ...]) -> bool:
    """Whether a shape has the expected rank, if known, and the expected fixed sizes."""
    if expected is None:
        return True
    if len(expected) != len(shape):
        return False
    return all(not isinstance(w, int) or w < 0 or w == g for w, g in zip(expected, shape, strict=True))
