"""The operator contract: one record an operator, used by the layout engine, the executor and the figures.

A family file holds its operators' records next to their torch functions:

    @operator("Relu", category="activation", layout=AGNOSTIC, flops=per_output(1))
    def relu(call, x):
        return torch.relu(x)

Every family file in this folder is found by itself; nothing is listed by hand.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from workbench.ir import Graph, Node, TensorType
from workbench.ops.permutation.kinds import BARRIER, Layout

if TYPE_CHECKING:
    import torch

Types = Sequence[TensorType | None]
Figure = Callable[[Node, Types, Types], int | None]


class Call(Protocol):
    """What a torch function may ask about the call that it serves."""

    node: Node
    device: torch.device
    opset: int  # of the operator's domain

    def attr(self, name: str, default: Any = None) -> Any:
        """The node's attribute, references to a function's attributes resolved."""

    def run_body(self, body: Graph, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Run a body (of If, Loop, Scan) with the captured values in reach."""


@dataclass(frozen=True)
class Contract:
    """What is known of one operator.

    op:       "Conv", or "domain.Name".
    category: for colours and tables ("convolution", "normalization", ...).
    run:      torch function (call, *inputs) -> tensor or tuple of tensors;
              an optional input left out arrives as None.
    layout:   what a permuted input does to it.
    flops:    floating-point operations of one call (a multiply-add counts 2).
    host_inputs: operands read as numbers by the function (shapes, axes,
              pads): they stay in the CPU's memory.
    """

    op: str
    category: str
    run: Callable[..., Any]
    layout: Layout
    flops: Figure | None = None
    host_inputs: tuple[int, ...] = ()

    def count_flops(self, node: Node, inputs: Types, outputs: Types) -> int | None:
        """FLOPs of the call, None where a shape is not known."""
        return 0 if self.flops is None else self.flops(node, inputs, outputs)


_TABLE: dict[str, Contract] = {}


def operator(
    op: str,
    *,
    category: str,
    layout: Layout,
    flops: Figure | None = None,
    host_inputs: tuple[int, ...] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter the decorated torch function into the table as operator `op`."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        if op in _TABLE:
            raise ValueError(f"operator {op} has two contracts")
        _TABLE[op] = Contract(op, category, function, layout, flops, host_inputs)
        return function

    return enter


@cache
def contracts() -> Mapping[str, Contract]:
    """Every contract by operator, from all family files of this folder."""
    package = importlib.import_module("workbench.ops")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"workbench.ops.{module.name}")
    return _TABLE


def contract_of(node: Node) -> Contract | None:
    """The node's contract, None for an operator that the table does not know."""
    return contracts().get(node.op)


def layout_of(node: Node) -> Layout:
    """How the node's operator takes a permuted input; an unknown operator is a barrier."""
    contract = contract_of(node)
    return BARRIER if contract is None else contract.layout


# ---- figures that many operators share ----------------------------------------


def per_output(count: int) -> Figure:
    """`count` operations for each element of the first result."""
    return lambda node, ins, outs: _times(outs[0] if outs else None, count)


def per_input(count: int) -> Figure:
    """`count` operations for each element of the first operand."""
    return lambda node, ins, outs: _times(ins[0] if ins else None, count)


def _times(type_: TensorType | None, count: int) -> int | None:
    elements = None if type_ is None else type_.elements
    return None if elements is None else elements * count
