"""Conversion between ONNX's element types, numpy arrays and torch tensors.

Torch has no 2- and 4-bit integers: they are stored as int8 and uint8, 4-bit floats as float32. A string
tensor is a numpy array of objects, which only the fallback reads.
"""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np

from workbench.ir.types import Constant, DataType
from workbench.ops.lazy import torch

_IN_INT8 = {DataType.INT4, DataType.INT2}
_IN_UINT8 = {DataType.UINT4, DataType.UINT2}
_FLOAT8 = {
    DataType.FLOAT8E4M3FN: "float8_e4m3fn",
    DataType.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    DataType.FLOAT8E5M2: "float8_e5m2",
    DataType.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    DataType.FLOAT8E8M0: "float8_e8m0fnu",
}
_DTYPES = {  # names of torch's dtypes
    DataType.FLOAT: "float32",
    DataType.DOUBLE: "float64",
    DataType.FLOAT16: "float16",
    DataType.BFLOAT16: "bfloat16",
    DataType.UINT8: "uint8",
    DataType.INT8: "int8",
    DataType.UINT16: "uint16",
    DataType.INT16: "int16",
    DataType.UINT32: "uint32",
    DataType.INT32: "int32",
    DataType.UINT64: "uint64",
    DataType.INT64: "int64",
    DataType.BOOL: "bool",
    DataType.COMPLEX64: "complex64",
    DataType.COMPLEX128: "complex128",
    **_FLOAT8,
    DataType.FLOAT4E2M1: "float32",
    **dict.fromkeys(_IN_INT8, "int8"),
    **dict.fromkeys(_IN_UINT8, "uint8"),
}


class UnsupportedByTorch(ValueError):
    """Torch cannot compute this form of the operator; the message says why. The executor falls back."""


@cache
def torch_dtype(element_type: int) -> torch.dtype:
    """The torch dtype that holds ONNX's `element_type`; raises UnsupportedByTorch if there is none."""
    name = _DTYPES.get(DataType(element_type))
    if name is None:
        raise UnsupportedByTorch(f"torch has no element type {DataType(element_type).name}")
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def element_type_of(dtype: torch.dtype) -> DataType | None:
    """ONNX's element type of a torch dtype; None if it has none."""
    name = str(dtype).removeprefix("torch.")
    return next((element_type for element_type, dtype_name in _DTYPES.items() if dtype_name == name), None)


def to_tensor(array: np.ndarray) -> torch.Tensor | np.ndarray:
    """`array` as a CPU tensor that shares its memory if possible; arrays of strings are returned unchanged."""
    if array.dtype.kind in "OSU":
        return array
    if array.dtype.kind in "iu":
        array = array.view(array.dtype.str)  # C's long long is a distinct type in NumPy
    if not array.flags.c_contiguous or not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="), order="C")
    element_type = DataType.from_numpy(array.dtype)
    if element_type in _IN_INT8:
        return torch.from_numpy(array.astype(np.int8))
    if element_type in _IN_UINT8:
        return torch.from_numpy(array.astype(np.uint8))
    if element_type == DataType.FLOAT4E2M1:
        return torch.from_numpy(array.astype(np.float32))
    if element_type == DataType.BFLOAT16:
        return _shared(array.view(np.int16)).view(torch.bfloat16)
    if element_type in _FLOAT8:
        return _shared(array.view(np.uint8)).view(torch_dtype(element_type))
    if element_type not in _DTYPES:
        raise UnsupportedByTorch(f"torch has no element type {element_type.name}")
    return _shared(array)


def _shared(array: np.ndarray) -> torch.Tensor:
    with warnings.catch_warnings():
        # Weights are memory-mapped read-only; no operator writes into an operand.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def to_numpy(value: torch.Tensor | np.ndarray) -> np.ndarray:
    """A tensor as a numpy array; bfloat16, float16 and float8 are converted to float32."""
    if isinstance(value, np.ndarray):
        return value
    if value.is_floating_point() and value.dtype not in (torch.float32, torch.float64):
        value = value.float()
    return value.detach().cpu().numpy()


def constant_tensor(constant: Constant) -> torch.Tensor | np.ndarray:
    """A constant of a graph, or the tensor in an attribute, as `to_tensor` converts it."""
    return to_tensor(constant.numpy())
