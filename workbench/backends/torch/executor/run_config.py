"""The device and the floating-point type of a run, and tensors brought there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.ir import Function
from workbench.ops.lazy import torch as lazy_torch

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Setting:
    """The device and the floating-point type of a run. `dtype` None: the graph's types."""

    device: torch.device
    dtype: torch.dtype | None
    functions: Mapping[tuple[str, str, str], Function]
    opsets: Mapping[str, int]
    fallbacks: dict[str, str]

    @property
    def places_matter(self) -> bool:
        return self.device.type != "cpu" or self.dtype is not None

    def on_device(self, tensor: Any) -> Any:
        """The operand on the device, floats in the type of the run."""
        if isinstance(tensor, list):
            return [self.on_device(item) for item in tensor]
        if not isinstance(tensor, lazy_torch.Tensor):
            return tensor
        if self.dtype is not None and tensor.dtype == lazy_torch.float32:
            return _narrowed(tensor.to(self.device), self.dtype)
        is_there = tensor.device.type == self.device.type and self.device.index in (None, tensor.device.index)
        return tensor if is_there else tensor.to(self.device)


def _narrowed(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The tensor in the narrower type; finite numbers, as in attention masks, stay finite."""
    limit = lazy_torch.finfo(dtype).max
    bounded = lazy_torch.where(tensor.isinf(), tensor, tensor.clamp(-limit, limit))
    return bounded.to(dtype)


def on_host(tensor: Any) -> Any:
    if isinstance(tensor, list):
        return [on_host(item) for item in tensor]
    return tensor.cpu() if isinstance(tensor, lazy_torch.Tensor) and tensor.device.type != "cpu" else tensor
