"""Outputs whose element type numpy lacks, such as bfloat16 and int4: ONNX Runtime gives no array of them, only bits."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir

# By ONNX Runtime's name of the output's type. Of float8e4m3fn it gives an array, of uint8.
UNREADABLE = {
    f"tensor({dtype.name.lower()})": dtype
    for dtype in onnx_ir.DataType
    if dtype != onnx_ir.DataType.UNDEFINED and np.dtype(dtype.numpy()).isbuiltin == 2
}


def run_by_bits(session: Any, fed: Mapping[str, Any]) -> list[Any]:
    """The outputs of a session, in order, on the CPU; sequences and inputs that are none are not possible here."""
    import onnxruntime as ort

    values = {
        name: value if isinstance(value, ort.OrtValue) else ort.OrtValue.ortvalue_from_numpy(value)
        for name, value in fed.items()
    }
    types = [output.type for output in session.get_outputs()]
    results = session.run_with_ort_values(None, values)
    return [
        _array(result, UNREADABLE[type_]) if type_ in UNREADABLE else result.numpy()
        for result, type_ in zip(results, types, strict=True)
    ]


def _array(value: Any, dtype: onnx_ir.DataType) -> np.ndarray:
    shape = value.shape()
    size = math.ceil(math.prod(shape) * dtype.itemsize)
    bits = ctypes.string_at(value.data_ptr(), size) if size else b""
    return onnx.numpy_helper.to_array(onnx.TensorProto(dims=shape, data_type=dtype.value, raw_data=bits))
