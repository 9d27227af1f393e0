"""A group of operators as the calls of torch that it makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workbench.run.torch.executor.program import Program
from workbench.run.torch.fused.lowering import NoLowering
from workbench.run.worker.failures import first_line


@dataclass(frozen=True)
class TracedGroup:
    """module: a torch.fx.GraphModule that takes `tensors`, the operands at `places` of the group's."""

    module: Any
    tensors: list[Any]
    places: tuple[int, ...]


def trace_group(body: Program, operands: Sequence[Any]) -> TracedGroup:
    """The program of a group on these operands, the absent and those that are no tensors fixed. Raises NoLowering."""
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    places = tuple(place for place, operand in enumerate(operands) if isinstance(operand, torch.Tensor))
    tensors = [operands[place] for place in places]

    def run(*values: Any) -> tuple[Any, ...]:
        given = list(operands)
        for place, value in zip(places, values, strict=True):
            given[place] = value
        return body.execute(given, ())

    try:
        return TracedGroup(make_fx(run)(*tensors), tensors, places)
    except Exception as error:  # an operator that reads numbers of its operands may raise anything
        raise NoLowering(f"it cannot be traced: {first_line(error)}") from error
