"""The windows of a kernel: strides, dilations and pads, shared by convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType

from workbench.ir import Node
from workbench.ops.contract import Call
from workbench.ops.lazy import torch


@dataclass(frozen=True)
class Window:
    """A kernel that slides over an image: sizes in elements, one entry per spatial axis.

    begins, ends: the pads before and after the image.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]

    @classmethod
    def of(cls, call: Call | Node, kernel: Sequence[int], spatial: Sequence[int]) -> Window:
        """The window of these attributes, for an image with the spatial dims `spatial`."""
        rank = len(spatial)
        kernel = tuple(kernel)
        strides = tuple(call.attr("strides") or (1,) * rank)
        dilations = tuple(call.attr("dilations") or (1,) * rank)
        auto = call.attr("auto_pad", "NOTSET")
        if auto.startswith("SAME"):
            totals = [
                max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
                for n, s, k, d in zip(spatial, strides, kernel, dilations, strict=True)
            ]
            small = tuple(t // 2 for t in totals)
            large = tuple(t - t // 2 for t in totals)
            begins, ends = (small, large) if auto == "SAME_UPPER" else (large, small)
        elif auto == "VALID":
            begins = ends = (0,) * rank
        else:
            pads = tuple(call.attr("pads") or (0,) * 2 * rank)
            begins, ends = pads[:rank], pads[rank:]
        return cls(kernel, strides, dilations, begins, ends)

    @property
    def extents(self) -> tuple[int, ...]:
        """The number of elements that a window spans, including dilation."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    def counts(self, spatial: Sequence[int], ceil: bool) -> tuple[int, ...]:
        """The number of windows per axis; with `ceil` the last may extend beyond the end, if it starts inside."""
        results = []
        for n, extent, stride, begin, end in zip(
            spatial, self.extents, self.strides, self.begins, self.ends, strict=True
        ):
            free = n + begin + end - extent
            count = (-(-free // stride) if ceil else free // stride) + 1
            if ceil and (count - 1) * stride >= n + begin:
                count -= 1
            results.append(count)
        return tuple(results)

    def overhang(self, spatial: Sequence[int], counts: Sequence[int]) -> tuple[int, ...]:
        """The number of elements per axis by which the last windows exceed the padded image."""
        return tuple(
            max((c - 1) * s + extent - (n + b + e), 0)
            for c, s, extent, n, b, e in zip(
                counts, self.strides, self.extents, spatial, self.begins, self.ends, strict=True
            )
        )

    def slide(self, padded: torch.Tensor, counts: Sequence[int]) -> torch.Tensor:
        """All windows of the padded image [N, C, *D], as a view [N, C, *counts, *kernel]."""
        for axis, (extent, stride) in enumerate(zip(self.extents, self.strides, strict=True)):
            padded = padded.unfold(2 + axis, extent, stride).narrow(2 + axis, 0, counts[axis])
        taps: tuple[EllipsisType | slice, ...] = (..., *(slice(None, None, d) for d in self.dilations))
        return padded[taps]


def torch_pads(begins: Sequence[int], ends: Sequence[int]) -> list[int]:
    """Pads in the order of torch's F.pad: the last axis first, each as begin and end."""
    return [p for b, e in zip(reversed(begins), reversed(ends), strict=True) for p in (b, e)]
