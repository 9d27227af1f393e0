"""One type for convolutions and matrix products, which kernels and libraries compute."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.ops.lazy import torch as lazy_torch
from workbench.ops.windows import Window

if TYPE_CHECKING:
    import torch

TO_NHWC, TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)
NO_AXES = Window((), (), (), (), ())
# (x) or (x, other) -> the product plus other, with its epilogue. All are [..., channels]; x and other may have any
# strides, the result is contiguous.
RunProduct = Callable[..., "torch.Tensor"]


def axis_of_channels(is_channels_last: bool) -> int:
    """The axis of channels of an image of four axes."""
    return 3 if is_channels_last else 1


@dataclass(frozen=True)
class ConstantProduct:
    """A convolution with a constant weight; a matrix product has a window without axes.

    weight: [outputs, channels / groups, *kernel], float32.
    shape: the shape of the operand, channels last: [..., *spatial, channels].
    is_channels_last: whether the operand is read as channels last in memory too; otherwise as channels first.
    """

    weight: torch.Tensor
    shape: tuple[int, ...]
    window: Window = NO_AXES
    groups: int = 1
    is_channels_last: bool = True

    @property
    def kind(self) -> tuple[Hashable, ...]:
        """A key of everything except the elements of the weight."""
        return tuple(self.weight.shape), self.shape, self.window, self.groups, self.is_channels_last

    @property
    def batch(self) -> tuple[int, ...]:
        return self.shape[: len(self.shape) - 1 - len(self.window.kernel)]

    @property
    def spatial(self) -> tuple[int, ...]:
        return self.shape[len(self.batch) : -1]

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape of the result: [..., *spatial, outputs]."""
        return (*self.batch, *self.window.counts(self.spatial, ceil=False), self.weight.shape[0])

    def example(self) -> torch.Tensor:
        """An operand of zeros, with the actual strides."""
        if self.is_channels_last:
            return lazy_torch.zeros(self.shape)
        return lazy_torch.zeros(*self.batch, self.shape[-1], *self.spatial).movedim(len(self.batch), -1)

    @property
    def is_pointwise(self) -> bool:
        """Whether each pixel is multiplied by one matrix."""
        window = self.window
        is_single = {*window.kernel, *window.strides} <= {1} and not any((*window.begins, *window.ends))
        return is_single and self.groups == 1
