"""The elements of a constant as bytes and their SHA-256. Refuses what readers of the file could read differently."""

from __future__ import annotations

import hashlib
import math
import struct
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto
from onnx.external_data_helper import load_external_data_for_tensor

from workbench.checker.messages import filled
from workbench.checker.outcome import Unreadable, in_quotes
from workbench.checker.plain import PlainConstant

# Bits of an element by its number in ONNX's TensorProto.DataType; a text has no fixed size.
ELEMENT_BITS = {
    **dict.fromkeys((2, 3, 9, 17, 18, 19, 20, 24), 8),
    **dict.fromkeys((4, 5, 10, 16), 16),
    **dict.fromkeys((1, 6, 12), 32),
    **dict.fromkeys((7, 11, 13, 14), 64),
    15: 128,
    **dict.fromkeys((21, 22, 23), 4),
    **dict.fromkeys((25, 26), 2),
}
# Of each typed field: the numbers in it, their type in memory, and how many of them an element takes.
_TYPED: dict[int, tuple[str, str, int]] = {
    TensorProto.FLOAT: ("float_data", "<f4", 1),
    TensorProto.COMPLEX64: ("float_data", "<f4", 2),
    TensorProto.DOUBLE: ("double_data", "<f8", 1),
    TensorProto.COMPLEX128: ("double_data", "<f8", 2),
    TensorProto.INT64: ("int64_data", "<i8", 1),
    TensorProto.UINT64: ("uint64_data", "<u8", 1),
    TensorProto.UINT32: ("uint64_data", "<u4", 1),
    TensorProto.INT32: ("int32_data", "<i4", 1),
    TensorProto.INT16: ("int32_data", "<i2", 1),
    TensorProto.INT8: ("int32_data", "<i1", 1),
    **dict.fromkeys((TensorProto.UINT16, TensorProto.FLOAT16, TensorProto.BFLOAT16), ("int32_data", "<u2", 1)),
}
_MAX_DATA = 1_024  # bytes of a constant that are kept for shape inference
_IN_BYTES = ("int32_data", "|u1", 1)  # all other types; those of 4 and 2 bits are packed
_EXTERNAL_KEYS = frozenset(("location", "offset", "length", "checksum"))
_COMMON_FIELDS = frozenset(("dims", "data_type", "name"))


def plain_constant(tensor: TensorProto, folder: str, file: str) -> PlainConstant:
    """The constant in a message. Raises Unreadable if its elements do not fit its type and shape or are in two fields.

    file: the model's name, for sentences. folder: of the model, with its external files.
    """
    what = f"the constant {in_quotes(tensor.name)} of {in_quotes(file)}"
    if tensor.data_type != TensorProto.STRING and tensor.data_type not in ELEMENT_BITS:
        raise Unreadable(f"{what} has elements of the type {tensor.data_type}, which is not read")
    if any(size < 0 for size in tensor.dims):
        raise Unreadable(f"{what} has a negative size")
    if tensor.data_location == TensorProto.EXTERNAL:
        tensor = _with_external_data(tensor, folder, what)
    elif tensor.external_data:
        raise Unreadable(f"{what} names an external file, but is not in it")
    fields = filled(tensor) - _COMMON_FIELDS - {"data_location"}
    typed = _TYPED.get(tensor.data_type, _IN_BYTES)
    typed_field = "string_data" if tensor.data_type == TensorProto.STRING else typed[0]
    if (
        len(fields) > 1
        or not fields <= {typed_field, "raw_data"}
        or (typed_field == "string_data" and "raw_data" in fields)
    ):
        raise Unreadable(
            f"{what} has its elements in {' and '.join(sorted(fields))}; its type has them in {typed_field}"
        )
    data = _texts(tensor, what) if typed_field == "string_data" else _numbers(tensor, typed, what)
    kept_data = data if len(data) <= _MAX_DATA and typed_field != "string_data" else None
    return PlainConstant(tensor.data_type, tuple(tensor.dims), hashlib.sha256(data).hexdigest(), kept_data)


