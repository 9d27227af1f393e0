"""Tensors in .npz files, including element types that numpy's format does not have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx_ir

NAMES = "names"


def save_tensors(path: str | Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Write the tensors, in order and under any name."""
    arrays, notes = {}, []
    for index, (name, tensor) in enumerate(tensors.items()):
        array = np.asarray(tensor)
        if array.dtype == object:  # ONNX Runtime's strings
            array = array.astype(str)
        notes.append([name, array.dtype.name])
        arrays[str(index)] = array.view(_plain(array.dtype)) if _is_foreign(array.dtype) else array
    np.savez(path, **{NAMES: np.array(json.dumps(notes))}, **arrays)  # type: ignore[arg-type]


def load_tensors(path: str | Path) -> dict[str, np.ndarray]:
    """The tensors that `save_tensors` wrote."""
    with np.load(path, allow_pickle=False) as arrays:
        tensors = {}
        for index, (name, dtype) in enumerate(json.loads(str(arrays[NAMES]))):
            array = arrays[str(index)]
            tensors[name] = array if array.dtype.name == dtype else array.view(_named(dtype))
        return tensors


def _is_foreign(dtype: np.dtype) -> bool:
    """Whether numpy writes elements of this type as untyped bytes, such as bfloat16 and float8."""
    return dtype.isbuiltin == 2  # defined outside of numpy


def _plain(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"u{dtype.itemsize}")


def _named(name: str) -> np.dtype:
    """The element type of that name, from those that ONNX has."""
    results = {np.dtype(kind.numpy()).name: kind for kind in onnx_ir.DataType if kind != onnx_ir.DataType.UNDEFINED}
    return np.dtype(results[name].numpy())
