"""Rounding to floats of 8 and 4 bits."""

from __future__ import annotations

from workbench.ops.dtypes import UnsupportedByTorch
from workbench.ops.lazy import torch


def to_float8(x: torch.Tensor, dtype: torch.dtype, saturate: int, round_mode: str = "up") -> torch.Tensor:
    """Round to a float of 8 bits; with `saturate` numbers beyond the largest become the largest.

    round_mode: up, down or nearest, for E8M0 only, whose numbers are powers of two.
    """
    x = x.float()
    if dtype == torch.float8_e8m0fnu:
        return _to_power_of_two(x, saturate, round_mode)
    if saturate:
        largest = torch.finfo(dtype).max
        x = x.clamp(-largest, largest)
    elif dtype == torch.float8_e4m3fn:  # torch saturates here; numbers up to 464 round to the largest, 448
        x = torch.where(x.abs() > 464, torch.full_like(x, torch.nan), x)
    return x.to(dtype)


def _to_power_of_two(x: torch.Tensor, saturate: int, round_mode: str) -> torch.Tensor:
    """Round to E8M0, the exponent of a float32: 255 is NaN, 254 the largest number."""
    if not saturate:
        raise UnsupportedByTorch("torch rounds to powers of two only with saturation")
    bits = x.view(torch.int32)
    exponent, fraction = (bits >> 23) & 0xFF, bits & 0x7FFFFF
    upwards = {"up": fraction > 0, "down": torch.zeros_like(fraction, dtype=torch.bool)}
    upwards["nearest"] = fraction >= 0x400000
    if round_mode not in upwards:
        raise UnsupportedByTorch(f"there is no rounding mode '{round_mode}'")
    exponent = (exponent + upwards[round_mode]).clamp(max=254).masked_fill(x.isnan(), 255)
    return exponent.to(torch.uint8).view(torch.float8_e8m0fnu)


def to_float4(x: torch.Tensor) -> torch.Tensor:
    """Round to E2M1, as float32: to 0, 0.5, 1, 1.5, 2, 3, 4 or 6 with the sign, ties to even; NaN becomes -0."""
    x = torch.where(x.isnan(), -0.0, x.float())
    magnitude = x.abs().clamp(max=6.0)
    step = torch.where(magnitude < 2, 0.5, torch.where(magnitude < 4, 1.0, 2.0))
    return torch.copysign((magnitude / step).round() * step, x)
