"""One operator on numbers, through its contract: what constant folding computes with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.ir import Graph, Node
from workbench.ops.contract import contract_of
from workbench.ops.lazy import torch as late_torch

if TYPE_CHECKING:
    import torch


class CannotEvaluate(ValueError):
    """The operator has no contract, or its contract refuses these operands; the message says which."""


@dataclass(frozen=True)
class _LoneCall:
    node: Node
    device: torch.device

    def attr(self, name: str, default: Any = None) -> Any:
        return self.node.attr(name, default)

    def run_body(self, body: Graph, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        raise CannotEvaluate(f"{self.node} has a body")


def evaluate(node: Node, operands: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...]:
    """The node's results on the CPU. Raises CannotEvaluate with a sentence."""
    contract = contract_of(node)
    if contract is None:
        raise CannotEvaluate(f"{node} has no contract")
    call = _LoneCall(node, late_torch.device("cpu"))
    tensors = [None if a is None else late_torch.from_numpy(np.array(a)) for a in operands]
    try:
        with late_torch.inference_mode():
            results = contract.run(call, *tensors)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise CannotEvaluate(f"{node} does not run on these constants: {error}") from None
    results = results if isinstance(results, tuple) else (results,)
    return tuple(np.array(r.numpy()) for r in results)
