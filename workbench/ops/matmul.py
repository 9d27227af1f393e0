"""Matrix products, also of integers and by Einstein's notation."""

from __future__ import annotations

from workbench.ops.contract import operator
from workbench.ops.fusion_kinds import FUSABLE, OPAQUE
from workbench.ops.lazy import torch
from workbench.ops.permutation.kinds import BARRIER
from workbench.ops.permutation.products import EINSUM, GEMM, MATMUL, MATMUL_INTEGER


def matmul_flops(node, inputs, outputs):
    """2 K for each element of the result, where K is the length of the contracted axis."""
    shape = None if inputs[0] is None else inputs[0].shape
    elements = None if outputs[0] is None else outputs[0].elements
    if not shape or elements is None or not isinstance(shape[-1], int):
        return None
    return 2 * elements * shape[-1]


def gemm_flops(node, inputs, outputs):
    shape = None if inputs[0] is None else inputs[0].static_shape
    elements = None if outputs[0] is None else outputs[0].elements
    if shape is None or elements is None:
        return None
    bias = elements if len(inputs) > 2 and inputs[2] is not None else 0
    return 2 * elements * shape[0 if node.attr("transA", 0) else 1] + bias


@operator("MatMul", category="matmul", layout=MATMUL, fusion=FUSABLE, flops=matmul_flops)
def matmul(call, a, b):
    if a.dtype.is_floating_point:
        return torch.matmul(a, b)
    return integer_matmul(a, b).to(a.dtype)


@operator("Gemm", category="matmul", layout=GEMM, fusion=FUSABLE, flops=gemm_flops)
def gemm(call, a, b, c=None):
    a = a.t() if call.attr("transA", 0) else a
    b = b.t() if call.attr("transB", 0) else b
    alpha, beta = call.attr("alpha", 1.0), call.attr("beta", 1.0)
    if not a.dtype.is_floating_point:
        product = integer_matmul(a, b) * alpha
        return (product if c is None else product + beta * c).to(a.dtype)
    if c is None or beta == 0.0:
        product = a @ b
        return product if alpha == 1.0 else product * alpha
    if alpha == 0.0:  # torch then skips the product, with its NaN and infinities
        return (a @ b) * alpha + c * beta
    return torch.addmm(c, a, b, beta=beta, alpha=alpha)


@operator("Einsum", category="matmul", layout=EINSUM, fusion=FUSABLE)
def einsum(call, *operands):
    return torch.einsum(call.attr("equation"), *operands).to(operands[0].dtype)  # torch sums int32 in int64


def integer_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The exact product: of bytes in float64, in which their sums are exact, of wider integers in int64."""
    if a.dtype.itemsize == b.dtype.itemsize == 1:
        return (a.double() @ b.double()).to(torch.int64)
    return a.to(torch.int64) @ b.to(torch.int64)


@operator("MatMulInteger", category="matmul", layout=MATMUL_INTEGER, fusion=FUSABLE, flops=matmul_flops)
def matmul_integer(call, a, b, a_zero=None, b_zero=None):
    return matmul_with_zero_points(a, b, a_zero, b_zero)


def matmul_with_zero_points(
    a: torch.Tensor, b: torch.Tensor, a_zero: torch.Tensor | None, b_zero: torch.Tensor | None
) -> torch.Tensor:
    """(a - a_zero) @ (b - b_zero) in int32; a vector of zero points is per row of a, per column of b."""
    wide_a, wide_b = a.double(), b.double()
    if a_zero is not None:
        wide_a = wide_a - (a_zero.unsqueeze(-1) if a_zero.dim() == 1 and a.dim() > 1 else a_zero).double()
    if b_zero is not None:
        wide_b = wide_b - b_zero.double()
    return (wide_a @ wide_b).to(torch.int64).to(torch.int32)  # overflow wraps around


@operator("Det", category="matmul", layout=BARRIER, fusion=OPAQUE)
def det(call, x):
    return torch.linalg.det(x)
