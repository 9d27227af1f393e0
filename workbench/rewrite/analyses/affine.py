"""Per-channel scale and shift: which nodes compute one, and with which numbers."""

from __future__ import annotations

import numpy as np

from workbench.ir import Graph, Node, constant_shape
from workbench.rewrite.analyses.zeros import MOVING, holds_no_negative_zero
from workbench.rewrite.core.rule import NoMatch

_MAX_DEPTH = 4  # the longest chain of operators that move elements


def normalization(graph: Graph, norm: Node) -> tuple[np.ndarray, np.ndarray]:
    """Scale and shift of a batch normalization, each of shape [channels], float64.

    Raises NoMatch in training mode, for computed parameters, and for a variance that is not positive.
    """
    require_inference_mode(norm)
    computed = [value for value in norm.inputs[1:] if value not in graph.constants]
    if computed:
        raise NoMatch(f"'{computed[0]}' is not a constant")
    scale, bias, mean, variance = (graph.constants[v].numpy().astype(np.float64) for v in norm.inputs[1:5])
    with np.errstate(invalid="ignore", divide="ignore"):
        factor = scale / np.sqrt(variance + norm.attr("epsilon"))
        shift = bias - mean * factor
    if not (np.isfinite(factor).all() and np.isfinite(shift).all()):
        raise NoMatch(f"{norm} divides by a variance that is not positive")
    if (np.signbit(shift) & (shift == 0)).any():
        raise NoMatch(f"{norm} adds -0.0, which keeps the sign of a zero")
    return factor, shift


def require_inference_mode(norm: Node) -> None:
    """Raises NoMatch for a batch normalization in training mode."""
    if norm.attr("training_mode") or len(norm.outputs) > 1:
        raise NoMatch(f"{norm} is in training mode and computes its statistics while it runs")


def split_constant_operand(graph: Graph, node: Node) -> tuple[str, str, bool]:
    """The names of the computed and the constant operand of Mul, Div, Add or Sub; whether the constant is the first.

    Raises NoMatch unless there is one of each.
    """
    if len(node.inputs) == 2 and node.inputs[0] != node.inputs[1]:
        first, second = node.inputs
        if graph.constant(second) is not None and graph.constant(first) is None:
            return first, second, False
        if graph.constant(first) is not None and graph.constant(second) is None:
            return second, first, True
    raise NoMatch(f"{node} does not combine one constant and one computed value")


def require_finite_nonzero(node: Node, number: str, channel: np.ndarray) -> None:
    """Raises NoMatch if a factor is zero, which turns negative numbers into -0.0, or is not finite."""
    if node.op in ("Mul", "Div") and not (np.isfinite(channel).all() and channel.all()):
        raise NoMatch(f"'{number}' of {node} holds zero, infinity or NaN, which cannot be folded into weights")


def require_unobserved_zero_sign(graph: Graph, node: Node, channel: np.ndarray) -> None:
    """Raises NoMatch if a Mul or Div by a negative number turns 0.0 into -0.0, and a user can distinguish them.

    Weights cannot: a sum of products that is zero is 0.0 whatever their signs.
    """
    if node.op not in ("Mul", "Div") or not (channel < 0).any():
        return
    if not _is_sign_lost(graph, node.outputs[0], _MAX_DEPTH):
        raise NoMatch(f"{node} turns 0.0 into -0.0, since a factor is negative; folded, the result would be 0.0")


def _is_sign_lost(graph: Graph, value: str, depth: int) -> bool:
    """Whether no user of the value distinguishes 0.0 from -0.0."""
    users = graph.users(value)
    return not graph.is_output(value) and all(_adds_no_negative_zero(graph, user, value, depth) for user in users)


def _adds_no_negative_zero(graph: Graph, node: Node, value: str, depth: int) -> bool:
    """Whether the node loses the sign of a zero in `value`, or moves elements to users that do.

    0.0 and -0.0 plus a number are equal unless the number is -0.0, and minus a number unless it is 0.0.
    """
    if node.inputs.count(value) != 1:
        return False
    if node.op in MOVING:
        return depth > 0 and node.inputs[0] == value and _is_sign_lost(graph, node.outputs[0], depth - 1)
    if node.op not in ("Add", "Sub"):
        return False
    other = next(operand for operand in node.inputs if operand != value)
    tensor = graph.constant(other)
    if tensor is not None and bool(tensor.numpy().all()):
        return True
    return (node.op == "Add" or node.inputs[1] == value) and holds_no_negative_zero(graph, other)


def per_channel_array(graph: Graph, node: Node, value: str, number: str, axis: int, count: int) -> np.ndarray:
    """The constant `number` as an array of shape [count], one number per channel on `axis` of `value`, float64."""
    rank, shape = graph.rank_of(value), constant_shape(graph.constants[number])
    if rank is None or len(shape) > rank:
        raise NoMatch(f"'{number}' of {node} has more axes than the channels it would be folded into")
    full = (*(1,) * (rank - len(shape)), *shape)
    if any(size != 1 for axis_index, size in enumerate(full) if axis_index != axis) or full[axis] not in (1, count):
        raise NoMatch(f"'{number}' of {node} is not one number per channel: its shape is {list(shape)}")
    return np.broadcast_to(graph.constants[number].numpy().astype(np.float64).reshape(-1), (count,))


def factor_and_shift(node: Node, channel: np.ndarray, first: bool) -> tuple[np.ndarray, np.ndarray]:
    """Scale and shift of the node. first: whether the constant is its first operand."""
    one, zero = np.ones_like(channel), np.zeros_like(channel)
    if node.op == "Add":
        return one, channel
    if first and node.op == "Sub" and (np.signbit(channel) & (channel == 0)).any():
        raise NoMatch(f"{node} subtracts from -0.0, which keeps the sign of a zero")
    if node.op == "Sub":
        return (-one, channel) if first else (one, -channel)
    if node.op == "Mul":
        return channel, zero
    if first:
        raise NoMatch(f"{node} divides by a computed value")
    with np.errstate(divide="ignore"):  # the caller refuses what is not finite
        return one / channel, zero
