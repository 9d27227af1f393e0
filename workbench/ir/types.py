"""Types of values, and the constants that a graph carries.

A tensor's shape is a tuple of dims; a dim is a number, the name of a symbol
(the same size wherever it occurs), or None if unknown. A shape of None means
that the rank is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import onnx_ir
from onnx import SparseTensorProto, TypeProto

DataType = onnx_ir.DataType
Constant: TypeAlias = onnx_ir.TensorProtocol  # lazy: read from the file or memory map on access
MAX_AXES = 64  # the most axes of a NumPy array
Dim: TypeAlias = int | str | None
Shape: TypeAlias = tuple[Dim, ...] | None


@dataclass(frozen=True)
class TensorType:
    """A tensor of one element type; `shape` in elements."""

    dtype: DataType
    shape: Shape = None

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """The shape if every dim is a number, else None."""
        if self.shape is None:
            return None
        dims = tuple(d for d in self.shape if isinstance(d, int))
        return dims if len(dims) == len(self.shape) else None

    @property
    def elements(self) -> int | None:
        shape = self.static_shape
        return None if shape is None else math.prod(shape)

    @property
    def bytes(self) -> int | None:
        elements = self.elements
        if elements is None or self.dtype in (DataType.STRING, DataType.UNDEFINED):  # strings have no fixed size
            return None
        return (elements * self.dtype.bitwidth + 7) // 8

    def with_shape(self, shape: Shape) -> TensorType:
        return TensorType(self.dtype, shape)

    def permuted(self, perm: tuple[int, ...]) -> TensorType:
        """The type after a Transpose by `perm`."""
        if self.shape is None:
            return self
        return TensorType(self.dtype, tuple(self.shape[axis] for axis in perm))

    def __str__(self) -> str:
        name = self.dtype.name.lower()
        if self.shape is None:
            return name
        return f"{name}[{','.join('?' if d is None else str(d) for d in self.shape)}]"


@dataclass(frozen=True)
class OpaqueType:
    """A sequence, optional, sparse or map type: kept and written back, not analysed."""

    type: onnx_ir.TypeProtocol | TypeProto
    shape: onnx_ir.Shape | None = None

    def __str__(self) -> str:
        return " ".join(str(self.type).split())


ValueType: TypeAlias = TensorType | OpaqueType


def numpy_name(dtype: DataType) -> str:
    """The type as numpy calls it: "float32", "float16", "double", "bool"."""
    return "float32" if dtype == DataType.FLOAT else dtype.name.lower()


def constant(array: np.ndarray, name: str | None = None) -> Constant:
    """A constant with the elements of `array`."""
    return onnx_ir.Tensor(np.asarray(array), name=name)


def lazy_constant(compute: Callable[[], np.ndarray], dtype: DataType, shape: tuple[int, ...]) -> Constant:
    """A constant computed at each access, so that a derived weight takes no memory."""
    return onnx_ir.LazyTensor(lambda: onnx_ir.tensor(compute()), dtype=dtype, shape=onnx_ir.Shape(shape))


class MissingConstant(onnx_ir.LazyTensor):
    """A constant of which only name and type are known: reading its elements raises."""


class SparseConstant(onnx_ir.LazyTensor):
    """A constant that is dense here and that its file holds as a sparse tensor.

    message: that tensor, its elements inside.
    """

    def __init__(self, dense: Constant, message: SparseTensorProto) -> None:
        super().__init__(lambda: dense, dtype=dense.dtype, shape=onnx_ir.Shape(constant_shape(dense)))
        self.message = message


def rearranged_constant(
    tensor: Constant, rearrange: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...]
) -> Constant:
    """A constant with the elements of another in another order, at each access; missing if that one is."""
    kind = MissingConstant if isinstance(tensor, MissingConstant) else onnx_ir.LazyTensor

    def read() -> Constant:
        return onnx_ir.tensor(np.ascontiguousarray(rearrange(tensor.numpy())))

    return kind(read, dtype=tensor.dtype, shape=onnx_ir.Shape(shape))


def constant_shape(tensor: Constant) -> tuple[int, ...]:
    return tuple(map(int, tensor.shape))  # type: ignore[arg-type]


def constant_type(tensor: Constant) -> TensorType:
    return TensorType(tensor.dtype, constant_shape(tensor))