def as_tensor(attribute: AttributeProto) -> TensorProto:
    """The value of a Constant node with this attribute."""
    kind = attribute.type
    if kind == AttributeProto.TENSOR:
        return attribute.t
    if kind in (AttributeProto.STRING, AttributeProto.STRINGS):
        texts = [attribute.s] if kind == AttributeProto.STRING else list(attribute.strings)
        return TensorProto(data_type=TensorProto.STRING, dims=_dims(kind, texts), string_data=texts)
    if kind in (AttributeProto.INT, AttributeProto.INTS):
        numbers = [attribute.i] if kind == AttributeProto.INT else list(attribute.ints)
        return TensorProto(data_type=TensorProto.INT64, dims=_dims(kind, numbers), int64_data=numbers)
    reals = [attribute.f] if kind == AttributeProto.FLOAT else list(attribute.floats)
    return TensorProto(data_type=TensorProto.FLOAT, dims=_dims(kind, reals), float_data=reals)


def _dims(kind: int, elements: list[object] | list[int] | list[float] | list[bytes]) -> list[int]:
    return [] if kind in (AttributeProto.INT, AttributeProto.FLOAT, AttributeProto.STRING) else [len(elements)]


def _with_external_data(tensor: TensorProto, folder: str, what: str) -> TensorProto:
    keys = [entry.key for entry in tensor.external_data]
    if len(set(keys)) < len(keys) or not _EXTERNAL_KEYS.issuperset(keys):
        raise Unreadable(f"{what} has duplicate or unknown keys of external data")
    if filled(tensor) - _COMMON_FIELDS - {"data_location", "external_data"}:
        raise Unreadable(f"{what} has elements in the model and in an external file")
    loaded = TensorProto()
    loaded.CopyFrom(tensor)
    try:
        load_external_data_for_tensor(loaded, folder)
    except (ValueError, OSError, onnx.checker.ValidationError) as error:
        raise Unreadable(f"{what} cannot be read ({' '.join(str(error).split())[:160]})") from None
    loaded.ClearField("external_data")
    if "length" not in keys:  # then it takes as many bytes as its shape needs
        loaded.raw_data = loaded.raw_data[: _bytes_needed(tensor)]
    return loaded


def _texts(tensor: TensorProto, what: str) -> bytes:
    _check_count(len(tensor.string_data), math.prod(tensor.dims), what)
    return b"".join(struct.pack("<q", len(text)) + text for text in tensor.string_data)


def _numbers(tensor: TensorProto, typed: tuple[str, str, int], what: str) -> bytes:
    size = _bytes_needed(tensor)
    if tensor.HasField("raw_data"):
        _check_count(len(tensor.raw_data), size, f"{what}, in bytes,")
        if tensor.data_type == TensorProto.BOOL and tensor.raw_data.translate(None, b"\0\1"):
            raise Unreadable(f"{what} holds booleans, and has a byte that is neither 0 nor 1")
        return tensor.raw_data
    field, kind, numbers_each = typed
    numbers = getattr(tensor, field)
    expected = math.prod(tensor.dims) * numbers_each if ELEMENT_BITS[tensor.data_type] >= 8 else size
    _check_count(len(numbers), expected, what)
    if np.dtype(kind).kind in "iu":
        largest = 1 if tensor.data_type == TensorProto.BOOL else np.iinfo(kind).max
        if len(numbers) and not np.iinfo(kind).min <= min(numbers) <= max(numbers) <= largest:
            raise Unreadable(f"{what} has a number outside its type, which readers convert differently")
    return np.array(numbers, dtype=kind).tobytes()


def _bytes_needed(tensor: TensorProto) -> int:
    return -(-math.prod(map(int, tensor.dims)) * ELEMENT_BITS.get(tensor.data_type, 0) // 8)


def _check_count(count: int, expected: int, what: str) -> None:
    if count != expected:
        raise Unreadable(f"{what} has {count:,} elements, and its shape {expected:,}")


def external_file(location: str, folder: Path, file: str) -> Path:
    """The file with weights, which is in the model's folder. Raises Unreadable."""
    path = folder / location
    inside = location and "\0" not in location and path.resolve().is_relative_to(folder.resolve())
    if not inside or not path.is_file():
        raise Unreadable(f"the weights of {in_quotes(file)} in {in_quotes(location)} are not a file beside it")
    return path
