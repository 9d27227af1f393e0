"""Signal processing: Fourier transforms, windows, and mel filter banks."""

from __future__ import annotations

import math
from typing import Any

from workbench.ops.contract import Call, operator, per_output
from workbench.ops.dtypes import torch_dtype
from workbench.ops.fusion_kinds import OPAQUE
from workbench.ops.lazy import torch
from workbench.ops.permutation.kinds import BARRIER


def _complex(x: torch.Tensor) -> torch.Tensor:
    """Complex numbers from their parts on the last axis; torch does not transform narrow floats."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return wide.squeeze(-1) if x.shape[-1] == 1 else torch.view_as_complex(wide.contiguous())


@operator("DFT", category="other", layout=BARRIER, fusion=OPAQUE, host_inputs=(1, 2))
def dft(call, x, length=None, axis_input=None):
    """The transform of [..., 1] or [..., 2] (real, imaginary). Before opset 20 the axis is an attribute."""
    axis = call.attr("axis", 1 if call.opset < 20 else -2) if axis_input is None else int(axis_input)
    axis %= x.dim()
    signal = _complex(x)
    count = None if length is None else int(length)
    onesided, inverse = call.attr("onesided"), call.attr("inverse")
    if inverse and onesided:
        return torch.fft.irfft(signal, count, axis).unsqueeze(-1).to(x.dtype)
    transform: Any = torch.fft.ifft if inverse else torch.fft.fft
    result = transform(signal, count, axis)
    if onesided:
        result = result.narrow(axis, 0, result.shape[axis] // 2 + 1)
    return torch.view_as_real(result).to(x.dtype)


@operator("STFT", category="other", layout=BARRIER, fusion=OPAQUE, host_inputs=(1, 3))
def stft(call, signal, step, window=None, length=None):
    """The transform of each frame of [batch, length, 1] or [batch, length, 2], [batch, frames, bins, 2]."""
    values = _complex(signal)
    whole = values.shape[1] if window is None else window.shape[0]
    size = whole if length is None else int(length)
    frames = values.unfold(1, size, int(step))
    if window is not None:
        frames = frames * window
    result = torch.fft.fft(frames)
    if call.attr("onesided"):
        result = result[..., : size // 2 + 1]
    return torch.view_as_real(result).to(signal.dtype)


# ---- windows -----------------------------------------------------------------------


def _window(op: str, name: str, **weights: float) -> None:
    def run(call: Call, size: torch.Tensor) -> torch.Tensor:
        periodic = bool(call.attr("periodic"))
        window = getattr(torch, name)(int(size), periodic, dtype=torch.float64, device=call.device, **weights)
        return window.to(torch_dtype(call.attr("output_datatype")))

    operator(op, category="shape", layout=BARRIER, fusion=OPAQUE, flops=per_output(4), host_inputs=(0,))(run)


_window("HannWindow", "hann_window")
_window("HammingWindow", "hamming_window", alpha=25 / 46, beta=21 / 46)
_window("BlackmanWindow", "blackman_window")


@operator("MelWeightMatrix", category="shape", layout=BARRIER, fusion=OPAQUE, host_inputs=(0, 1, 2, 3, 4))
def mel_weight_matrix(call, bands, length, rate, low, high):
    """Triangles over the bins of a spectrum, [length / 2 + 1, bands]; each peaks at 1 where the next starts."""
    dtype = torch_dtype(call.attr("output_datatype"))
    key = int(bands), int(length), int(rate), float(low), float(high)
    return call.held(key, lambda: _mel_weights(*key).to(dtype))


def _mel_weights(count: int, size: int, rate: int, low: float, high: float) -> torch.Tensor:
    edges = [2595 * math.log10(1 + edge / 700) for edge in (low, high)]
    places = torch.arange(count + 2, dtype=torch.float64) * ((edges[1] - edges[0]) / (count + 2)) + edges[0]
    hertz = 700 * (10 ** (places / 2595) - 1)
    corners = ((size + 1) * hertz / rate).floor()
    left, centre, right = corners[:-2], corners[1:-1], corners[2:]
    bins = torch.arange(size // 2 + 1, dtype=torch.float64).unsqueeze(1)
    rising = torch.where(centre == left, (bins == centre).double(), (bins - left) / (centre - left))
    falling = (right - bins) / (right - centre)
    return torch.where(bins <= centre, rising, torch.where(right > centre, falling, 0.0)).clamp(0, 1)
