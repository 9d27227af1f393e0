"""Rounding to floats of 8 and 4 bits."""

from __future__ import annotations

from workbench.ops.dtypes import CannotRun
from workbench.ops.lazy import torch


def to_float8(x: torch.Tensor, dtype: torch.dtype, saturate: int, round_mode: str = "up") -> torch.Tensor:
    """With `saturate` numbers beyond the largest become the largest; `round_mode` is for powers of two only."""
    x = x.float()
    if dtype == torch.float8_e8m0fnu:
        return _to_power_of_two(x, saturate, round_mode)
    if saturate:
        largest = torch.finfo(dtype).max
        x = x.clamp(-largest, largest)
    elif dtype == torch.float8_e4m3fn:  # torch saturates it; 464 is the last number that rounds to the largest, 448
        x = torch.where(x.abs() > 464, torch.full_like(x, torch.nan), x)
    return x.to(dtype)


def _to_power_of_two(x: torch.Tensor, saturate: int, round_mode: str) -> torch.Tensor:
    """E8M0 is the exponent of a float32; NaN is 255, numbers beyond the largest are 254."""
    if not saturate:
        raise CannotRun("torch rounds to powers of two only with saturation")
    bits = x.view(torch.int32)
    exponent, fraction = (bits >> 23) & 0xFF, bits & 0x7FFFFF
    upwards = {"up": fraction > 0, "down": torch.zeros_like(fraction, dtype=torch.bool)}
    upwards["nearest"] = fraction >= 0x400000
    if round_mode not in upwards:
        raise CannotRun(f"there is no rounding mode '{round_mode}'")
    exponent = (exponent + upwards[round_mode]).clamp(max=254).masked_fill(x.isnan(), 255)
    return exponent.to(torch.uint8).view(torch.float8_e8m0fnu)


def to_float4(x: torch.Tensor) -> torch.Tensor:
    """The nearest of 0, 0.5, 1, 1.5, 2, 3, 4 and 6 with the sign, ties to even, as float32; NaN becomes -0."""
    x = torch.where(x.isnan(), -0.0, x.float())
    size = x.abs().clamp(max=6.0)
    step = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0))
    return torch.copysign((size / step).round() * step, x)
