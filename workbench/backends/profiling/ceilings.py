"""The measured peak rates of a device: the roofs of the roofline model (Williams, Waterman, Patterson 2009)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from workbench.backends.profiling.caches import last_level_cache_bytes
from workbench.support.optional_torch import torch_is_available
from workbench.support.tf32 import tf32

_REPEATS, _LATER_REPEATS = 7, 2  # runs of the first measurement of a rate, and of later ones
_BUDGET_S = 0.5  # the time limit of more runs: copying more than a large cache takes a tenth of a second
_VALID_S = 60.0  # how long a rate is valid, since measuring takes longer than short jobs
_MIN_PRODUCT_MS = 20.0
_MIN_SIDE, _MAX_SIDE = 256, 16384  # sides of the matrices
_best: dict[
    tuple[str, str], float
] = {}  # the highest rates since the worker started; the machine may have been busy at times
_measured_at: dict[tuple[str, str], float] = {}  # the last measurements, by the monotonic clock
# The side of matrices whose product takes long enough, by device and element type.
_sides: dict[tuple[str, str], int] = {}


@dataclass(frozen=True)
class Roofs:
    """Peak rates: operations of a large matrix product; bytes read and written by a copy larger than the
    caches."""

    flops_per_s: float
    bytes_per_s: float


def ceilings(device: str, dtypes: Sequence[str]) -> dict[str, Roofs | None]:
    """The roofs by dtype.

    dtypes: "float32", "tf32", "float16", "bfloat16" or another type of torch's; "mixed" is the type that
    torch.autocast uses on the device. Both rates are measured again after a minute, and the best so far are returned.
    None if there is too little memory, no product in that type, or no torch.
    """
    if not torch_is_available():
        return dict.fromkeys(dtypes)
    import torch

    reduced = "float16" if device.startswith("cuda") else "bfloat16"
    with torch.inference_mode():
        copy_rate = _highest(device, "copy", _copy_rate)
        rates = {dtype: _highest(device, reduced if dtype == "mixed" else dtype, _product_rate) for dtype in dtypes}
    return {
        dtype: None if rate is None or copy_rate is None else Roofs(rate, copy_rate) for dtype, rate in rates.items()
    }


def _highest(device: str, kind: str, rate: Callable[[str, str, int], float]) -> float | None:
    if (device, kind) in _best and time.monotonic() - _measured_at[device, kind] < _VALID_S:
        return _best[device, kind]
    try:
        result = rate(device, kind, _LATER_REPEATS if (device, kind) in _best else _REPEATS)
    except (RuntimeError, MemoryError):
        return _best.get((device, kind))
    _best[device, kind] = max(result, _best.get((device, kind), 0.0))
    _measured_at[device, kind] = time.monotonic()
    return _best[device, kind]


def _product_rate(device: str, dtype: str, repeats: int) -> float:
    with tf32(dtype == "tf32") if device.startswith("cuda") else nullcontext():
        return _rate_of_products(device, dtype, repeats)


def _rate_of_products(device: str, dtype: str, repeats: int) -> float:
    import torch

    kind, side = getattr(torch, "float32" if dtype == "tf32" else dtype), _sides.get((device, dtype), _MIN_SIDE)
    while True:
        first, second = (torch.ones((side, side), dtype=kind, device=device) for _ in range(2))
        product = lambda: torch.mm(first, second)  # noqa: B023, E731
        product()
        milliseconds = _best_ms(product, device, repeats)
        if milliseconds >= _MIN_PRODUCT_MS or side >= _MAX_SIDE:
            _sides[device, dtype] = side
            return 2 * side**3 / (milliseconds / 1e3)
        side *= 2


def _copy_rate(device: str, _: str, repeats: int) -> float:
    import torch

    source = torch.ones(4 * last_level_cache_bytes(device), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / (_best_ms(lambda: target.copy_(source), device, repeats) / 1e3)


def _best_ms(run: Callable[[], Any], device: str, repeats: int) -> float:
    import torch

    best, begin = float("inf"), time.perf_counter()
    for done in range(repeats):
        start = time.perf_counter()
        if done >= _LATER_REPEATS and start - begin > _BUDGET_S:
            break
        run()
        if device.startswith("cuda"):
            torch.cuda.synchronize(device)
        best = min(best, (time.perf_counter() - start) * 1e3)
    return best
