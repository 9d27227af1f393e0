"""Inputs of a graph: seeded by type, shape and role, or the user's own."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from workbench.backends.memory import available_bytes, in_gigabytes
from workbench.backends.nontensor_inputs import (
    tensors_of_inputs,
    type_of_input,
)
from workbench.ir import DataType, Graph
from workbench.ir.narrowed_io import INPUT_TYPE, OUTPUT_TYPE, type_between
from workbench.ir.permuted_io import OUTPUT_ORDER, permutation_between
from workbench.ir.types import MAX_AXES
from workbench.run.input_kinds import INPUT_KINDS, Fill, noise
from workbench.run.input_roles import Use, use_of
from workbench.run.npz import InputError, read_arrays, required_tensors
from workbench.support.files import replacing

Tensors = dict[str, np.ndarray]

MOSTLY = 0.9  # share of ones in a seeded mask
SAMPLE_RATE = 16000
SAMPLE_RATE_NAMES = ("sr", "sample_rate", "sampling_rate", "samplerate")
MAX_INTEGER = 9  # largest random integer of unknown role
SENTENCE = "The quick brown fox jumps over the lazy dog."


# ---- dims -------------------------------------------------------------------------


def dim_name(value: str, axis: int, dim: int | str | None) -> str | None:
    """The name under which a dim of input `value` is bound; None for a number.

    An unnamed dim is named after its input and axis.
    """
    if isinstance(dim, str) and dim:
        return dim
    return f"{value}_{axis}" if dim is None or isinstance(dim, str) or dim < 0 else None


def default_dim(rank: int, axis: int) -> int:
    """The default of a free dim: one item, 224 pixels, 32 of anything else."""
    if axis == 0:
        return 1
    return 224 if rank == 4 else 32


def bound_dims(graph: Graph, dims: Mapping[str, int] | None = None) -> dict[str, int]:
    """The number for every free dim of the inputs: from `dims`, `graph.dims`, or the default."""
    sizes = {**graph.dims, **(dims or {})}
    bound: dict[str, int] = {}
    for value in graph.inputs:
        type_ = type_of_input(graph, value)
        shape = () if type_ is None else type_.shape or ()
        for axis, dim in enumerate(shape):
            name = dim_name(value, axis, dim)
            if name is not None and name not in bound:
                bound[name] = _dim_value(name, sizes, default_dim(len(shape), axis))
    return bound


def _dim_value(name: str, sizes: Mapping[str, int], default: int) -> int:
    if name in sizes:
        return sizes[name]
    parts = [part.strip() for part in name.split("+")]  # "past_length + 1"
    if len(parts) > 1 and all(part in sizes or part.isdigit() for part in parts):
        return sum(int(sizes.get(part, part)) for part in parts)
    return default


def input_shape(graph: Graph, value: str, bound: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of input `value`, or of the tensors in it, under the bound dims. Raises InputError if it has none."""
    tensor_type = type_of_input(graph, value)
    if tensor_type is None:
        raise InputError(f"Input '{value}' has type {graph.type(value)}; models with such inputs cannot be run here.")
    if tensor_type.shape is None:
        raise InputError(f"Input '{value}' has no known rank; give its values as an .npz file.")
    if len(tensor_type.shape) > MAX_AXES:
        raise InputError(f"Input '{value}' has {len(tensor_type.shape)} axes; at most {MAX_AXES} can be run.")
    sizes = bound_sizes(value, tensor_type.shape, bound)
    for axis, size in enumerate(sizes):
        if size < 0:
            name = dim_name(value, axis, tensor_type.shape[axis])
            raise InputError(f"Dimension '{name}' of input '{value}' is bound to {size}; give a number of at least 0.")
    return sizes


def bound_sizes(value: str, shape: Sequence[int | str | None], bound: Mapping[str, int]) -> tuple[int, ...]:
    """The sizes of input `value` with its free dims bound."""
    sizes = []
    for axis, dim in enumerate(shape):
        name = dim_name(value, axis, dim)
        sizes.append(int(dim) if name is None else bound[name])  # type: ignore[arg-type]
    return tuple(sizes)


class TensorForm(NamedTuple):
    """How an input or output is changed: the order of its axes, and its element type as a number of ONNX.

    None: it stays as it is.
    """

    order: tuple[int, ...] | None = None
    dtype: int | None = None


def fed_inputs(tensors: Mapping[str, np.ndarray], first: Graph, second: Graph) -> Tensors:
    """The inputs of `first` as `second` takes them: with axes in its orders, floats in its element types."""
    orders = {value: permutation_between(first, second, value) for value in tensors}
    dtypes = {value: type_between(first, second, value, INPUT_TYPE) for value in tensors}
    return in_forms(tensors, {value: TensorForm(orders[value], dtypes[value]) for value in tensors})


def output_forms(first: Graph, second: Graph) -> dict[str, TensorForm]:
    """For each output, the form in which `first` gives it, if `second` gives it in another."""
    results = {}
    for value in first.outputs:
        order = permutation_between(second, first, value, OUTPUT_ORDER)
        form = TensorForm(order, type_between(second, first, value, OUTPUT_TYPE))
        if form != TensorForm():
            results[value] = form
    return results


