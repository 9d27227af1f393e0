"""The measured peak rates of a device: the roofs of the roofline model (Williams, Waterman, Patterson 2009)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.run.profiling.caches import last_cache_bytes
from workbench.support.torch_here import torch_is_here

_REPEATS, _AGAIN = 7, 2  # runs of the first measurement of a rate, and of later ones
_MOST_S = 0.5  # of these runs, where more than two take longer: a large cache is copied beyond in a tenth of a second
_STAYS_S = 60.0  # before it is measured again, since it would take longer than short jobs
_LONG_ENOUGH_MS = 20.0
_SMALLEST, _LARGEST = 256, 16384  # sides of the matrices
_best: dict[
    tuple[str, str], float
] = {}  # the highest rates since the worker started, since a moment may have been busy
_when: dict[tuple[str, str], float] = {}  # when they were measured last, by the monotonic clock
_sides: dict[tuple[str, str], int] = {}  # of matrices whose product takes long enough


@dataclass(frozen=True)
class Roofs:
    """Peak rates: operations of a large matrix product; bytes read and written by a copy larger than the
    caches."""

    flops_per_s: float
    bytes_per_s: float


def ceilings(device: str, dtypes: Sequence[str]) -> dict[str, Roofs | None]:
    """The roofs by dtype.

    dtypes: "float32", "tf32", "float16", "bfloat16" or another type of torch's; "mixed" is the type that
    torch.autocast uses on the device. Both rates are measured again after a minute, and the best so far are returned;
    None if there is no memory for that, no product in that type, or no torch, which measures them.
    """
    if not torch_is_here():
        return dict.fromkeys(dtypes)
    import torch

    reduced = "float16" if device.startswith("cuda") else "bfloat16"
    with torch.inference_mode():
        copied = _highest(device, "copy", _copy_rate)
        rates = {dtype: _highest(device, reduced if dtype == "mixed" else dtype, _product_rate) for dtype in dtypes}
    return {dtype: None if rate is None or copied is None else Roofs(rate, copied) for dtype, rate in rates.items()}


def _highest(device: str, what: str, rate: Callable[[str, str, int], float]) -> float | None:
    if (device, what) in _best and time.monotonic() - _when[device, what] < _STAYS_S:
        return _best[device, what]
    try:
        result = rate(device, what, _AGAIN if (device, what) in _best else _REPEATS)
    except (RuntimeError, MemoryError):
        return _best.get((device, what))
    _best[device, what] = max(result, _best.get((device, what), 0.0))
    _when[device, what] = time.monotonic()
    return _best[device, what]


def _product_rate(device: str, dtype: str, repeats: int) -> float:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"  # of this process alone, and each run sets it anew
    kind, side = getattr(torch, "float32" if dtype == "tf32" else dtype), _sides.get((device, dtype), _SMALLEST)
    while True:
        first, second = (torch.ones((side, side), dtype=kind, device=device) for _ in range(2))
        product = lambda: torch.mm(first, second)  # noqa: B023, E731
        product()
        milliseconds = _best_ms(product, device, repeats)
        if milliseconds >= _LONG_ENOUGH_MS or side >= _LARGEST:
            _sides[device, dtype] = side
            return 2 * side**3 / (milliseconds / 1e3)
        side *= 2


def _copy_rate(device: str, _: str, repeats: int) -> float:
    import torch

    source = torch.ones(4 * last_cache_bytes(device), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / (_best_ms(lambda: target.copy_(source), device, repeats) / 1e3)


def _best_ms(run: Callable[[], Any], device: str, repeats: int) -> float:
    import torch

    best, began = float("inf"), time.perf_counter()
    for done in range(repeats):
        start = time.perf_counter()
        if done >= _AGAIN and start - began > _MOST_S:
            break
        run()
        if device.startswith("cuda"):
            torch.cuda.synchronize(device)
        best = min(best, (time.perf_counter() - start) * 1e3)
    return best
