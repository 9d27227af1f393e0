"""What a device can do at most, measured: the roofs of the roofline model (Williams, Waterman, Patterson 2009)."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

from workbench.run.caches import last_cache_bytes

_REPEATS = 7
_LONG_ENOUGH_MS = 20.0
_SMALLEST, _LARGEST = 256, 16384  # sides of the matrices


def ceilings(device: str, dtype: str) -> dict[str, float]:
    """`flops_per_s` of a large matrix product in `dtype`; `bytes_per_s`, read and written, of a copy beyond caches.

    dtype: "float32", "float16", "bfloat16"; "mixed" is the one that torch.autocast takes on the device.
    """
    import torch

    reduced = "float16" if device.startswith("cuda") else "bfloat16"
    with torch.inference_mode():
        best = _best_product(device, reduced if dtype == "mixed" else dtype)
        return {"flops_per_s": best, "bytes_per_s": _best_copy(device)}


@cache  # of the worker's life; a device's roofs stay
def _best_product(device: str, dtype: str) -> float:
    import torch

    kind, side = getattr(torch, dtype), _SMALLEST
    while True:
        first, second = (torch.ones((side, side), dtype=kind, device=device) for _ in range(2))
        product = lambda: torch.mm(first, second)  # noqa: B023, E731
        product()
        milliseconds = _best_ms(product, device)
        if milliseconds >= _LONG_ENOUGH_MS or side >= _LARGEST:
            return 2 * side**3 / (milliseconds / 1e3)
        side *= 2


@cache
def _best_copy(device: str) -> float:
    import torch

    source = torch.ones(4 * last_cache_bytes(device), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / (_best_ms(lambda: target.copy_(source), device) / 1e3)


def _best_ms(run: Callable[[], Any], device: str) -> float:
    import torch

    best = float("inf")
    for _ in range(_REPEATS):
        start = time.perf_counter()
        run()
        if device.startswith("cuda"):
            torch.cuda.synchronize(device)
        best = min(best, (time.perf_counter() - start) * 1e3)
    return best