def in_forms(tensors: Mapping[str, np.ndarray], forms: Mapping[str, TensorForm]) -> Tensors:
    """The tensors, those in `forms` changed to them."""
    return {name: _in_form(tensor, *forms.get(name, ())) for name, tensor in tensors.items()}


def _in_form(tensor: np.ndarray, order: Sequence[int] | None = None, dtype: int | None = None) -> np.ndarray:
    permuted = tensor if order is None else np.ascontiguousarray(tensor.transpose(order))
    return permuted if dtype is None else permuted.astype(DataType(dtype).numpy())


# ---- seeded ------------------------------------------------------------------------


def seed_inputs(
    graph: Graph,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    max_integer: int = MAX_INTEGER,
    floats: Fill = noise,
) -> Tensors:
    """A value for every input of the graph, the same for the same seed.

    Floats are standard normal; `floats` gives others to inputs of several elements. Integers that index a table stay
    within it. Masks are mostly ones, and lengths fit the other inputs. A sample rate is 16000. Other integers are from
    0 to `max_integer`. An input with a default has its default. Each input has its own random stream, so that adding
    an input does not change the others.

    dims: overrides `graph.dims`.
    Raises InputError if an input is not a tensor, or if the inputs alone exceed the machine's memory.
    """
    bound = bound_dims(graph, dims)
    shapes = {name: input_shape(graph, value, bound) for name, value in tensors_of_inputs(graph)}
    _refuse_too_large(graph, shapes)
    length = _common_length(shapes)
    tensors: Tensors = {}
    for name, value in tensors_of_inputs(graph):
        type_ = type_of_input(graph, value)
        assert type_ is not None  # checked by input_shape
        if value in graph.kept.defaults:
            tensors[value] = graph.kept.defaults[value].numpy()
            continue
        limits = (length, max_integer)
        tensors[name] = _seeded(
            value, type_.dtype, shapes[name], use_of(graph, value), limits, _stream(seed, name), floats
        )
    return tensors


def inputs_of_kinds(
    graph: Graph,
    numbers: Iterable[int],
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    max_integer: int = MAX_INTEGER,
) -> Iterator[Tensors]:
    """Seeded inputs of the kinds of `INPUT_KINDS` with these numbers, which begin again after the last one.

    The rest as in `seed_inputs`, the seed being that of number 0. A single boolean, which may choose a branch, is
    another one in every second.
    """
    kinds = list(INPUT_KINDS.values())
    for number in numbers:
        inputs = seed_inputs(graph, dims, seed + number, max_integer, kinds[number % len(kinds)])
        for name, value in tensors_of_inputs(graph):
            if _is_choice(graph, value, inputs[name]):
                first = _stream(seed, name).random() < 0.5
                inputs[name] = np.full(inputs[name].shape, first != bool(number % 2))
        yield inputs


def _is_choice(graph: Graph, value: str, tensor: np.ndarray) -> bool:
    is_single = tensor.dtype == bool and tensor.size == 1
    return is_single and value not in graph.kept.defaults and use_of(graph, value).kind != "mask"


