"""Scales and zero points, as ONNX Runtime's quantizer computes them, in double precision before they are rounded.

A number is scale * (integer - zero point). QuantizeLinear gives saturate(round(x / scale) + zero point), rounding to
the nearest even integer; DequantizeLinear goes back.
Sources: https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html, `compute_scale_zp` of
https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/python/tools/quantization/quant_utils.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_LEAST = np.finfo(np.float32).tiny  # a smaller scale is replaced by 1


@dataclass(frozen=True)
class Scale:
    """scale: float32 of no dimension, or one number for each index of `axis`. zero: int8 or uint8 of the same shape."""

    scale: np.ndarray
    zero: np.ndarray
    axis: int | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest number that a value with one scale can be."""
        ends = np.iinfo(self.zero.dtype)
        least, largest = (float(self.scale) * (end - int(self.zero)) for end in (ends.min, ends.max))
        return least, largest


def activation_scale(least: float, largest: float) -> Scale:
    """The scale of a uint8 value between these numbers, with 0 among them. NaN if one of them is infinite or NaN.

    As int8 the value would have the same scale and stand for the same numbers.
    """
    low, high = min(0.0, float(least)), max(0.0, float(largest))
    scale = (high - low) / 255
    if not np.isfinite(scale):
        return Scale(np.array(np.nan, np.float32), np.array(0, np.uint8))
    if scale < _LEAST:
        return Scale(np.array(1, np.float32), np.array(0, np.uint8))
    return Scale(np.array(scale, np.float32), np.array(np.round(-low / scale), np.uint8))


def weight_scale(weight: np.ndarray, axis: int | None) -> Scale:
    """The scale of an int8 weight whose zero point is 0: of all of it, or for each index of the axis."""
    others = None if axis is None else tuple(one for one in range(weight.ndim) if one != axis)
    magnitude = np.abs(weight).max(axis=others, initial=0).astype(np.float64)
    scale = magnitude / 127
    scale = np.where(scale < _LEAST, 1.0, scale).astype(np.float32)
    return Scale(scale, np.zeros(scale.shape, np.int8), axis)


def dequantized_bias(bias: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """A bias as int32 with this scale, in float32 again. scale: one number, or one for each element.

    The quantizer enlarges a weight's scale where int32 would not hold the bias; here that of the bias alone.
    """
    magnitude = np.abs(bias).astype(np.float64)
    least = 1.0001 * 2 * (magnitude if scale.size > 1 else magnitude.max(initial=0)) / (2**32 - 2)
    fitting = np.maximum(scale, least).astype(np.float32)
    integers = np.round(bias.astype(np.float64) / fitting.astype(np.float64))
    return np.asarray(integers.astype(np.float32) * fitting)
