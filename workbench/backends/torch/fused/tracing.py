"""Traces a group of operators into calls of torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workbench.backends.failures import first_line
from workbench.backends.torch.executor.program import Program
from workbench.backends.torch.fused.lowering import NoLowering


@dataclass(frozen=True)
class TracedGroup:
    """A traced group. module: a torch.fx.GraphModule that takes `tensors`, the group's operands at `positions`."""

    module: Any
    tensors: list[Any]
    positions: tuple[int, ...]


def trace_group(body: Program, operands: Sequence[Any]) -> TracedGroup:
    """Trace the program of a group on these operands; those that are not tensors are fixed. Raises NoLowering."""
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    positions = tuple(position for position, operand in enumerate(operands) if isinstance(operand, torch.Tensor))
    tensors = [operands[position] for position in positions]

    def run(*values: Any) -> tuple[Any, ...]:
        arguments = list(operands)
        for position, value in zip(positions, values, strict=True):
            arguments[position] = value
        return body.execute(arguments, ())

    try:
        return TracedGroup(make_fx(run)(*tensors), tensors, positions)
    except Exception as error:  # an operator that reads elements of operands may raise any exception
        raise NoLowering(f"it cannot be traced: {first_line(error)}") from error
