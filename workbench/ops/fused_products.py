"""Products with a bias and an activation in the same pass, as functions in the domain "workbench".

`MatMulAddRelu(x, w, bias)` is Relu(x @ w + bias), where the bias is a vector of the columns of w; `GemmRelu(a, b, c)`
is Relu of ONNX's Gemm. Each activation makes two operators, since the body of an ONNX function cannot depend on an
attribute.

Source: cuBLASLt's epilogues, https://docs.nvidia.com/cuda/cublas/#cublasltepilogue-t; ONNX Runtime's FusedGemm.
"""

from __future__ import annotations

from workbench.ops.contract import operator
from workbench.ops.fused_activations import OF_PRODUCTS, FusedActivation
from workbench.ops.fusion_kinds import FUSABLE
from workbench.ops.lazy import F
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


FUSED_PRODUCT_BODIES = {f"MatMulAdd{one.name}": _matmul_body(one) for one in OF_PRODUCTS} | {
    f"Gemm{one.name}": _gemm_body(one) for one in OF_PRODUCTS
}


def _enter(activation: FusedActivation) -> None:
    """Register both operators of the activation."""

    def flops_of_matmul(node, inputs, outputs):
        plain = matmul_flops(node, inputs, outputs)
        return None if plain is None else plain + outputs[0].elements * (activation.flops + 1)

    def flops_of_gemm(node, inputs, outputs):
        plain = gemm_flops(node, inputs, outputs)
        return None if plain is None else plain + outputs[0].elements * activation.flops

    def matmul_add(call, x, w, bias):
        return activation.run(call, F.linear(x, w.t(), bias))

    def biased_gemm(call, a, b, c=None):
        return activation.run(call, gemm(call, a, b, c))

    for op, layout, flops, run in (
        (f"workbench.MatMulAdd{activation.name}", MATMUL, flops_of_matmul, matmul_add),
        (f"workbench.Gemm{activation.name}", GEMM, flops_of_gemm, biased_gemm),
    ):
        operator(op, category="matmul", layout=layout, fusion=FUSABLE, flops=flops)(run)


for _activation in OF_PRODUCTS:
    _enter(_activation)
