"""Whether ONNX Runtime's products of 8-bit integers are exact on this CPU.

Without VNNI its kernels add two products of uint8 by int8 in 16 bits, which saturate (MLAS, the AVX2 kernel of
U8S8 in onnxruntime/core/mlas/lib; `reduce_range` of its quantizers avoids it). Weights of 7 bits always fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from workbench.ir import Graph, from_text

WARNING = (
    "On this CPU ONNX Runtime's products of 8-bit integers saturate at 16 bits, and on one with VNNI they do not; they "
    "are exact here with weights of 7 bits, which its quantizers make with reduce_range."
)

_PRODUCTS = frozenset((
    *("ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul", "com.microsoft.QGemm"),
    *("com.microsoft.MatMulIntegerToFloat", "com.microsoft.DynamicQuantizeMatMul"),
    *("com.microsoft.QAttention", "com.microsoft.DynamicQuantizeLSTM"),
))  # fmt: skip
_TWO_LARGE_PRODUCTS = "g (uint8[1,2] x, int8[2,1] w) => (int32[1,1] y) { y = MatMulInteger(x, w) }"


def multiplies_8_bits(graph: Graph) -> bool:
    """Whether the graph, or a body or function of it, has a product of 8-bit integers."""
    inner = [body for node in graph.nodes for body in node.bodies.values()]
    inner += [function.graph for function in graph.functions.values()]
    return any(node.op in _PRODUCTS for node in graph.nodes) or any(map(multiplies_8_bits, inner))


def in_7_bits(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The tensors, int8 among them halved: from -64 to 63."""
    return {name: tensor // 2 if tensor.dtype == np.int8 else tensor for name, tensor in tensors.items()}


@cache
def saturates_here() -> bool:
    """Whether 255 * 127 + 255 * 127 comes out smaller than it is."""
    import onnxruntime as ort

    from workbench.formats.io.exporting import to_bytes

    session = ort.InferenceSession(to_bytes(from_text(_TWO_LARGE_PRODUCTS)), providers=["CPUExecutionProvider"])
    operands = {"x": np.full((1, 2), 255, np.uint8), "w": np.full((2, 1), 127, np.int8)}
    (result,) = session.run(None, operands)
    return int(result[0, 0]) != 2 * 255 * 127
