"""The operator contract: what the layout engine, the executor and the metrics know about an operator.

A family file registers its operators' contracts with their torch functions:

    @operator("Relu", category="activation", layout=AGNOSTIC, fusion=ELEMENTWISE, flops=per_output(1))
    def relu(call, x):
        return torch.relu(x)

Every family file in this folder is discovered; there is no list to edit.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from workbench.ir import Graph, Node, TensorType
from workbench.ops.fusion_kinds import OPAQUE, FusionKind, KindOfNode
from workbench.ops.permutation.kinds import BARRIER, Layout

if TYPE_CHECKING:
    import torch
    from onnx import NodeProto

Types = Sequence[TensorType | None]
Figure = Callable[[Node, Types, Types], int | None]
StandIn = Callable[["NodeProto"], "list[NodeProto]"]


class Call(Protocol):
    """What a torch function can learn about the call that it computes."""

    node: Node
    device: torch.device
    opset: int  # version of the operator's domain
    is_narrowed: bool  # whether the run computes the graph's float32 in a narrower type

    def attr(self, name: str, default: Any = None) -> Any:
        """As of the node, with references to a function's attributes resolved."""

    def number(self, place: int) -> int | None:
        """The operand at that place if it is a constant integer of rank 0, else None."""

    def held(self, key: Hashable, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        """What `make` computes on the CPU from nothing but `key`, on the call's device, kept for later runs."""

    def run_body(self, body: Graph, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Run a body (of If, Loop, Scan) with its captured values."""


@dataclass(frozen=True)
class Contract:
    """The contract of one operator.

    op:       "Conv", or "domain.Name".
    category: for colours and tables ("convolution", "normalization", ...).
    run:      torch function (call, *inputs) -> tensor or tuple of tensors;
              an omitted optional input is None.
    layout:   how it behaves on permuted operands.
    fusion:   on which elements of its operands an element of its result depends; a function if that depends on the
              node's attributes.
    flops:    floating-point operations of one call (a multiply-add counts 2).
    host_inputs: operands whose numbers the function reads (shapes, axes,
              pads): they stay in the CPU's memory.
    stand_in: for an operator that ONNX does not define, nodes of ONNX's operators
              whose results have the types of its results, for inference; None: its
              results get no types, or ONNX infers them.
    """

    op: str
    category: str
    run: Callable[..., Any]
    layout: Layout
    fusion: FusionKind | KindOfNode
    flops: Figure | None = None
    host_inputs: tuple[int, ...] = ()
    stand_in: StandIn | None = None

    def count_flops(self, node: Node, inputs: Types, outputs: Types) -> int | None:
        """FLOPs of the call; None if a shape is unknown."""
        return 0 if self.flops is None else self.flops(node, inputs, outputs)

    def fusion_kind(self, node: Node) -> FusionKind:
        return self.fusion if isinstance(self.fusion, FusionKind) else self.fusion(node)


_TABLE: dict[str, Contract] = {}


def operator(
    op: str,
    *,
    category: str,
    layout: Layout,
    fusion: FusionKind | KindOfNode,
    flops: Figure | None = None,
    host_inputs: tuple[int, ...] = (),
    stand_in: StandIn | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated torch function as operator `op`."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        if op in _TABLE:
            raise ValueError(f"operator {op} has two contracts")
        _TABLE[op] = Contract(op, category, function, layout, fusion, flops, host_inputs, stand_in)
        return function

    return enter


@cache
def contracts() -> Mapping[str, Contract]:
    """All contracts by operator, from the family files of this folder."""
    package = importlib.import_module("workbench.ops")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"workbench.ops.{module.name}")
    return _TABLE


def contract_of(node: Node) -> Contract | None:
    """The contract of the node's operator; None if there is none."""
    return contracts().get(node.op)


def layout_of(node: Node) -> Layout:
    """The layout part of the node's contract; an unknown operator is a barrier."""
    contract = contract_of(node)
    return BARRIER if contract is None else contract.layout


def fusion_kind_of(node: Node) -> FusionKind:
    """The fusion kind of the node; an unknown operator is opaque."""
    contract = contract_of(node)
    return OPAQUE if contract is None else contract.fusion_kind(node)


# ---- FLOPs that many operators share ------------------------------------------


def per_output(count: int) -> Figure:
    """`count` operations for each element of the first result."""
    return lambda node, ins, outs: _times(outs[0] if outs else None, count)


def per_input(count: int) -> Figure:
    """`count` operations for each element of the first operand."""
    return lambda node, ins, outs: _times(ins[0] if ins else None, count)


def _times(type_: TensorType | None, count: int) -> int | None:
    elements = None if type_ is None else type_.elements
    return None if elements is None else elements * count
