"""Matrix products, also of integers and by Einstein's notation."""

from __future__ import annotations

from workbench.ir import Node
from workbench.ops.contract import Call, Types, known_elements, known_shape, operator
from workbench.ops.fusion_kinds import FUSABLE, OPAQUE
from workbench.ops.lazy import F, torch
from workbench.ops.permutation.kinds import LAYOUT_BARRIER
from workbench.ops.permutation.products import EINSUM, GEMM, MATMUL, MATMUL_INTEGER


def matmul_flops(node: Node, inputs: Types, outputs: Types) -> int | None:
    """2 K for each element of the result, where K is the length of the contracted axis."""
    shape = None if inputs[0] is None else inputs[0].shape
    elements = known_elements(outputs, 0)
    if not shape or elements is None or not isinstance(shape[-1], int):
        return None
    return 2 * elements * shape[-1]


def gemm_flops(node: Node, inputs: Types, outputs: Types) -> int | None:
    shape, elements = known_shape(inputs, 0), known_elements(outputs, 0)
    if shape is None or elements is None:
        return None
    bias = elements if len(inputs) > 2 and inputs[2] is not None else 0
    contracted = shape[0] if node.attr("transA", 0) else shape[1]
    return 2 * elements * contracted + bias


@operator("MatMul", category="matmul", layout=MATMUL, fusion=FUSABLE, flops=matmul_flops)
def matmul(call: Call, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Matrices, or a vector and matrices, or two vectors.

    a: [*B, M, K], b: [*B, K, N] -> [*B, M, N]
    a: [K], b: [*B, K, N] -> [*B, N]
    a: [*B, M, K], b: [K] -> [*B, M]
    a: [K], b: [K] -> []
    """
    if a.dtype.is_floating_point:
        return torch.matmul(a, b)
    return integer_matmul(a, b).to(a.dtype)


@operator("Gemm", category="matmul", layout=GEMM, fusion=FUSABLE, flops=gemm_flops)
def gemm(call: Call, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None = None) -> torch.Tensor:
    """alpha * A @ B + beta * C, where A is a or, with transA, its transpose; so is B.

    a: [M, K] or [K, M], b: [K, N] or [N, K], c: broadcast to [M, N] -> [M, N]
    """
    if _is_linear(call, a, b, c):
        return F.linear(a, b, c)
    a = a.t() if call.attr("transA", 0) else a
    b = b.t() if call.attr("transB", 0) else b
    alpha: float = call.attr("alpha", 1.0)
    beta: float = call.attr("beta", 1.0)
    if not a.dtype.is_floating_point:
        product = integer_matmul(a, b) * alpha
        return (product if c is None else product + beta * c).to(a.dtype)
    if c is None or beta == 0.0:
        product = a @ b
        return product if alpha == 1.0 else product * alpha
    if alpha == 0.0:  # addmm would skip the product, with its NaN and infinities
        return (a @ b) * alpha + c * beta
    return torch.addmm(c, a, b, beta=beta, alpha=alpha)


def _is_linear(call: Call, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None) -> bool:
    """Whether F.linear computes this Gemm: it takes the weights as they are, so that no run makes a view of them."""
    if c is None or call.attr("transA", 0) or not call.attr("transB", 0) or not a.dtype.is_floating_point:
        return False
    is_plain: bool = call.attr("alpha", 1.0) == call.attr("beta", 1.0) == 1.0
    return is_plain and c.shape == b.shape[:1]


@operator("Einsum", category="matmul", layout=EINSUM, fusion=FUSABLE)
def einsum(call: Call, *operands: torch.Tensor) -> torch.Tensor:
    """The axes of operands and result are those of the equation, "ij,jk->ik"."""
    return torch.einsum(call.attr("equation"), *operands).to(operands[0].dtype)  # torch sums int32 in int64


def integer_matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b in int64. Bytes are multiplied in float64, which is faster and holds their sums exactly."""
    if a.dtype.itemsize == b.dtype.itemsize == 1:
        return (a.double() @ b.double()).to(torch.int64)
    return a.to(torch.int64) @ b.to(torch.int64)


@operator("MatMulInteger", category="matmul", layout=MATMUL_INTEGER, fusion=FUSABLE, flops=matmul_flops)
def matmul_integer(
    call: Call, a: torch.Tensor, b: torch.Tensor, a_zero: torch.Tensor | None = None, b_zero: torch.Tensor | None = None
) -> torch.Tensor:
    """(a - a_zero) @ (b - b_zero) in int32.

    a: [*B, M, K], b: [*B, K, N], a_zero: [] or [M] or [*B, M, 1], b_zero: [] or [N] or [*B, 1, N] -> [*B, M, N]
    """
    return matmul_with_zero_points(a, b, a_zero, b_zero)


def matmul_with_zero_points(
    a: torch.Tensor, b: torch.Tensor, a_zero: torch.Tensor | None, b_zero: torch.Tensor | None
) -> torch.Tensor:
    """(a - a_zero) @ (b - b_zero) in int32; a vector of zero points has one per row of a, or per column of b."""
    wide_a, wide_b = a.double(), b.double()
    if a_zero is not None:
        wide_a = wide_a - (a_zero.unsqueeze(-1) if a_zero.dim() == 1 and a.dim() > 1 else a_zero).double()
    if b_zero is not None:
        wide_b = wide_b - b_zero.double()
    return (wide_a @ wide_b).to(torch.int64).to(torch.int32)  # overflow wraps around


@operator("Det", category="matmul", layout=LAYOUT_BARRIER, fusion=OPAQUE)
def det(call: Call, x: torch.Tensor) -> torch.Tensor:
    """x: [*B, M, M] -> [*B]"""
    result: torch.Tensor = torch.linalg.det(x)
    return result