def _stream(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def _refuse_too_large(graph: Graph, shapes: Mapping[str, tuple[int, ...]]) -> None:
    free = available_bytes()
    for value, shape in shapes.items():
        type_ = graph.tensor_type(value)
        need = type_.with_shape(shape).bytes if type_ is not None else None
        if need is not None and need > free:
            raise InputError(
                f"Input '{value}' of shape {list(shape)} alone needs {in_gigabytes(need)}, and {in_gigabytes(free)} "
                "are free; bind its dimensions to smaller numbers."
            )


def _common_length(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """A length that fits every input: the smallest dim above 1, the first axis excepted."""
    sizes = [dim for shape in shapes.values() for dim in shape[1:] if dim > 1]
    return min(sizes, default=1)


def _seeded(
    name: str,
    dtype: DataType,
    shape: tuple[int, ...],
    use: Use,
    limits: tuple[int, int],
    stream: np.random.Generator,
    floats: Fill,
) -> np.ndarray:
    """limits: the longest length that fits all inputs, and the largest integer of unknown role."""
    length, max_integer = limits
    if dtype == DataType.STRING:
        return np.full(shape, SENTENCE)
    kind = dtype.numpy()
    if use.kind == "index":
        return np.asarray(stream.integers(0, use.size, shape), kind)
    is_integer, lower_name = dtype.is_integer(), name.lower()
    if is_integer and lower_name in SAMPLE_RATE_NAMES:
        return np.full(shape, SAMPLE_RATE, kind)
    if is_integer and "len" in lower_name:
        return np.asarray(stream.integers(max(1, length // 2), length + 1, shape), kind)
    if use.kind == "mask":
        return _mask(shape, stream).astype(kind)
    if dtype == DataType.BOOL:
        return np.asarray(stream.random(shape) < 0.5)
    if not is_integer:
        fill = floats if math.prod(shape) > 1 else noise
        with np.errstate(over="ignore"):
            return np.asarray(fill(shape, stream)).astype(kind)
    if use.kind == "size":
        return np.ones(shape, kind)
    if use.kind == "target":  # of a Reshape: -1 fits any number of elements
        return (
            np.concatenate([-np.ones(shape, kind)[:1], np.ones(shape, kind)[1:]])
            if len(shape) == 1
            else np.ones(shape, kind)
        )
    if use.kind == "parts" and len(shape) == 1 and shape[0]:
        parts = np.sort(stream.choice(np.arange(1, use.size), shape[0] - 1, replace=use.size <= shape[0]))
        return np.asarray(np.diff(np.concatenate([[0], parts, [use.size]])), kind)
    if dtype.itemsize == 1:  # pixels, or quantized values
        range_ = np.iinfo(kind)
        return np.asarray(stream.integers(range_.min, range_.max + 1, shape), kind)
    return np.asarray(stream.integers(0, max_integer + 1, shape), kind)


def _mask(shape: tuple[int, ...], stream: np.random.Generator) -> np.ndarray:
    """Random zeros and mostly ones; the first of every row is a one, so that no attention row is empty."""
    mask = np.asarray(stream.random(shape) < MOSTLY)
    if mask.ndim == 0:
        return np.ones((), bool)
    mask[..., :1] = True
    return mask


# ---- the user's own ------------------------------------------------------------------


def read_inputs(path: str | Path, graph: Graph) -> Tensors:
    """The user's inputs from an .npz file, cast to the model's element types where that is lossless.

    Raises InputError for a file that is not an .npz of plain arrays, and for
    names, element types, ranks or fixed dims that do not fit the model.
    """
    arrays = read_arrays(Path(path), graph)
    tensors = {name: _fitted(graph, value, arrays[name]) for name, value in required_tensors(graph, arrays).items()}
    dims_of(graph, tensors)
    return tensors


def read_input_files(path: str | Path, graph: Graph) -> Iterator[Tensors]:
    """The user's inputs of an .npz file, or of each in a folder, by name. Raises InputError, also if there is none."""
    files = sorted(Path(path).glob("*.npz")) if Path(path).is_dir() else [path]
    if not files:
        raise InputError(f"The folder '{path}' has no .npz file; give one for each input.")
    for file in files:
        yield read_inputs(file, graph)


def write_inputs(path: str | Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Write an .npz file that `read_inputs` reads; types that numpy's format lacks are written as float32.

    Raises OSError.
    """
    # numpy.savez has arguments of its own, whose names inputs may have.
    with replacing(path) as draft, zipfile.ZipFile(draft, "w") as archive:
        for name, tensor in tensors.items():
            array = np.asarray(tensor)
            known = array.astype(str) if array.dtype == object else array
            plain = known if known.dtype.isbuiltin or known.dtype.kind in "SU" else known.astype(np.float32)
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, plain, allow_pickle=False)


def dims_of(graph: Graph, tensors: Mapping[str, np.ndarray]) -> dict[str, int]:
    """The numbers that the tensors' shapes give to free dims. Raises InputError if two disagree."""
    results: dict[str, tuple[int, str]] = {}
    for value, tensor in tensors.items():
        for axis, dim in enumerate(graph.shape(value) or ()):
            name = dim_name(value, axis, dim)
            if name is None:
                continue
            size, first = results.setdefault(name, (tensor.shape[axis], value))
            if size != tensor.shape[axis]:
                raise InputError(
                    f"Dimension '{name}' is {size} in input '{first}' and {tensor.shape[axis]} in input '{value}'; "
                    "make them agree."
                )
    return {name: size for name, (size, _) in results.items()}


def _fitted(graph: Graph, value: str, array: np.ndarray) -> np.ndarray:
    type_ = type_of_input(graph, value)
    assert type_ is not None  # checked by read_arrays
    return _cast(value, type_.dtype, array)


def _cast(value: str, dtype: DataType, array: np.ndarray) -> np.ndarray:
    """`array` in the element type `dtype`: floats as floats, integers as any type that represents them."""
    if dtype == DataType.STRING:
        if array.dtype.kind not in "US":
            raise InputError(f"Input '{value}' has type {array.dtype}; the model takes strings.")
        return array.astype(str)
    target = np.dtype(dtype.numpy())
    if array.dtype == target:
        return array
    is_integer = array.dtype.kind in "biu"
    if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and (dtype.is_integer() or dtype == DataType.BOOL)):
        raise InputError(f"Input '{value}' has type {array.dtype}; the model takes {dtype.name.lower()}.")
    if is_integer and dtype == DataType.BOOL and array.size and not set(np.unique(array).tolist()) <= {0, 1}:
        raise InputError(f"Input '{value}' has numbers besides 0 and 1; the model takes bool.")
    if is_integer and dtype.is_integer() and array.size:
        limits = np.iinfo(target)
        if array.min() < limits.min or array.max() > limits.max:
            raise InputError(f"Input '{value}' has numbers that do not fit {dtype.name.lower()}.")
    return array.astype(target)
