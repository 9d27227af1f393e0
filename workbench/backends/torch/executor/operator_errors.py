"""An operator that failed, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.backends.failures import first_line
from workbench.errors import UserError
from workbench.ir import Node


class OperatorError(UserError):
    """An operator failed; the message names it, the node, its operands' shapes and the reason."""


def described(node: Node, operands: Sequence[Any]) -> str:
    shapes = ", ".join(_shape_text(value) for value in operands)
    return f"{node} on operands of {shapes}" if shapes else str(node)


def _shape_text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return f"a sequence of {len(value)}"
    return f"{str(value.dtype).removeprefix('torch.')}[{','.join(map(str, value.shape))}]"


def failure(node: Node, operands: Sequence[Any], error: Exception) -> str:
    return f"{described(node, operands)} failed: {first_line(error)}."
