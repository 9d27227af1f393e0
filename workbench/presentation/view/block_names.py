"""Names of groups that no scope names, by what their nodes compute: "bottleneck", "attention", "head"."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from workbench.ir import Node
from workbench.ops import contract_of

_MAIN_CATEGORIES = ("convolution", "matmul", "recurrent")  # categories of operators that come first in a name
_OPERATORS = 2  # in a name
_PRODUCTS = ("MatMul", "Gemm", "Einsum", "MatMulInteger", "QLinearMatMul")
_CONVOLUTIONS = ("Conv", "QLinearConv", "ConvInteger", "FusedConv")
_MOVING = (
    "Cast",
    "CastLike",
    "Expand",
    "Identity",
    "Transpose",
    "Reshape",
    "Shape",
    "Squeeze",
    "Unsqueeze",
    "Slice",
    "Gather",
    "Concat",
)
_UPSAMPLING = ("Resize", "Upsample", "ConvTranspose", "DepthToSpace")
_RECURRENT = ("LSTM", "GRU", "RNN")
_POOLED = ("GlobalAveragePool", "GlobalMaxPool", "ReduceMean")
_ACTIVATIONS = ("Relu", "Gelu", "Erf", "Sigmoid", "Tanh", "Swish", "HardSwish", "Elu", "LeakyRelu", "Softplus")
_NORMALIZATIONS = ("LayerNormalization", "SimplifiedLayerNormalization", "ReduceMean")
_PRODUCTS_OF_TRANSFORMER = 6  # of queries, keys, values and output, and two of the feed-forward network


class OperatorKind(NamedTuple):
    """An operator with the category of its contract."""

    op: str
    category: str


def block_name(
    nodes: Sequence[Node], shapes: Mapping[str, str], constants: Container[str], *, is_first: bool, is_last: bool
) -> str:
    """What a block is, by its nodes in topological order; else its main operators, such as "Conv, Add".

    shapes: of first results, such as "1x64x56x56", by node. constants: values that are no results of nodes.
    is_first, is_last: whether the model begins or ends with it.
    """
    ops = Counter(node.op_type for node in nodes)
    convolutions = [node for node in nodes if node.op_type in _CONVOLUTIONS]
    if recurrent := [op for op in _RECURRENT if ops[op]]:
        return recurrent[0]
    if is_last and not is_first and _is_head(ops):
        return "head"
    if ops["Attention"] or ops["MultiHeadAttention"] or (ops["Softmax"] and _count(ops, _PRODUCTS) > 1):
        is_whole = _count(ops, _PRODUCTS) >= _PRODUCTS_OF_TRANSFORMER and _count(ops, _NORMALIZATIONS) > 1
        return "transformer block" if is_whole else "attention"
    if convolutions:
        is_residual = any(_is_sum_of_results(node, constants) for node in nodes)
        kernels = [_kernel(node, shapes) for node in convolutions]
        return _name_of_convolutions(kernels, ops, is_residual, is_first) or main_operators(_operators(nodes))
    if _count(ops, _PRODUCTS) > 1 and _count(ops, _ACTIVATIONS):
        return "feed-forward"
    if is_first and ops["Gather"]:
        return "embedding"
    return main_operators(_operators(nodes))


def main_operators(counts: Mapping[OperatorKind, int], with_counts: bool = False) -> str:
    """The most frequent operators, products and convolutions first.

    with_counts: such as "5 Conv, 4 Add", and all Transposes, which show where a layout changes.
    """
    order = sorted(counts, key=lambda one: (one.category not in _MAIN_CATEGORIES, one.op in _MOVING, -counts[one]))
    if not with_counts:
        return ", ".join(one.op for one in order[:_OPERATORS])
    shown = [*order[:_OPERATORS], *(one for one in order[_OPERATORS:] if one.op == "Transpose")]
    return ", ".join(f"{counts[one]:,} {one.op}" for one in shown)


def _operators(nodes: Iterable[Node]) -> Counter[OperatorKind]:
    contracts = ((node, contract_of(node)) for node in nodes)
    return Counter(
        OperatorKind(node.op_type, "" if contract is None else contract.category) for node, contract in contracts
    )


def _name_of_convolutions(kernels: Sequence[str], ops: Counter[str], is_residual: bool, is_first: bool) -> str:
    """What a block with convolutions is; "" if it is nothing known."""
    if _count(ops, _UPSAMPLING):
        return "upsampling"
    around = list(zip(kernels, kernels[1:], kernels[2:], strict=False))
    if ("1", "depthwise", "1") in around:
        return "inverted residual"
    if is_residual and any(a == c == "1" and b not in ("1", "") for a, b, c in around):
        return "bottleneck"
    if ("depthwise", "1") in itertools.pairwise(kernels):
        return "separable convolution"
    if is_residual and len(kernels) > 1:
        return "residual block"
    return "stem" if is_first else ""


def _is_sum_of_results(node: Node, constants: Container[str]) -> bool:
    """Whether it adds results of nodes, as the end of a residual block does."""
    return node.op_type in ("Add", "Sum") and len(node.inputs) > 1 and not any(v in constants for v in node.inputs)


def _kernel(node: Node, shapes: Mapping[str, str]) -> str:
    """ "depthwise", "1" for a kernel of one element, the kernel's size, or "" if it is unknown."""
    groups = node.attributes.get("group", 1)
    channels = [*shapes.get(node.name, "").split("x"), "?"][1]
    if groups != 1 and channels in (str(groups), "?"):
        return "depthwise"
    size = node.attributes.get("kernel_shape")
    if not isinstance(size, tuple):
        return ""
    return "1" if set(size) == {1} else "x".join(map(str, size))


def _is_head(ops: Counter[str]) -> bool:
    """Whether the operators are the end of a network that classifies: pooling or a product, and few convolutions."""
    is_product = _count(ops, _PRODUCTS) > 0
    return (is_product or _count(ops, _POOLED) > 0) and _count(ops, _CONVOLUTIONS) <= _count(ops, _PRODUCTS)


def _count(ops: Counter[str], names: Iterable[str]) -> int:
    return sum(ops[name] for name in names)
