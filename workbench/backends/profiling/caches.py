"""Emptying a device's cache before a run, so that weights and inputs are read from memory.

As triton.testing.do_bench does: a buffer larger than the last-level cache is written.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from workbench.support.optional_torch import torch_is_available

_CPU_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_DEFAULT_CACHE_BYTES = 64 * 2**20  # if the system does not report it
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def last_level_cache_bytes(device: str) -> int:
    """The size of the last-level cache, in bytes."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.get_device_properties(device).L2_cache_size or _DEFAULT_CACHE_BYTES
    try:
        sizes = [_size(path.read_text().strip()) for path in _CPU_CACHES.glob("index*/size")]
    except (OSError, ValueError):  # the system reports no size, or in an unknown format
        return _DEFAULT_CACHE_BYTES
    return max(sizes, default=_DEFAULT_CACHE_BYTES)


def _size(text: str) -> int:
    return int(text[:-1]) * _UNITS[text[-1]] if text[-1:] in _UNITS else int(text)


def flusher(device: str) -> Callable[[], None]:
    """A function that evicts everything from the device's cache."""
    if not torch_is_available():  # a CPU then
        written = np.empty(2 * last_level_cache_bytes(device), np.uint8)
        return lambda: written.fill(1)
    import torch

    buffer = torch.empty(2 * last_level_cache_bytes(device), dtype=torch.uint8, device=device)

    def flush() -> None:
        buffer.fill_(1)
        if buffer.is_cuda:
            torch.cuda.synchronize(buffer.device)

    return flush
