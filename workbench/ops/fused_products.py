"""Matrix products with a bias and an activation as one operator: functions in the domain "workbench".

`MatMulAddRelu(x, w, bias)` is Relu(x @ w + bias), where the bias is a vector of the columns of w; `GemmRelu(a, b, c)`
is Relu of ONNX's Gemm. Each activation makes two operators, since the body of an ONNX function cannot depend on an
attribute.

Source: cuBLASLt's epilogues, https://docs.nvidia.com/cuda/cublas/#cublasltepilogue-t; ONNX Runtime's FusedGemm.
"""

from __future__ import annotations

from workbench.ir import Node
from workbench.ops.contract import Call, Types, known_elements, operator
from workbench.ops.fused_activations import OF_PRODUCTS, FusedActivation
from workbench.ops.fusion_kinds import FUSABLE
from workbench.ops.lazy import F, torch
from workbench.ops.matmul import gemm, gemm_flops, matmul_flops
from workbench.ops.permutation.products import GEMM, MATMUL

_GEMM = "Gemm <alpha: float = @alpha, beta: float = @beta, transA: int = @transA, transB: int = @transB> (a, b, c)"


def _matmul_body(activation: FusedActivation) -> str:
    header = f"<{activation.references.removeprefix(', ')}> " if activation.attributes else ""
    return f"""MatMulAdd{activation.name} {header}(x, w, bias) => (y) {{
    p = MatMul (x, w)
    s = Add (p, bias)
    {activation.body}
}}"""


def _gemm_body(activation: FusedActivation) -> str:
    """The defaults are Gemm's."""
    header = f"alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0{activation.references}"
    return f"Gemm{activation.name} <{header}> (a, b, c) => (y) {{\n    s = {_GEMM}\n    {activation.body}\n}}"


FUSED_PRODUCT_BODIES = {f"MatMulAdd{activation.name}": _matmul_body(activation) for activation in OF_PRODUCTS} | {
    f"Gemm{activation.name}": _gemm_body(activation) for activation in OF_PRODUCTS
}


def _register(activation: FusedActivation) -> None:
    """Register both operators of the activation."""

    def flops_of_matmul(node: Node, inputs: Types, outputs: Types) -> int | None:
        plain, elements = matmul_flops(node, inputs, outputs), known_elements(outputs, 0)
        return None if plain is None or elements is None else plain + elements * (activation.flops + 1)

    def flops_of_gemm(node: Node, inputs: Types, outputs: Types) -> int | None:
        plain, elements = gemm_flops(node, inputs, outputs), known_elements(outputs, 0)
        return None if plain is None or elements is None else plain + elements * activation.flops

    def matmul_add(call: Call, x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """x: [*B, K], w: [K, N], bias: [N] -> [*B, N]"""
        return activation.run(call, F.linear(x, w.t(), bias))

    def biased_gemm(call: Call, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None = None) -> torch.Tensor:
        """a: [M, K] or [K, M], b: [K, N] or [N, K], c: broadcast to [M, N] -> [M, N]"""
        return activation.run(call, gemm(call, a, b, c))

    name = f"workbench.MatMulAdd{activation.name}"
    operator(name, category="matmul", layout=MATMUL, fusion=FUSABLE, flops=flops_of_matmul)(matmul_add)
    name = f"workbench.Gemm{activation.name}"
    operator(name, category="matmul", layout=GEMM, fusion=FUSABLE, flops=flops_of_gemm)(biased_gemm)


for _activation in OF_PRODUCTS:
    _register(_activation)
