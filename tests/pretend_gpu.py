"""A CUDA device that this machine need not have: tensors that say they lie there, and are computed on the CPU.

A torch that is built without CUDA runs it too. What crosses between host and device is seen, as on a real one, and a
call on operands of both is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from workbench.ops.lazy import torch as lazy_torch

GPU = "cuda:0"
# Their bindings ask CUDA for the device before they dispatch.
_NAMES = ("contiguous", "__getitem__", "__setitem__", "__invert__")
_GUARDED = tuple(getattr(torch.Tensor, name) for name in _NAMES)


class DeviceTensor(torch.Tensor):
    """A tensor on the pretended device. host: its elements."""

    host: torch.Tensor

    @staticmethod
    def __new__(cls, host: torch.Tensor) -> DeviceTensor:
        strides, offset = host.stride(), host.storage_offset()
        made = torch.Tensor._make_wrapper_subclass(
            cls, host.shape, strides=strides, storage_offset=offset, dtype=host.dtype, device=GPU
        )
        made.host = host
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.tolist:
            return args[0].cpu().tolist()
        if func in (torch.nonzero, torch.Tensor.nonzero):
            return torch.ops.aten.nonzero.default(args[0])
        if func in _GUARDED:
            return called(func, args, kwargs or {})
        return torch._C._disabled_torch_function_impl(func, types, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return called(func, args, kwargs or {})


class PretendedGpu(TorchDispatchMode):
    """A context in which "cuda:0" is a device."""

    def __init__(self) -> None:
        super().__init__()
        # In the place of torch's own fake tensors, for which its bindings do not start CUDA.
        self._mode_key = torch._C._TorchDispatchModeKey.FAKE

    def __enter__(self) -> Any:
        self._lifted = torch._C._only_lift_cpu_tensors()
        self._inference_mode = lazy_torch.inference_mode
        lazy_torch.inference_mode = torch.no_grad  # within it views of such tensors cannot be made
        torch._C._set_only_lift_cpu_tensors(True)  # numbers become tensors on the CPU, and are copied from there
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        torch._C._set_only_lift_cpu_tensors(self._lifted)
        lazy_torch.inference_mode = self._inference_mode
        super().__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return called(func, args, kwargs or {})


def called(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The operator on the CPU, its results where a device would leave them."""
    given = tree_leaves((args, kwargs))
    tensors = [value for value in given if isinstance(value, torch.Tensor)]
    on_device = [value for value in tensors if isinstance(value, DeviceTensor)]
    wanted = next((value for value in given if isinstance(value, torch.device)), None)
    is_copy = func in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
    if on_device and not is_copy and any(value.device.type == "cpu" and value.dim() for value in tensors):
        raise RuntimeError(f"{func}: all tensors are expected on the same device, and these are on cuda:0 and cpu")
    args, kwargs = tree_map(_on_host, (tuple(args), dict(kwargs)))
    results = func(*args, **kwargs)
    there = bool(on_device) if wanted is None else wanted.type == "cuda"
    if func is torch.ops.aten.copy_.default:
        there = isinstance(tensors[0], DeviceTensor)
    held = {id(value.host): value for value in on_device}

    def placed(value: Any) -> Any:
        if id(value) in held:  # it was written in place
            return held[id(value)]
        return DeviceTensor(value) if there and isinstance(value, torch.Tensor) else value

    return tree_map(placed, results)


def _on_host(value: Any) -> Any:
    if isinstance(value, DeviceTensor):
        return value.host
    return torch.device("cpu") if isinstance(value, torch.device) else value
