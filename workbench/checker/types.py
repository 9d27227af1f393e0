"""Types of values as plain tuples: read from a model, compared, and written out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from onnx import TensorProto, TypeProto, ValueInfoProto

from workbench.checker.outcome import Unreadable, escaped

_NAMELESS = ("", "?", "-1", "None", "unk")
# A tensor: the number of its element type and its dims (numbers, names or None; None for an unknown rank). A sequence,
# optional or map: its kind and its element type. None: nothing is declared.
PlainType = Any


def declared_type(value: ValueInfoProto, file: str = "") -> PlainType:
    return plain_type(value.type, file)


def plain_type(proto: TypeProto, file: str) -> PlainType:
    kind = proto.WhichOneof("value")
    if kind is None:
        return None
    if kind == "tensor_type":
        return _tensor(proto.tensor_type)
    if kind in ("sequence_type", "optional_type"):
        return (kind, plain_type(getattr(proto, kind).elem_type, file))
    if kind == "map_type":
        return (kind, (proto.map_type.key_type, plain_type(proto.map_type.value_type, file)))
    raise Unreadable(f"'{escaped(file)}' has a value of the type {kind}, which is not read")


def _tensor(tensor: TypeProto.Tensor) -> PlainType:
    if not tensor.elem_type:
        return None
    if not tensor.HasField("shape"):
        return (tensor.elem_type, None)
    dims = ((d.WhichOneof("value"), d) for d in tensor.shape.dim)
    return (tensor.elem_type, tuple(None if which is None else getattr(d, which) for which, d in dims))


def is_tensor(type_: PlainType) -> bool:
    return type_ is not None and isinstance(type_[0], int)


def differ_in_width(one: PlainType, other: PlainType) -> bool:
    """Whether one of two tensors is in float32, and the other in float16 or bfloat16."""
    if not is_tensor(one) or not is_tensor(other) or one[0] == other[0]:
        return False
    widths = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16}
    return TensorProto.FLOAT in (one[0], other[0]) and {one[0], other[0]} <= widths


def with_numbers(type_: PlainType, dims: Mapping[str, int]) -> PlainType:
    """The type with numbers in place of symbols."""
    if not is_tensor(type_) or type_[1] is None:
        return type_
    return (type_[0], tuple(dims.get(dim, dim) if isinstance(dim, str) else dim for dim in type_[1]))


def symbol_of(value: str, axis: int, dim: int | str | None) -> str:
    """The symbol of a size of an input in a certificate: its name, or one made of input and axis; "" for a number."""
    if isinstance(dim, int) and dim > 0:
        return ""
    if isinstance(dim, str) and dim.strip() not in _NAMELESS:
        return dim
    name = re.sub(r"\W+", "_", value, flags=re.ASCII).strip("_") or "input"
    return f"_{name}_{axis}" if name[0].isdigit() else f"{name}_{axis}"


def sizes_of(type_: PlainType) -> tuple[int, ...] | None:
    """The shape, if all of it is known."""
    if not is_tensor(type_) or type_[1] is None or not all(isinstance(dim, int) and dim >= 0 for dim in type_[1]):
        return None
    results: tuple[int, ...] = type_[1]
    return results


def contradiction(declared: PlainType, inferred: PlainType) -> bool:
    """Whether no value has both types."""
    if declared is None or inferred is None:
        return False
    if is_tensor(declared) != is_tensor(inferred) or declared[0] != inferred[0]:
        return True
    if not is_tensor(declared) or declared[1] is None or inferred[1] is None:
        return False
    if len(declared[1]) != len(inferred[1]):
        return True
    pairs = zip(declared[1], inferred[1], strict=True)
    return any(isinstance(one, int) and isinstance(other, int) and one != other for one, other in pairs)


def symbols_meant(declared: PlainType, inferred: PlainType) -> dict[str, int]:
    """For each symbol of the declared type, the number that the inferred type has in its place."""
    if not is_tensor(declared) or not is_tensor(inferred) or declared[1] is None or inferred[1] is None:
        return {}
    pairs = zip(declared[1], inferred[1], strict=False)
    return {one: other for one, other in pairs if isinstance(one, str) and isinstance(other, int)}


def says_more(declared: PlainType, inferred: PlainType) -> bool:
    """Whether the declared type has a number or symbol that the inferred one does not have."""
    if not is_tensor(declared) or declared[1] is None:
        return declared is not None and inferred is None
    if not is_tensor(inferred) or inferred[1] is None:
        return True
    return any(one is not None and one != other for one, other in zip(declared[1], inferred[1], strict=False))


def in_words(type_: PlainType) -> str:
    if type_ is None:
        return "of no declared type"
    if not is_tensor(type_):
        return f"{escaped(str(type_[0]))} of {in_words(type_[1]) if type_[0] != 'map_type' else 'pairs'}"
    kinds = {number: name.lower() for name, number in TensorProto.DataType.items()}
    name = kinds.get(type_[0], str(type_[0]))
    if type_[1] is None:
        return f"{name} of any shape"
    return f"{name}[{', '.join('?' if dim is None else escaped(str(dim), 40) for dim in type_[1])}]"
