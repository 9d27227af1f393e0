"""Operators on shapes, and operators that create tensors: constants, ranges, random numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from workbench.ir import Constant
from workbench.ops.contract import Call, operator, per_output
from workbench.ops.dtypes import UnsupportedByTorch, constant_tensor, torch_dtype
from workbench.ops.fusion_kinds import OPAQUE
from workbench.ops.lazy import torch
from workbench.ops.permutation.kinds import LAYOUT_BARRIER, SIZE
from workbench.ops.permutation.permuted_attributes import EYE, SHAPE


@operator("Shape", category="shape", layout=SHAPE, fusion=OPAQUE)
def shape(call: Call, x: torch.Tensor) -> torch.Tensor:
    """x: [*D] -> [K]"""
    dims = slice(call.attr("start"), call.attr("end"))
    return torch.tensor(x.shape[dims], dtype=torch.int64, device=call.device)


@operator("Size", category="shape", layout=SIZE, fusion=OPAQUE)
def size(call: Call, x: torch.Tensor) -> torch.Tensor:
    """x: [*D] -> []"""
    return torch.tensor(x.numel(), dtype=torch.int64, device=call.device)


@operator("Constant", category="shape", layout=LAYOUT_BARRIER, fusion=OPAQUE)
def constant(call: Call) -> torch.Tensor:
    """A Constant whose value refers to a function's attribute; others become constants of the graph when it is loaded.

    -> [*D]
    """
    dtypes = {
        "value_int": torch.int64,
        "value_ints": torch.int64,
        "value_float": torch.float32,
        "value_floats": torch.float32,
    }
    for name, dtype in dtypes.items():
        if call.attr(name) is not None:
            return call.cached_tensor(name, partial(torch.tensor, call.attr(name), dtype=dtype))
    return call.cached_tensor("value", partial(_numbers, call.attr("value")))


def _numbers(constant: Constant) -> torch.Tensor:
    tensor = constant_tensor(constant)
    if isinstance(tensor, np.ndarray):
        raise UnsupportedByTorch("torch has no strings")
    return tensor


@operator("ConstantOfShape", category="shape", layout=LAYOUT_BARRIER, fusion=OPAQUE, host_inputs=(0,))
def constant_of_shape(call: Call, dims: torch.Tensor) -> torch.Tensor:
    """dims: [K] -> [*D]"""
    value = call.attr("value")
    if value is None:
        return torch.zeros(dims.tolist(), device=call.device)
    element = _numbers(value)
    return torch.full(dims.tolist(), element.item(), dtype=element.dtype, device=call.device)


@operator("Range", category="shape", layout=LAYOUT_BARRIER, fusion=OPAQUE, host_inputs=(0, 1, 2))
def range_(call: Call, start: torch.Tensor, limit: torch.Tensor, delta: torch.Tensor) -> torch.Tensor:
    """-> [K]"""
    first, step = start.item(), delta.item()
    count = max(math.ceil((limit.item() - first) / step), 0)
    wide = torch.promote_types(start.dtype, torch.float32) if start.is_floating_point() else torch.int64
    steps = torch.arange(count, dtype=wide, device=call.device)
    return (steps * step + first).to(start.dtype)


@operator("EyeLike", category="shape", layout=EYE, fusion=OPAQUE)
def eye_like(call: Call, x: torch.Tensor) -> torch.Tensor:
    dtype = x.dtype if call.attr("dtype") is None else torch_dtype(call.attr("dtype"))
    rows, columns = (torch.arange(n, device=x.device) for n in x.shape)
    diagonal: int = call.attr("k")
    return (columns.unsqueeze(0) - rows.unsqueeze(1) == diagonal).to(dtype)


# ---- random numbers: a seed fixes them for a kind of device; other runtimes draw others ----


def _generator(call: Call) -> torch.Generator | None:
    seed = call.attr("seed")
    if seed is None:
        return None
    return torch.Generator(call.device).manual_seed(int(seed))


def _normal(call: Call, dims: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    mean: float = call.attr("mean")
    scale: float = call.attr("scale")
    return (torch.randn(dims, generator=_generator(call), device=call.device) * scale + mean).to(dtype)


def _uniform(call: Call, dims: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    low: float = call.attr("low")
    high: float = call.attr("high")
    return (torch.rand(dims, generator=_generator(call), device=call.device) * (high - low) + low).to(dtype)


def _dtype_like(call: Call, x: torch.Tensor) -> torch.dtype:
    return x.dtype if call.attr("dtype") is None else torch_dtype(call.attr("dtype"))


@operator("RandomNormal", category="other", layout=LAYOUT_BARRIER, fusion=OPAQUE, flops=per_output(1))
def random_normal(call: Call) -> torch.Tensor:
    """-> [*shape]"""
    return _normal(call, call.attr("shape"), torch_dtype(call.attr("dtype")))


@operator("RandomNormalLike", category="other", layout=LAYOUT_BARRIER, fusion=OPAQUE, flops=per_output(1))
def random_normal_like(call: Call, x: torch.Tensor) -> torch.Tensor:
    return _normal(call, x.shape, _dtype_like(call, x))


@operator("RandomUniform", category="other", layout=LAYOUT_BARRIER, fusion=OPAQUE, flops=per_output(1))
def random_uniform(call: Call) -> torch.Tensor:
    """-> [*shape]"""
    return _uniform(call, call.attr("shape"), torch_dtype(call.attr("dtype")))


@operator("RandomUniformLike", category="other", layout=LAYOUT_BARRIER, fusion=OPAQUE, flops=per_output(1))
def random_uniform_like(call: Call, x: torch.Tensor) -> torch.Tensor:
    return _uniform(call, x.shape, _dtype_like(call, x))


@operator("Bernoulli", category="other", layout=LAYOUT_BARRIER, fusion=OPAQUE, flops=per_output(1))
def bernoulli(call: Call, x: torch.Tensor) -> torch.Tensor:
    """Ones with the probabilities x, zeros otherwise."""
    drawn = torch.rand(x.shape, generator=_generator(call), device=x.device) < x
    return drawn.to(_dtype_like(call, x))
