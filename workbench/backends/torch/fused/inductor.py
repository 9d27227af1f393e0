"""Groups compiled by torch's inductor: C++ on a CPU, Triton on a GPU.

Compiled code is kept in a folder of the user's cache, so that another run of the same group on the same versions
takes a fraction of a second (`FxGraphCache` in torch/_inductor/codecache.py).
"""

from __future__ import annotations

import ctypes
import logging
import time
from collections.abc import Sequence
from typing import Any

from workbench.backends.failures import first_line
from workbench.backends.torch.executor.compilers import enable_compile_cache, missing_compiler
from workbench.backends.torch.executor.program import Program
from workbench.backends.torch.fused.lowering import Lowering, NoLowering
from workbench.backends.torch.fused.tracing import trace_group


def compile_group(body: Program, operands: Sequence[Any], device: str) -> Lowering:
    """The program of a group as kernels for these operands' shapes, strides and types. Raises NoLowering.

    device: "cpu", "cuda" or "cuda:N".
    """
    missing = missing_compiler(device)
    if missing is not None:
        raise NoLowering(missing)
    enable_compile_cache()
    import torch
    from torch._inductor import config, metrics
    from torch._inductor.compile_fx import inductor_metrics_log
    from torch._inductor.utils import run_and_get_code

    start = time.perf_counter()
    traced = trace_group(body, operands)
    inductor_metrics_log.setLevel(logging.INFO)  # else bytes are not counted
    metrics.reset()
    try:
        with config.patch(compile_threads=1):
            function, sources = run_and_get_code(torch._inductor.compile, traced.module, traced.tensors)
        function(*traced.tensors)
    except Exception as error:  # compilers may raise any exception
        raise NoLowering(f"inductor cannot compile it: {first_line(error)}") from error
    count = metrics.generated_kernel_count
    return Lowering(
        "inductor",
        f"{count} kernel{'' if count == 1 else 's'} of {'C++' if device == 'cpu' else 'Triton'}",
        lambda call, *values: tuple(function(*values)),
        traced.positions,
        kernels=count,
        bytes=metrics.num_bytes_accessed,
        compile_s=time.perf_counter() - start,
        source="\n".join(sources),
    )


def compile_library(source: str) -> ctypes.CDLL:
    """A library of C++ source, compiled for the instructions of this CPU. Raises NoLowering."""
    missing = missing_compiler("cpu")
    if missing is not None:
        raise NoLowering(missing)
    enable_compile_cache()
    from torch._inductor.codecache import CppCodeCache

    try:
        library: ctypes.CDLL = CppCodeCache.load(source)
    except Exception as error:  # compilers may raise any exception
        raise NoLowering(f"the compiler refuses: {first_line(error)}") from error
    return library
