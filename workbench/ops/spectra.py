"""Signal processing: Fourier transforms, windows, and mel filter banks."""

from __future__ import annotations

import math

from workbench.ops.contract import Call, operator, per_output
from workbench.ops.dtypes import torch_dtype
from workbench.ops.fusion_kinds import OPAQUE
from workbench.ops.lazy import torch
from workbench.ops.permutation.kinds import LAYOUT_BARRIER


def _complex(x: torch.Tensor) -> torch.Tensor:
    """Complex or real numbers [*D] from their parts [*D, 2] or [*D, 1]; torch does not transform narrow floats."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return wide.squeeze(-1) if x.shape[-1] == 1 else torch.view_as_complex(wide.contiguous())


@operator("DFT", category="other", layout=LAYOUT_BARRIER, fusion=OPAQUE, host_inputs=(1, 2))
def dft(
    call: Call, x: torch.Tensor, length: torch.Tensor | None = None, axis_input: torch.Tensor | None = None
) -> torch.Tensor:
    """The Fourier transform along one axis. The last axis has real and imaginary parts, or only real ones.

    x: [*A, L, *B, 1] or [*A, L, *B, 2] -> [*A, K, *B, 2] or [*A, K, *B, 1]
    """
    axis = (-2 if axis_input is None else int(axis_input)) % x.dim()
    signal = _complex(x)
    count = None if length is None else int(length)
    onesided, inverse = call.attr("onesided"), call.attr("inverse")
    if inverse and onesided:
        real: torch.Tensor = torch.fft.irfft(signal, count, axis)
        return real.unsqueeze(-1).to(x.dtype)
    transform = torch.fft.ifft if inverse else torch.fft.fft
    result: torch.Tensor = transform(signal, count, axis)
    if onesided:
        result = result.narrow(axis, 0, result.shape[axis] // 2 + 1)
    return torch.view_as_real(result).to(x.dtype)


@operator("STFT", category="other", layout=LAYOUT_BARRIER, fusion=OPAQUE, host_inputs=(1, 3))
def stft(
    call: Call,
    signal: torch.Tensor,
    step: torch.Tensor,
    window: torch.Tensor | None = None,
    length: torch.Tensor | None = None,
) -> torch.Tensor:
    """The Fourier transforms of F frames of each signal; B is the number of frequencies.

    signal: [N, L, 1] or [N, L, 2], window: [W] -> [N, F, B, 2]
    """
    values = _complex(signal)
    default = values.shape[1] if window is None else window.shape[0]
    size = default if length is None else int(length)
    frames = values.unfold(1, size, int(step))
    if window is not None:
        frames = frames * window
    result: torch.Tensor = torch.fft.fft(frames)
    if call.attr("onesided"):
        result = result[..., : size // 2 + 1]
    return torch.view_as_real(result).to(signal.dtype)


# ---- windows -----------------------------------------------------------------------


def _window(op: str, name: str, **weights: float) -> None:
    """Register the window that torch's function `name` computes with these coefficients."""

    def run(call: Call, size: torch.Tensor) -> torch.Tensor:
        """-> [L]"""
        periodic = bool(call.attr("periodic"))
        window: torch.Tensor = getattr(torch, name)(
            int(size), periodic, dtype=torch.float64, device=call.device, **weights
        )
        return window.to(torch_dtype(call.attr("output_datatype")))

    operator(op, category="shape", layout=LAYOUT_BARRIER, fusion=OPAQUE, flops=per_output(4), host_inputs=(0,))(run)


_window("HannWindow", "hann_window")
_window("HammingWindow", "hamming_window", alpha=25 / 46, beta=21 / 46)
_window("BlackmanWindow", "blackman_window")


@operator("MelWeightMatrix", category="shape", layout=LAYOUT_BARRIER, fusion=OPAQUE, host_inputs=(0, 1, 2, 3, 4))
def mel_weight_matrix(
    call: Call, bands: torch.Tensor, length: torch.Tensor, rate: torch.Tensor, low: torch.Tensor, high: torch.Tensor
) -> torch.Tensor:
    """Triangles over the B = length // 2 + 1 bins of a spectrum; each peaks at 1 where the next starts.

    -> [B, M]
    """
    dtype = torch_dtype(call.attr("output_datatype"))
    key = int(bands), int(length), int(rate), float(low), float(high)
    return call.cached_tensor(key, lambda: _mel_weights(*key).to(dtype))


def _mel_weights(count: int, size: int, rate: int, low: float, high: float) -> torch.Tensor:
    """[size // 2 + 1, count]; low, high: the edges in hertz, which are evenly divided on the mel scale."""
    edges = [2595 * math.log10(1 + edge / 700) for edge in (low, high)]
    mels = torch.arange(count + 2, dtype=torch.float64) * ((edges[1] - edges[0]) / (count + 2)) + edges[0]
    hertz = 700 * (10 ** (mels / 2595) - 1)
    corners = ((size + 1) * hertz / rate).floor()
    left, centre, right = corners[:-2], corners[1:-1], corners[2:]
    bins = torch.arange(size // 2 + 1, dtype=torch.float64).unsqueeze(1)
    rising = torch.where(centre == left, (bins == centre).double(), (bins - left) / (centre - left))
    falling = (right - bins) / (right - centre)
    return torch.where(bins <= centre, rising, torch.where(right > centre, falling, 0.0)).clamp(0, 1)
