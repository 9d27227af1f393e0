"""Operators on shapes, and operators that create tensors: constants, ranges, random numbers."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from workbench.ops.contract import Call, operator, per_output
from workbench.ops.dtypes import constant_tensor, torch_dtype
from workbench.ops.fusion_kinds import OPAQUE
from workbench.ops.lazy import torch
from workbench.ops.permutation.kinds import BARRIER, SIZE
from workbench.ops.permutation.remapped import EYE, SHAPE


@operator("Shape", category="shape", layout=SHAPE, fusion=OPAQUE)
def shape(call, x):
    dims = slice(call.attr("start"), call.attr("end"))
    return torch.tensor(x.shape[dims], dtype=torch.int64, device=call.device)


@operator("Size", category="shape", layout=SIZE, fusion=OPAQUE)
def size(call, x):
    return torch.tensor(x.numel(), dtype=torch.int64, device=call.device)


@operator("Constant", category="shape", layout=BARRIER, fusion=OPAQUE)
def constant(call):
    """A Constant whose value refers to a function's attribute; loading turns all others into constants of the graph."""
    kinds: dict[str, Any] = {
        "value_int": torch.int64,
        "value_ints": torch.int64,
        "value_float": torch.float32,
        "value_floats": torch.float32,
    }
    for name, dtype in kinds.items():
        if call.attr(name) is not None:
            return call.held(name, partial(torch.tensor, call.attr(name), dtype=dtype))
    return call.held("value", partial(constant_tensor, call.attr("value")))


@operator("ConstantOfShape", category="shape", layout=BARRIER, fusion=OPAQUE, host_inputs=(0,))
def constant_of_shape(call, dims):
    value = call.attr("value")
    if value is None:
        return torch.zeros(dims.tolist(), device=call.device)
    filling: Any = constant_tensor(value)
    return torch.full(dims.tolist(), filling.item(), dtype=filling.dtype, device=call.device)


@operator("Range", category="shape", layout=BARRIER, fusion=OPAQUE, host_inputs=(0, 1, 2))
def range_(call, start, limit, delta):
    first, step = start.item(), delta.item()
    count = max(math.ceil((limit.item() - first) / step), 0)
    wide = torch.promote_types(start.dtype, torch.float32) if start.is_floating_point() else torch.int64
    steps = torch.arange(count, dtype=wide, device=call.device)
    return (steps * step + first).to(start.dtype)


@operator("EyeLike", category="shape", layout=EYE, fusion=OPAQUE)
def eye_like(call, x):
    dtype = x.dtype if call.attr("dtype") is None else torch_dtype(call.attr("dtype"))
    rows, columns = (torch.arange(n, device=x.device) for n in x.shape)
    return (columns.unsqueeze(0) - rows.unsqueeze(1) == call.attr("k")).to(dtype)


# ---- random numbers: determined by the seed on one device, different from those of other runtimes ----


def _generator(call: Call) -> torch.Generator | None:
    seed = call.attr("seed")
    if seed is None:
        return None
    return torch.Generator(call.device).manual_seed(int(seed))


def _normal(call: Call, dims: Any, dtype: torch.dtype) -> torch.Tensor:
    x = torch.randn(dims, generator=_generator(call), device=call.device)
    return (x * call.attr("scale") + call.attr("mean")).to(dtype)


def _uniform(call: Call, dims: Any, dtype: torch.dtype) -> torch.Tensor:
    low, high = call.attr("low"), call.attr("high")
    return (torch.rand(dims, generator=_generator(call), device=call.device) * (high - low) + low).to(dtype)


def _dtype_like(call: Call, x: torch.Tensor) -> torch.dtype:
    return x.dtype if call.attr("dtype") is None else torch_dtype(call.attr("dtype"))


@operator("RandomNormal", category="other", layout=BARRIER, fusion=OPAQUE, flops=per_output(1))
def random_normal(call):
    return _normal(call, call.attr("shape"), torch_dtype(call.attr("dtype")))


@operator("RandomNormalLike", category="other", layout=BARRIER, fusion=OPAQUE, flops=per_output(1))
def random_normal_like(call, x):
    return _normal(call, x.shape, _dtype_like(call, x))


@operator("RandomUniform", category="other", layout=BARRIER, fusion=OPAQUE, flops=per_output(1))
def random_uniform(call):
    return _uniform(call, call.attr("shape"), torch_dtype(call.attr("dtype")))


@operator("RandomUniformLike", category="other", layout=BARRIER, fusion=OPAQUE, flops=per_output(1))
def random_uniform_like(call, x):
    return _uniform(call, x.shape, _dtype_like(call, x))


@operator("Bernoulli", category="other", layout=BARRIER, fusion=OPAQUE, flops=per_output(1))
def bernoulli(call, x):
    drawn = torch.rand(x.shape, generator=_generator(call), device=x.device) < x
    return drawn.to(_dtype_like(call, x))
