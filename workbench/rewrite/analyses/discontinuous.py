"""Operators whose result may change visibly with the last bit of an operand: steps, and periods of large angles."""

from __future__ import annotations

import numpy as np

from workbench.ir import Graph, Node
from workbench.rewrite.core.rule import NoMatch

STEPS = frozenset(
    {
        *("Floor", "Ceil", "Round", "Sign", "Cast", "Mod", "QuantizeLinear", "DynamicQuantizeLinear"),
        *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "ArgMax", "ArgMin", "TopK", "NonZero"),
    }
)
PERIODIC = ("Sin", "Cos", "Tan")
MAX_ANGLE = 100.0  # radians; half an ulp of float32 is then 4e-6, and grows with the angle
_MOVED = ("Identity", "Reshape", "Transpose", "Unsqueeze", "Squeeze", "Flatten", "Concat", "Slice", "Expand", "Gather")
_LINEAR = ("Neg", "Add", "Sub", "Mul", "Div")
_BOUNDED_BY_ONE = ("Sin", "Cos", "Tanh", "Erf", "Sigmoid", "Softmax", "HardSigmoid", "Sign", "Softsign")
_MAX_VALUES = 64  # the most values that are followed from one
_MAX_DEPTH = 16


def require_no_discontinuous_users(graph: Graph, node: Node) -> None:
    """Raises NoMatch if a user of the result may amplify a difference of rounding.

    Such a user is discontinuous, as Floor is: another rounding could turn 1 into 0. Or it is a Sin, Cos or Tan whose
    angle may be larger than 100 radians, so that its rounding is a visible part of the period.
    """
    value = node.outputs[0]
    step = next((user for user in graph.users(value) if user.op in STEPS), None)
    if step is not None:
        raise NoMatch(f"{step} is discontinuous; a difference in the last bit of '{value}' could change its result")
    periodic = _angle_of(graph, value)
    if periodic is not None:
        raise NoMatch(
            f"{periodic} may have an angle of more than {MAX_ANGLE:g} radians, so that a difference in the last "
            f"bit of '{value}' could change its result"
        )


def _angle_of(graph: Graph, value: str) -> Node | None:
    """A periodic operator whose angle depends on the value, unless the angle is small; None if there is none."""
    waiting, seen = [value], {value}
    while waiting and len(seen) < _MAX_VALUES:
        for user in graph.users(waiting.pop()):
            if user.op in PERIODIC and not _magnitude(graph, user.inputs[0]) <= MAX_ANGLE:
                return user
            if user.op in (*_MOVED, *_LINEAR) and user.outputs[0] not in seen:
                seen.add(user.outputs[0])
                waiting.append(user.outputs[0])
    return None


def _magnitude(graph: Graph, value: str, depth: int = 0) -> float:
    """A bound on the magnitude of the value's elements, as far as it follows from constants; infinity if none does."""
    tensor = graph.constant(value)
    if tensor is not None:
        numbers = np.abs(tensor.numpy().astype(np.float64))
        return float(numbers.max(initial=0.0)) if not np.isnan(numbers).any() else np.inf
    node = graph.producer(value)
    if node is None or depth > _MAX_DEPTH:
        return np.inf
    if node.op in _BOUNDED_BY_ONE:
        return 1.0
    if node.op == "Clip":
        return max((_magnitude(graph, bound, depth + 1) if bound else np.inf) for bound in (*node.inputs, "", "")[1:3])
    if node.op not in (*_MOVED, *_LINEAR) or node.op == "Div":
        return np.inf
    operands = node.inputs if node.op in ("Concat", *_LINEAR) else node.inputs[:1]
    bounds = [_magnitude(graph, operand, depth + 1) for operand in operands]
    if node.op == "Mul":
        return float(np.prod(bounds)) if np.isfinite(bounds).all() else np.inf
    return sum(bounds) if node.op in ("Add", "Sub") else max(bounds)
