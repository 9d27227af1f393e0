"""Symbolic dims: naming unknown ones, and binding numbers to them for running."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from onnx import ModelProto, TensorShapeProto, TypeProto

from workbench.formats.io.checks import every_graph
from workbench.formats.io.errors import LoadError
from workbench.ir import Graph
from workbench.ir.types import Dim

BATCH, IMAGE, VOLUME, SEQUENCE = 1, 224, 32, 32
_BATCH_NAMES = re.compile(r"^(n|b|bs|batch.*|.*batch|.*batch_?size)$", re.IGNORECASE)
_SEQUENCE_NAMES = re.compile(r"seq|len|time|token|frame|step|sample|word|past|length", re.IGNORECASE)
_IMAGE_NAMES = re.compile(r"^(h|w|height|width|.*_(h|w)|.*(height|width).*)$", re.IGNORECASE)
_NAMELESS = ("", "?", "-1", "None", "unk")


def name_unknown_dims(model: ModelProto) -> None:
    """Name each unnamed or negative dim of an input `<input>_<axis>`, in place, as no other dim of the model is named.

    Such dims of outputs and intermediate values are cleared and inferred later.
    """
    declared = [value for graph in every_graph(model) for value in (*graph.input, *graph.output, *graph.value_info)] + [
        value for function in model.functions for value in function.value_info
    ]
    taken = {dim.dim_param.strip() for value in declared for dim in _dims(value.type)}
    for value in model.graph.input:
        for axis, dim in enumerate(_dims(value.type)):
            if _is_unknown(dim):
                dim.Clear()
                dim.dim_param = _unused(f"{_identifier(value.name)}_{axis}", taken)
                taken.add(dim.dim_param)
    for value in (*model.graph.output, *model.graph.value_info):
        for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
            if _is_unknown(dim):
                dim.Clear()


def _dims(type_: TypeProto) -> Sequence[TensorShapeProto.Dimension]:
    """The dims of a tensor, or of the tensors in a sequence or an optional."""
    match type_.WhichOneof("value"):
        case "tensor_type":
            return list(type_.tensor_type.shape.dim)
        case "sequence_type" | "optional_type" as kind:
            return _dims(getattr(type_, kind).elem_type)
    return ()


def _is_unknown(dim: TensorShapeProto.Dimension) -> bool:
    if dim.HasField("dim_value"):
        return dim.dim_value < 0
    return dim.dim_param.strip() in _NAMELESS


def _identifier(name: str) -> str:
    safe = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "input"
    return f"_{safe}" if safe[0].isdigit() else safe


def _unused(name: str, taken: set[str]) -> str:
    unique, count = name, 1
    while unique in taken:
        count += 1
        unique = f"{name}_{count}"
    return unique


def symbols(graph: Graph) -> tuple[str, ...]:
    """The symbolic dims of the inputs, in order of appearance."""
    results: dict[str, None] = {}
    for value in graph.inputs:
        results.update(dict.fromkeys(d for d in graph.shape(value) or () if isinstance(d, str)))
    return tuple(results)


def parse_dims(text: str) -> dict[str, int]:
    """Parse dims of a command or a link, "N=1,H=320". Raises LoadError naming the invalid part."""
    dims = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals or not name:
            raise LoadError(f"--dims takes name=number pairs such as N=1,H=320, not '{part[:80]}'")
        if name.strip() in dims:
            raise LoadError(f"dim '{name.strip()}' is given twice; give it one size")
        try:
            dims[name.strip()] = int(value)
        except ValueError:
            if ":" in name:
                raise LoadError(
                    f"'{part[:80]}' names a new symbol; use --free-dims (of `optimize` and `report`) for this"
                ) from None
            raise LoadError(f"dim '{name}' must be a whole number, not '{value[:80]}'") from None
    return dims


def bind_dims(graph: Graph, dims: Mapping[str, int] | None = None) -> dict[str, int]:
    """A number for every symbol of the inputs: the user's, else a default.

    Raises LoadError for an unknown name, or a number below 1.
    """
    known = symbols(graph)
    for name, value in (dims or {}).items():
        if name not in known:
            listed = f"it has {', '.join(known)}" if known else "all its dimensions are fixed"
            raise LoadError(f"the model has no dimension '{name}'; {listed}")
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise LoadError(f"dimension '{name}' must be a whole number of at least 1, not {value!r}")
        if value >= 2**63:
            raise LoadError(f"dimension '{name}' must be below 2^63, not a number of {value.bit_length():,} bits")
    bound = {name: _default_size(graph, name) for name in known}
    return {**bound, **(dims or {})}


def _default_size(graph: Graph, symbol: str) -> int:
    occurrences = [
        (shape, axis)
        for shape in (graph.shape(v) or () for v in graph.inputs)
        for axis, dim in enumerate(shape)
        if dim == symbol
    ]
    if _SEQUENCE_NAMES.search(symbol) and not _BATCH_NAMES.match(symbol):
        return SEQUENCE
    if _BATCH_NAMES.match(symbol) or any(_is_batch(shape, axis) for shape, axis in occurrences):
        return BATCH
    if _IMAGE_NAMES.match(symbol) or any(_is_spatial(shape, axis) for shape, axis in occurrences):
        return IMAGE
    return VOLUME if any(len(shape) == 5 for shape, _ in occurrences) else SEQUENCE


def _is_batch(shape: tuple[Dim, ...], axis: int) -> bool:
    """Whether the axis is the first of several, or the second of a recurrent state: layers, batch, features."""
    if len(shape) == 3 and axis == 1 and isinstance(shape[2], int):
        return isinstance(shape[0], int) and shape[0] <= 8
    return axis == 0 and len(shape) > 1


def _is_spatial(shape: tuple[Dim, ...], axis: int) -> bool:
    """Whether the axis is H or W of an image. The image is N H W C if only the last dim is fixed, else N C H W."""
    if len(shape) != 4:
        return False
    channels_last = isinstance(shape[3], int) and not isinstance(shape[1], int)
    return axis in ((1, 2) if channels_last else (2, 3))
