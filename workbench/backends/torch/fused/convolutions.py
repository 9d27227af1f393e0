"""Convolutions and products of constant weights by our kernel in C++ (convolutions.cpp), compiled once.

A library chooses its algorithm in every call, which takes longer than a small convolution. Here weights and a table of
offsets are prepared once: for each output pixel and tap the offset of the input pixel, 4 bytes.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.backends.torch.fused.epilogue import Epilogue
from workbench.backends.torch.fused.inductor import compile_library
from workbench.backends.torch.fused.lowering import NoLowering
from workbench.backends.torch.fused.product import TO_NCHW, ConstantProduct
from workbench.ops.lazy import torch as lazy_torch

if TYPE_CHECKING:
    import torch

_SOURCE = Path(__file__).with_suffix(".cpp")
_MAX_VECTORS = 4  # the most vectors in a panel of outputs
_MAX_OFFSETS = 1 << 22  # 16 MB
_LONG, _FLOAT, _POINTER = ctypes.c_int64, ctypes.c_float, ctypes.c_void_p
_FEW_OPERATIONS = 400_000  # 2 or 3 microseconds on one core, too few to wake other threads


class _Convolution(ctypes.Structure):
    """The fields of the struct in convolutions.cpp."""

    _fields_ = [
        *((name, _LONG) for name in ("pixels", "taps", "channels", "outputs", "groups", "step")),
        *((name, _LONG) for name in ("vectors", "threads")),
        *(("activation", _LONG), ("first", _FLOAT), ("second", _FLOAT)),
        *((name, _POINTER) for name in ("table", "weight", "bias", "zeros", "order")),
        *(("batch", _LONG), ("sizes", _LONG * 2), ("kernel", _LONG * 2), ("strides", _LONG * 2)),
        *(("dilations", _LONG * 2), ("begins", _LONG * 2), ("columns", _LONG)),
    ]


class CompiledCall:
    """A product, with its epilogue, as a call of the kernel."""

    def __init__(self, product: ConstantProduct, epilogue: Epilogue) -> None:
        """Raises NoLowering."""
        if max(math.prod(product.shape), math.prod(product.result_shape)) > np.iinfo(np.int32).max:
            raise NoLowering("it has more elements than 4-byte offsets can address")
        library = _library()
        is_in_kernel = epilogue.unary.name in _ACTIVATIONS
        code, first, second = _ACTIVATIONS[epilogue.unary.name if is_in_kernel else "none"](epilogue.unary.scalars)
        struct = _Convolution(activation=code, first=first, second=second)
        fill = _fill_depthwise if _is_depthwise(product) else _fill_tiled
        self._references: list[Any] = [struct, *fill(struct, product, epilogue.bias, library.lanes())]
        if epilogue.order is not None:
            self._references.append(lazy_torch.tensor(epilogue.order, dtype=lazy_torch.int32))
            struct.order = self._references[-1].data_ptr()
        operations = 2 * math.prod(product.result_shape) * product.weight[0].numel()
        struct.threads = 1 if operations < _FEW_OPERATIONS else lazy_torch.get_num_threads()
        self._activate = None if is_in_kernel else epilogue.unary.in_place
        self._order = TO_NCHW if struct.step > 1 else None  # the order of the operand in memory
        self._shape, self._outputs = product.result_shape, product.result_shape[-1]
        self._image_layout = _channels_first(self._shape) if len(self._shape) == 4 else ((), ())
        self._convolve, self._address = library.convolve, ctypes.addressof(struct)

    def __call__(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        y = lazy_torch.empty(self._shape, dtype=lazy_torch.float32)
        return self._write_last(y, self._outputs, x, other)

    def into(
        self, buffer: torch.Tensor, offset: int, x: torch.Tensor, other: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Compute into a part of a buffer [..., channels], which begins at the channel `offset`; returns that part."""
        part = buffer[..., offset : offset + self._outputs]
        y = self._write_last(part, buffer.shape[-1], x, other)
        return y if y.data_ptr() == part.data_ptr() else part.copy_(y)  # some activations of torch are not in place

    def of_images(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        """The same for images [batch, channels, height, width]; the result is channels last in memory."""
        channels_last = lazy_torch.channels_last
        x = x.contiguous() if self._order is not None else x.contiguous(memory_format=channels_last)
        other = None if other is None else other.contiguous(memory_format=channels_last)
        y = lazy_torch.empty_strided(*self._image_layout, dtype=lazy_torch.float32)
        return self._write(y, self._outputs, x, other)

    def _write_last(self, y: torch.Tensor, width: int, x: torch.Tensor, other: torch.Tensor | None) -> torch.Tensor:
        x = (x if self._order is None else x.permute(self._order)).contiguous()
        return self._write(y, width, x, None if other is None else other.contiguous())

    def _write(self, y: torch.Tensor, width: int, x: torch.Tensor, other: torch.Tensor | None) -> torch.Tensor:
        """Call the kernel on contiguous operands in its memory layout. width: elements between two pixels of y."""
        summand = None if other is None else other.data_ptr()
        self._convolve(self._address, x.data_ptr(), summand, y.data_ptr(), width)
        return y if self._activate is None else self._activate(y)


_SIXTH = 1 / 6
_ACTIVATIONS: dict[str, Callable[[Sequence[float]], tuple[int, float, float]]] = {
    # the code in convolutions.cpp, and its two numbers
    "none": lambda scalars: (0, 0.0, 0.0),
    "relu": lambda scalars: (1, 0.0, math.inf),
    "hardtanh": lambda scalars: (1, scalars[0], scalars[1]),
    "leaky_relu": lambda scalars: (2, scalars[0], 0.0),
    "hardsigmoid": lambda scalars: (3, _SIXTH, 0.5),
    "clamped_linear": lambda scalars: (3, scalars[0], scalars[1]),
    "hardswish": lambda scalars: (4, _SIXTH, 0.5),
}


def _channels_first(shape: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of [batch, channels, height, width] for a tensor that is `shape`, channels last, in memory."""
    batch, height, width, channels = shape
    return (batch, channels, height, width), (height * width * channels, 1, width * channels, channels)


@cache
def _library() -> ctypes.CDLL:
    return loaded_kernel(_SOURCE.read_text(encoding="utf-8"))


def loaded_kernel(source: str) -> ctypes.CDLL:
    """The kernel, compiled for this processor. Raises NoLowering."""
    library = compile_library(source)
    library.convolve.argtypes, library.convolve.restype = (*(_POINTER,) * 4, _LONG), None
    library.lanes.argtypes, library.lanes.restype = (), _LONG
    return library


def _is_depthwise(product: ConstantProduct) -> bool:
    channels = product.shape[-1]
    return len(product.window.kernel) == 2 and product.groups == product.weight.shape[0] == channels > 1


def _fill_tiled(
    struct: _Convolution, product: ConstantProduct, bias: torch.Tensor | None, lanes: int
) -> tuple[torch.Tensor, ...]:
    """Fill the struct for tiles of pixels and panels of outputs. Returns the tensors to keep. Raises NoLowering."""
    if math.prod((*product.result_shape[:-1], *product.window.kernel)) > _MAX_OFFSETS:
        raise NoLowering("it has too many pixels for a table of input offsets")
    groups, inputs = product.groups, product.weight.shape[1]
    weight = product.weight.reshape(groups, -1, inputs, math.prod(product.window.kernel))
    vectors = _vectors(weight.shape[1], lanes)
    struct.step = 1 if product.is_channels_last else math.prod(product.spatial)
    offsets = lazy_torch.from_numpy(_offsets(product))
    struct.pixels, struct.taps = offsets.shape
    struct.channels, struct.outputs, struct.groups, struct.vectors = inputs, weight.shape[1], groups, vectors
    zeros = lazy_torch.zeros(product.shape[-1] * struct.step)
    tensors = offsets, *_weight_and_bias(weight, bias, vectors * lanes), zeros
    struct.table, struct.weight, struct.bias, struct.zeros = (tensor.data_ptr() for tensor in tensors)
    return tensors


def _fill_depthwise(
    struct: _Convolution, product: ConstantProduct, bias: torch.Tensor | None, lanes: int
) -> tuple[torch.Tensor, ...]:
    """Fill the struct for rows of pixels and blocks of channels. Returns the tensors to keep."""
    window, channels = product.window, product.shape[-1]
    weight = product.weight.reshape(1, channels, 1, -1)
    struct.pixels, struct.channels = math.prod(product.result_shape[:-1]), channels
    struct.batch, struct.columns = math.prod(product.batch), product.result_shape[-2]
    struct.sizes, struct.kernel, struct.begins = product.spatial, window.kernel, window.begins
    struct.strides, struct.dilations = window.strides, window.dilations
    tensors = _weight_and_bias(weight, bias, -(-channels // lanes) * lanes)
    struct.weight, struct.bias = (tensor.data_ptr() for tensor in tensors)
    return tensors


def _vectors(outputs: int, lanes: int) -> int:
    """The vectors of a panel: the number that wastes the fewest outputs, and of equal ones the largest."""
    return min(range(_MAX_VECTORS, 0, -1), key=lambda vectors: -(-outputs // (vectors * lanes)) * vectors)


def _weight_and_bias(weight: torch.Tensor, bias: torch.Tensor | None, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight [groups, outputs, channels, taps] and bias in panels of `width` outputs."""
    bias = lazy_torch.zeros(weight.shape[:2]) if bias is None else bias
    return _in_panels(weight, width), _in_panels(bias.reshape(*weight.shape[:2], 1, 1), width)


def _in_panels(weight: torch.Tensor, width: int) -> torch.Tensor:
    """[groups, outputs, channels, taps] -> [groups, panels, taps, channels, width], padded with zeros."""
    groups, outputs, channels, taps = weight.shape
    count = -(-outputs // width)
    padded = lazy_torch.zeros(groups, count * width, channels, taps)
    padded[:, :outputs] = weight
    return padded.reshape(groups, count, width, channels, taps).permute(0, 1, 4, 3, 2).contiguous()


def _offsets(product: ConstantProduct) -> np.ndarray[Any, np.dtype[np.int32]]:
    """[pixels, taps]: the offset of the input pixel that a tap reads, in elements; -1 in the padding."""
    window, spatial = product.window, product.spatial
    counts = product.result_shape[len(product.batch) : -1]
    image, step = math.prod((*spatial, product.shape[-1])), product.shape[-1] if product.is_channels_last else 1
    offset, inside = np.zeros((1, 1), int), np.ones((1, 1), bool)
    axes = zip(spatial, counts, window.kernel, window.strides, window.dilations, window.begins, strict=True)
    for size, count, kernel, stride, dilation, begin in axes:
        index = np.arange(count)[:, None] * stride + np.arange(kernel) * dilation - begin
        offset = offset[:, None, :, None] * size + index[None, :, None, :]
        inside = inside[:, None, :, None] & ((index >= 0) & (index < size))[None, :, None, :]
        pixels, taps = offset.shape[0] * count, offset.shape[2] * kernel
        offset, inside = offset.reshape(pixels, taps), inside.reshape(pixels, taps)
    image_offsets = np.where(inside, offset * step, -1)
    starts = np.arange(math.prod(product.batch)).reshape(-1, 1, 1) * image
    return np.where(image_offsets < 0, -1, image_offsets + starts).reshape(-1, image_offsets.shape[1]).astype(np.int32)
