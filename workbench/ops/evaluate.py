"""One operator on numbers, through its contract: what constant folding computes with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.ir import Graph, Node
from workbench.ops.contract import contract_of
from workbench.ops.dtypes import to_tensor
from workbench.ops.lazy import torch as late_torch

if TYPE_CHECKING:
    import torch


_PLAIN_NAMES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)
_PLAIN = frozenset(np.dtype(name) for name in _PLAIN_NAMES)


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
    foreign = next((a.dtype for a in operands if a is not None and not _is_plain(a)), None)
    if foreign is not None:
        raise CannotEvaluate(f"{node} reads constants of element type {foreign}")
    tensors = [None if a is None else to_tensor(np.array(a)) for a in operands]
    try:
        with late_torch.inference_mode():
            results = contract.run(call, *tensors)
        results = results if isinstance(results, tuple) else (results,)
        return tuple(np.array(r.numpy()) for r in results)
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise CannotEvaluate(f"{node} does not run on these constants: {error}") from None


def _is_plain(array: np.ndarray) -> bool:
    """Is it numbers of a type that numpy itself has (not bfloat16, float8, int4, strings)?"""
    return array.dtype in _PLAIN
