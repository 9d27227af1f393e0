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
LARGEST_ANGLE = 100.0  # radians; half an ulp of float32 is then 4e-6, and grows with the angle
_MOVED = ("Identity", "Reshape", "Transpose", "Unsqueeze", "Squeeze", "Flatten", "Concat", "Slice", "Expand", "Gather")
_LINEAR = ("Neg", "Add", "Sub", "Mul", "Div")
_WITHIN_ONE = ("Sin", "Cos", "Tanh", "Erf", "Sigmoid", "Softmax", "HardSigmoid", "Sign", "Softsign")
_MOST_NODES = 64  # looked at after or before a value
_DEEPEST = 16


def refuse_discontinuous_users(graph: Graph, node: Node) -> None:
    """Raises NoMatch if what reads the result makes much of another rounding.

    A user is discontinuous, as Floor is, where another rounding could turn 1 into 0; or the result becomes the angle
    of a Sin, Cos or Tan that may be larger than 100 radians, whose rounding is a part of the period.
    """
    value = node.outputs[0]
    step = next((user for user in graph.users(value) if user.op in STEPS), None)
    if step is not None:
        raise NoMatch(f"{step} is discontinuous; a difference in the last bit of '{value}' could change its result")
    wave = _angle_of(graph, value)
    if wave is not None:
        raise NoMatch(
            f"{wave} may have an angle of more than {LARGEST_ANGLE:g} radians, so that a difference in the last bit of "
            f"'{value}' could change its result"
        )


def _angle_of(graph: Graph, value: str) -> Node | None:
    """A periodic operator of which the value is the angle, or a part of it, unless the angle is small."""
    waiting, seen = [value], {value}
    while waiting and len(seen) < _MOST_NODES:
        for user in graph.users(waiting.pop()):
            if user.op in PERIODIC and not _largest(graph, user.inputs[0]) <= LARGEST_ANGLE:
                return user
            if user.op in (*_MOVED, *_LINEAR) and user.outputs[0] not in seen:
                seen.add(user.outputs[0])
                waiting.append(user.outputs[0])
    return None


def _largest(graph: Graph, value: str, depth: int = 0) -> float:
    """A bound on the magnitude of the value's elements, as far as it follows from constants; infinity if none does."""
    tensor = graph.constant(value)
    if tensor is not None:
        numbers = np.abs(tensor.numpy().astype(np.float64))
        return float(numbers.max(initial=0.0)) if not np.isnan(numbers).any() else np.inf
    node = graph.producer(value)
    if node is None or depth > _DEEPEST:
        return np.inf
    if node.op in _WITHIN_ONE:
        return 1.0
    if node.op == "Clip":
        return max((_largest(graph, bound, depth + 1) if bound else np.inf) for bound in (*node.inputs, "", "")[1:3])
    if node.op not in (*_MOVED, *_LINEAR) or node.op == "Div":
        return np.inf
    operands = node.inputs if node.op in ("Concat", *_LINEAR) else node.inputs[:1]
    bounds = [_largest(graph, operand, depth + 1) for operand in operands]
    if node.op == "Mul":
        return float(np.prod(bounds)) if np.isfinite(bounds).all() else np.inf
    return sum(bounds) if node.op in ("Add", "Sub") else max(bounds)
