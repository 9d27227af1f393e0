"""Matrix products on permuted operands.

A product contracts the last axis of its first operand with the second to last of its second. Batch axes may be permuted
if they are permuted alike in both operands. If the second operand is one matrix, the axis of rows may be permuted with
them. A product of transposed matrices becomes a Gemm.
"""

from __future__ import annotations

from workbench.ir import Constant, DataType, Graph, Node
from workbench.ir.permutation import Permutation
from workbench.ops.permutation.kinds import (
    NO_OPERAND,
    Layout,
    NotPermutable,
    PermutedCall,
    Propagate,
    aligned,
    has_operand,
    with_attributes,
)

_GEMM_TYPES = (DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16)


def _propagate_product(second: int, by_row: tuple[int, ...]) -> Propagate:
    """For a product of operand 0 and operand `second`. by_row: indices of scales and zero points of operand 0."""

    def propagate_permutation(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
        ranks = graph.rank_of(node.inputs[0]), graph.rank_of(node.inputs[second])
        rank = len(perm)
        others = (v for i, v in enumerate(node.inputs) if v and i not in (0, second))
        per_batch = next((v for v in others if (graph.rank_of(v) or 0) > 1), None)
        if per_batch is not None:
            raise NotPermutable(f"operand '{per_batch}' of {node} has one number per batch")
        if rank == 2 and ranks == (2, 2) and perm == (1, 0) and node.op == "MatMul":
            return _as_gemm(graph, node)
        if ranks == (rank, 2) and rank > 2:
            return _propagate_rows(graph, node, perm, by_row)
        return _propagate_batches(graph, node, perm, ranks, second)

    return propagate_permutation


def _as_gemm(graph: Graph, node: Node) -> PermutedCall:
    """The MatMul of two transposed matrices, as a Gemm that transposes them back."""
    type_ = graph.tensor_type(node.inputs[0])
    if type_ is None or type_.dtype not in _GEMM_TYPES:
        raise NotPermutable(f"{node} does not multiply floats, for which alone Gemm takes a transposed operand")
    computed = _computed(graph, node)
    attributes = {name: 1 for index, name in enumerate(("transA", "transB")) if index in computed}
    return PermutedCall(computed, (None,), attributes, op_type="Gemm")


def _computed(graph: Graph, node: Node) -> tuple[int, ...]:
    """The indices of the factors that are not constants."""
    return tuple(index for index in (0, 1) if node.inputs[index] not in graph.constants)


def _propagate_rows(graph: Graph, node: Node, perm: Permutation, by_row: tuple[int, ...]) -> PermutedCall:
    """One matrix for all rows: any axes but the last may be permuted."""
    rank = len(perm)
    if perm[-1] != rank - 1:
        raise NotPermutable(f"{node} sums over the last axis, which would not be the last")
    scales = (node.inputs[i] for i in by_row if has_operand(node, i))
    per_row = next((value for value in scales if not _has_one_element(graph, value)), None)
    if per_row is not None and perm[-2] != rank - 2:
        raise NotPermutable(f"operand '{per_row}' of {node} has one number per row")
    return PermutedCall((0,), (perm,))


def _has_one_element(graph: Graph, value: str) -> bool:
    shape = graph.shape(value)
    return shape is not None and all(dim == 1 for dim in shape)


def _propagate_batches(
    graph: Graph, node: Node, perm: Permutation, ranks: tuple[int | None, int | None], second: int
) -> PermutedCall:
    """The batch axes of both operands are permuted alike; an operand with fewer axes is aligned."""
    rank = len(perm)
    if rank < 3 or perm[-2:] != (rank - 2, rank - 1):
        raise NotPermutable(f"{node} multiplies matrices of the last two axes, which would not be the last")
    inputs: list[int] = []
    aligned_inputs: list[int] = []
    constants: dict[int, Constant] = {}
    for index, operand_rank in zip((0, second), ranks, strict=True):
        value = node.inputs[index]
        tensor = graph.constant(value)
        if operand_rank == rank:
            inputs.append(index)
        elif operand_rank == 2:
            continue
        elif operand_rank is None or not 2 < operand_rank < rank:
            raise NotPermutable(
                f"operand '{value}' of {node} has rank {operand_rank}, and its batch axes cannot be aligned"
            )
        elif tensor is None:
            aligned_inputs.append(index)
        elif (aligned_tensor := aligned(tensor, perm)) is not None:
            constants[index] = aligned_tensor
    if not inputs:
        raise NotPermutable(f"no operand of {node} has {rank} axes")
    return PermutedCall(tuple(inputs), (perm,), constants=constants, aligned_inputs=tuple(aligned_inputs))


def _propagate_gemm(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """Permuted operands are read transposed; the result is unchanged."""
    if len(perm) != 2:
        raise NotPermutable(f"{node} reads matrices, not operands of {len(perm)} axes")
    computed = _computed(graph, node)
    if perm == (0, 1) or not computed:
        return PermutedCall(computed, (None,))
    transposed = {
        name: int(not node.attr(name, 0)) for index, name in enumerate(("transA", "transB")) if index in computed
    }
    return PermutedCall(computed, (None,), with_attributes(node, **transposed))


def _propagate_einsum(graph: Graph, node: Node, perm: Permutation) -> PermutedCall:
    """The letters of an operand are permuted with its axes; the result is unchanged."""
    terms, arrow, result = node.attr("equation").replace(" ", "").partition("->")
    if not arrow or "." in terms:
        raise NotPermutable(f"{node} has an equation with implicit axes")
    letters = terms.split(",")
    inputs = tuple(i for i, v in enumerate(node.inputs) if v not in graph.constants and len(letters[i]) == len(perm))
    if not inputs:
        raise NotPermutable(f"no operand of {node} has {len(perm)} axes")
    for index in inputs:
        letters[index] = "".join(letters[index][axis] for axis in perm)
    return PermutedCall(inputs, (None,), with_attributes(node, equation=f"{','.join(letters)}->{result}"))


MATMUL = Layout("remapped", _propagate_product(1, ()), NO_OPERAND)
MATMUL_INTEGER = Layout("remapped", _propagate_product(1, (2,)), NO_OPERAND)
QLINEAR_MATMUL = Layout("remapped", _propagate_product(3, (1, 2, 6, 7)), NO_OPERAND)
GEMM = Layout("remapped", _propagate_gemm, NO_OPERAND)
EINSUM = Layout("remapped", _propagate_einsum, NO_OPERAND)
