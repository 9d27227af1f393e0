"""Importing a library without a slow dependency that may not be needed."""

from __future__ import annotations

import importlib
import os
import sys
import types
from typing import Any

_BLAS_THREADS = "OPENBLAS_NUM_THREADS"


def import_without(library: str, unused: str) -> None:
    """Import `library`, and defer its imports of `unused` until they are used.

    (importlib's LazyLoader does not outlast a second `import` statement before Python 3.12.)
    """
    if unused in sys.modules:
        return
    importing = True

    def attribute_of(name: str) -> Any:
        if importing:
            return lambda *arguments: getattr(importlib.import_module(unused), name)(*arguments)
        return getattr(importlib.import_module(unused), name)

    placeholder = types.ModuleType(unused)
    placeholder.__getattr__ = attribute_of  # type: ignore[method-assign]
    sys.modules[unused] = placeholder
    importlib.import_module(library)
    importing = False
    del sys.modules[unused]


def import_onnx_ir() -> None:
    """Import onnx_ir without sympy, which takes most of the time that a process needs to start.

    It imports NumPy, whose OpenBLAS starts a spinning thread on each core: 0.05 s of processor time at each start. One
    thread suffices, since these processes compute no matrix products by NumPy.
    """
    before = os.environ.get(_BLAS_THREADS)
    os.environ[_BLAS_THREADS] = "1"
    import_without("onnx_ir", unused="sympy")
    if before is None:  # child processes do not inherit it
        del os.environ[_BLAS_THREADS]
    else:
        os.environ[_BLAS_THREADS] = before
