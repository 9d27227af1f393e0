"""Whether torch's compiler, inductor, finds what it needs, without importing torch."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from workbench.support.files import cache_folder

_TOOLKIT = Path("/usr/local/cuda")
_COMPILED = ("fused", "torch-compile", "torch-compile-autotuned")


def compiler_note(backends: Sequence[str], device: str) -> str | None:
    """What the absence of a compiler costs these backends, to be said before they run; None if nothing."""
    lacks = missing_compiler(device)
    if lacks is None or not set(backends) & set(_COMPILED):
        return None
    return (
        f"torch's compiler cannot be used: {lacks}. Without it torch-compile runs operator by operator, and fused "
        "computes in fewer calls only what oneDNN does on a CPU, convolutions and products with what is behind them; "
        "its other groups stay operator by operator, in place where that is faster."
    )


def missing_compiler(device: str) -> str | None:
    """What inductor lacks for a device, in words, and how to get it; None if nothing.

    It writes C++ for a CPU and Triton for a GPU (https://docs.pytorch.org/docs/stable/torch.compiler_faq.html).
    """
    if device.startswith("cuda"):
        return None if importlib.util.find_spec("triton") else "Triton is not installed (pip install triton)"
    name = os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")
    return None if shutil.which(name) else f"there is no C++ compiler '{name}' (install one, or name yours in CXX)"


def missing_toolkit(device: str) -> str | None:
    """What a compiled package lacks for a device, in words; None if nothing.

    Its C++ includes CUDA's headers, of which torch's wheels bring only a part. torch looks for them in these places.
    """
    named = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or shutil.which("nvcc") or _TOOLKIT.exists()
    is_missing = device.startswith("cuda") and not named
    return "there is no CUDA toolkit (install one, or name its folder in CUDA_HOME)" if is_missing else None


def enable_compile_cache() -> None:
    """Have inductor keep what it compiles in the user's cache, not in the system's folder for temporary files."""
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_folder() / "inductor"))
