"""The operator contract: what the layout engine, the executor and the metrics know about an operator.

A family file registers its operators' contracts with their torch functions:

    @operator("Gemm", category="matmul", layout=GEMM, fusion=FUSABLE, flops=gemm_flops)
    def gemm(call: Call, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None = None) -> torch.Tensor:
        "a: [M, K] or [K, M], b: [K, N] or [N, K], c: broadcast to [M, N] -> [M, N]"
        return ...

The last paragraph of a function's docstring gives shapes, one line for each form of the operator. Letters are ONNX's:
N is a batch, C channels, `*D` any number of axes, which are broadcast where several operands have them; `[]` is a
scalar. An operand without a shape is a scalar. Where neither such a paragraph nor a sentence gives shapes, all operands
are broadcast to one shape, which is that of the results.

Every family file in this folder is discovered; there is no list to edit.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Concatenate, Protocol, TypeAlias, TypeVar

from onnx import defs

from workbench.ir import Graph, Node, TensorType
from workbench.ops.fusion_kinds import OPAQUE, FusionKind, KindOfNode
from workbench.ops.permutation.kinds import LAYOUT_BARRIER, Layout

if TYPE_CHECKING:
    import numpy as np
    import torch
    from onnx import NodeProto

Types: TypeAlias = Sequence[TensorType | None]
# The FLOPs of a call: its node, operands' and results' types.
FlopCount: TypeAlias = Callable[[Node, Types, Types], int | None]
StandIn: TypeAlias = Callable[["NodeProto"], "list[NodeProto]"]

Value: TypeAlias = "torch.Tensor | np.ndarray | list[torch.Tensor] | None"  # tensor, strings, sequence, absent optional
TorchFunction: TypeAlias = Callable[Concatenate["Call", ...], "Value | tuple[Value, ...]"]
OperatorFunctionT = TypeVar("OperatorFunctionT", bound=TorchFunction)


class Call(Protocol):
    """What a torch function can learn about the call that it computes."""

    node: Node
    device: torch.device
    is_narrowed: bool  # whether the run computes the graph's float32 in a narrower type

    def attr(self, name: str, default: Any = None) -> Any:
        """The node's attribute, as `Node.attr`, with references to a function's attributes resolved."""

    def number(self, index: int) -> int | None:
        """The operand at that index if it is a constant integer of rank 0, else None."""

    def cached_tensor(self, key: Hashable, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        """The tensor that `make` computes on the CPU from `key` alone, on the call's device, kept for later runs."""

    def run_body(self, body: Graph, inputs: Sequence[Value]) -> tuple[Any, ...]:
        """The results of a body (of If, Loop, Scan) on these inputs and its captured values."""


@dataclass(frozen=True)
class Contract:
    """The contract of one operator.

    op:       "Conv", or "domain.Name".
    category: for colours and tables ("convolution", "normalization", ...).
    run:      torch function (call, *operands) -> result or tuple of results;
              an omitted optional operand is None.
    layout:   how it behaves on permuted operands.
    fusion:   on which elements of its operands an element of its result depends; a function if that depends on the
              node's attributes.
    flops:    counts the floating-point operations of one call (a multiply-add counts 2).
    host_inputs: indices of operands whose numbers the function reads (shapes, axes, pads);
              they stay in the CPU's memory.
    stand_in: for an operator that ONNX does not define, nodes of ONNX's operators whose
              results have the types of its results, for inference. None: ONNX infers
              them, or they stay unknown.
    pure:     whether equal calls give equal results.
    """

    op: str
    category: str
    run: TorchFunction
    layout: Layout
    fusion: FusionKind | KindOfNode
    flops: FlopCount | None = None
    host_inputs: tuple[int, ...] = ()
    stand_in: StandIn | None = None
    pure: bool = True

    def count_flops(self, node: Node, inputs: Types, outputs: Types) -> int | None:
        """FLOPs of the call; None if a shape is unknown."""
        return 0 if self.flops is None else self.flops(node, inputs, outputs)

    def fusion_kind(self, node: Node) -> FusionKind:
        return self.fusion if isinstance(self.fusion, FusionKind) else self.fusion(node)


_TABLE: dict[str, Contract] = {}
_DECLARED: dict[str, Contract] = {}  # of operators that the user declares, as last read


def operator(
    op: str,
    *,
    category: str,
    layout: Layout,
    fusion: FusionKind | KindOfNode,
    flops: FlopCount | None = None,
    host_inputs: tuple[int, ...] = (),
    stand_in: StandIn | None = None,
) -> Callable[[OperatorFunctionT], OperatorFunctionT]:
    """Register the decorated torch function as operator `op`."""

    def register(run: OperatorFunctionT) -> OperatorFunctionT:
        if op in _TABLE:
            raise ValueError(f"operator {op} has two contracts")
        _TABLE[op] = Contract(op, category, run, layout, fusion, flops, host_inputs, stand_in)
        return run

    return register


@cache
def contracts() -> Mapping[str, Contract]:
    """All contracts by operator, from the family files of this folder."""
    package = importlib.import_module("workbench.ops")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"workbench.ops.{module.name}")
    return _TABLE


def set_declared(declared: Mapping[str, Contract]) -> None:
    """The contracts of operators that the user declares, in place of earlier ones."""
    _DECLARED.clear()
    _DECLARED.update(declared)


def contract_of(node: Node) -> Contract | None:
    """The contract of the node's operator, of the workbench or declared by the user; None if there is none."""
    return contract_by_name(node.op)


def contract_by_name(op: str) -> Contract | None:
    return contracts().get(op) or _DECLARED.get(op)


def is_pure(node: Node) -> bool:
    """Whether equal calls of the operator, with no random numbers of its own, give equal results.

    An operator that nothing defines may do anything.
    """
    contract = contract_of(node)
    return bool(defs.has(node.op_type, node.domain)) if contract is None else contract.pure


def layout_of(node: Node) -> Layout:
    """The layout part of the node's contract; an unknown operator is a barrier."""
    contract = contract_of(node)
    return LAYOUT_BARRIER if contract is None else contract.layout


def fusion_kind_of(node: Node) -> FusionKind:
    """The fusion kind of the node; an unknown operator is opaque."""
    contract = contract_of(node)
    return OPAQUE if contract is None else contract.fusion_kind(node)


# ---- counting FLOPs -------------------------------------------------------------


def per_output(count: int) -> FlopCount:
    """`count` operations for each element of the first result."""
    return lambda node, inputs, outputs: _times(known_elements(outputs, 0), count)


def per_input(count: int) -> FlopCount:
    """`count` operations for each element of the first operand."""
    return lambda node, inputs, outputs: _times(known_elements(inputs, 0), count)


def _times(elements: int | None, count: int) -> int | None:
    return None if elements is None else elements * count


def known_shape(types: Types, index: int) -> tuple[int, ...] | None:
    """The shape of the operand or result at that index; None if it is omitted, or a dim is not known."""
    type_ = types[index] if index < len(types) else None
    return None if type_ is None else type_.static_shape


def known_elements(types: Types, index: int) -> int | None:
    """The number of elements of the operand or result at that index; None if it is omitted, or not known."""
    shape = known_shape(types, index)
    return None if shape is None else math.prod(shape)
