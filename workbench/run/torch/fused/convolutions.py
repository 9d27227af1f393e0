"""Convolutions and products of constant weights by a kernel of ours in C++ (convolutions.cpp), compiled once.

A library decides in each call anew how to compute it, which takes longer than a small convolution does; here weights
and places are laid out before, and a call is a call. It holds the place in the input of each pixel and tap, 4 bytes.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.ops.lazy import torch as late_torch
from workbench.run.torch.fused.epilogue import Epilogue
from workbench.run.torch.fused.inductor import compile_library
from workbench.run.torch.fused.lowering import NoLowering
from workbench.run.torch.fused.product import TO_NCHW, ConstantProduct

if TYPE_CHECKING:
    import torch

_SOURCE = Path(__file__).with_suffix(".cpp")
_MOST_VECTORS = 4  # of a panel
_MOST_PLACES = 1 << 22  # 16 MB
_LONG, _FLOAT, _POINTER = ctypes.c_int64, ctypes.c_float, ctypes.c_void_p
_FEW_OPERATIONS = 400_000  # 2 or 3 microseconds of one core, for which no other thread is woken


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
    """A product as a call of the kernel."""

    def __init__(self, product: ConstantProduct, epilogue: Epilogue) -> None:
        """Raises NoLowering."""
        if max(math.prod(product.shape), math.prod(product.result_shape)) > np.iinfo(np.int32).max:
            raise NoLowering("it has more elements than 4 bytes can count")
        library = _library()
        is_within = epilogue.unary.name in _ACTIVATIONS
        code, first, second = _ACTIVATIONS[epilogue.unary.name if is_within else "none"](epilogue.unary.scalars)
        struct = _Convolution(activation=code, first=first, second=second)
        fill = _fill_depthwise if _is_depthwise(product) else _fill_tiled
        self._held: list[Any] = [struct, *fill(struct, product, epilogue.bias, library.lanes())]
        if epilogue.order is not None:
            self._held.append(late_torch.tensor(epilogue.order, dtype=late_torch.int32))
            struct.order = self._held[-1].data_ptr()
        operations = 2 * math.prod(product.result_shape) * product.weight[0].numel()
        struct.threads = 1 if operations < _FEW_OPERATIONS else late_torch.get_num_threads()
        self._activate = None if is_within else epilogue.unary.in_place
        self._order = TO_NCHW if struct.step > 1 else None  # of the operand in memory
        self._shape, self._outputs = product.result_shape, product.result_shape[-1]
        self._images = _channels_first(self._shape) if len(self._shape) == 4 else ((), ())
        self._convolve, self._address = library.convolve, ctypes.addressof(struct)

    def __call__(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        y = late_torch.empty(self._shape, dtype=late_torch.float32)
        return self._write_last(y, self._outputs, x, other)

    def into(
        self, buffer: torch.Tensor, offset: int, x: torch.Tensor, other: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The same, as that part of a buffer [..., channels] which begins at the channel `offset`."""
        part = buffer[..., offset : offset + self._outputs]
        y = self._write_last(part, buffer.shape[-1], x, other)
        return y if y.data_ptr() == part.data_ptr() else part.copy_(y)  # not every activation of torch is in place

    def of_images(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        """The same for images [batch, channels, height, width]; in memory the result has the channels last."""
        last = late_torch.channels_last
        x = x.contiguous() if self._order is not None else x.contiguous(memory_format=last)
        other = None if other is None else other.contiguous(memory_format=last)
        y = late_torch.empty_strided(*self._images, dtype=late_torch.float32)
        return self._write(y, self._outputs, x, other)

    def _write_last(self, y: torch.Tensor, width: int, x: torch.Tensor, other: torch.Tensor | None) -> torch.Tensor:
        x = (x if self._order is None else x.permute(self._order)).contiguous()
        return self._write(y, width, x, None if other is None else other.contiguous())

    def _write(self, y: torch.Tensor, width: int, x: torch.Tensor, other: torch.Tensor | None) -> torch.Tensor:
        """Operands without gaps, in memory as the kernel reads them. width: elements between two pixels of y."""
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
    """Shape and strides of [batch, channels, height, width] that lie in memory as `shape` does, channels last."""
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
    """Set what tiles of pixels and panels of outputs need; the tensors are to be held. Raises NoLowering."""
    if math.prod((*product.result_shape[:-1], *product.window.kernel)) > _MOST_PLACES:
        raise NoLowering("it has too many pixels for a table of the places that they read")
    groups, inputs = product.groups, product.weight.shape[1]
    weight = product.weight.reshape(groups, -1, inputs, math.prod(product.window.kernel))
    vectors = _vectors(weight.shape[1], lanes)
    struct.step = math.prod(product.spatial) if product.is_first else 1
    places = late_torch.from_numpy(_places(product))
    struct.pixels, struct.taps = places.shape
    struct.channels, struct.outputs, struct.groups, struct.vectors = inputs, weight.shape[1], groups, vectors
    zeros = late_torch.zeros(product.shape[-1] * struct.step)
    tensors = places, *_weight_and_bias(weight, bias, vectors * lanes), zeros
    struct.table, struct.weight, struct.bias, struct.zeros = (tensor.data_ptr() for tensor in tensors)
    return tensors


def _fill_depthwise(
    struct: _Convolution, product: ConstantProduct, bias: torch.Tensor | None, lanes: int
) -> tuple[torch.Tensor, ...]:
    """Set what rows of pixels and blocks of channels need; the tensors are to be held."""
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
    """Of a panel: those that compute the fewest numbers for nothing; of these the most, which read the input less."""
    return min(range(_MOST_VECTORS, 0, -1), key=lambda vectors: -(-outputs // (vectors * lanes)) * vectors)


def _weight_and_bias(weight: torch.Tensor, bias: torch.Tensor | None, wide: int) -> tuple[torch.Tensor, torch.Tensor]:
    """weight: [groups, outputs, channels, taps]. Both in panels."""
    bias = late_torch.zeros(weight.shape[:2]) if bias is None else bias
    return _in_panels(weight, wide), _in_panels(bias.reshape(*weight.shape[:2], 1, 1), wide)


def _in_panels(weight: torch.Tensor, wide: int) -> torch.Tensor:
    """[groups, outputs, channels, taps] -> [groups, panels, taps, channels, wide], with zeros after the outputs."""
    groups, outputs, channels, taps = weight.shape
    count = -(-outputs // wide)
    padded = late_torch.zeros(groups, count * wide, channels, taps)
    padded[:, :outputs] = weight
    return padded.reshape(groups, count, wide, channels, taps).permute(0, 1, 4, 3, 2).contiguous()


def _places(product: ConstantProduct) -> np.ndarray[Any, np.dtype[np.int32]]:
    """[pixels, taps]: where the channels that a tap reads begin, in elements; -1 in the padding."""
    window, spatial = product.window, product.spatial
    counts = product.result_shape[len(product.batch) : -1]
    image, step = math.prod((*spatial, product.shape[-1])), 1 if product.is_first else product.shape[-1]
    place, inside = np.zeros((1, 1), int), np.ones((1, 1), bool)
    axes = zip(spatial, counts, window.kernel, window.strides, window.dilations, window.begins, strict=True)
    for size, count, kernel, stride, dilation, begin in axes:
        index = np.arange(count)[:, None] * stride + np.arange(kernel) * dilation - begin
        place = place[:, None, :, None] * size + index[None, :, None, :]
        inside = inside[:, None, :, None] & ((index >= 0) & (index < size))[None, :, None, :]
        pixels, taps = place.shape[0] * count, place.shape[2] * kernel
        place, inside = place.reshape(pixels, taps), inside.reshape(pixels, taps)
    of_image = np.where(inside, place * step, -1)
    starts = np.arange(math.prod(product.batch)).reshape(-1, 1, 1) * image
    return np.where(of_image < 0, -1, of_image + starts).reshape(-1, of_image.shape[1]).astype(np.int32)
