"""One step of an optimizer, as `ai.onnx.preview.training` describes it: many tensors at once, each for itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.ops.contract import Call, operator, per_output
from workbench.ops.lazy import torch
from workbench.ops.permutation.kinds import BARRIER

Update = Callable[..., Sequence[Any]]


def _optimizer(op: str, operands: int, flops: int) -> Callable[[Update], Update]:
    """Enter `update(call, rate, count, tensor, gradient, *states)` for any number of tensors, listed by kind."""

    def enter(update: Update) -> Update:
        def run(call: Call, rate: torch.Tensor, count: torch.Tensor, *tensors: torch.Tensor) -> tuple[Any, ...]:
            each = len(tensors) // operands
            kinds = [tensors[i * each : (i + 1) * each] for i in range(operands)]
            updated = [update(call, rate, int(count), *own) for own in zip(*kinds, strict=True)]
            return tuple(value for kind in zip(*updated, strict=True) for value in kind)

        name = f"ai.onnx.preview.training.{op}"
        operator(name, category="other", layout=BARRIER, flops=per_output(flops), host_inputs=(1,))(run)
        return update

    return enter


def _regularized(call: Call, x: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    return call.attr("norm_coefficient", 0.0) * x + gradient


@_optimizer("Adagrad", 3, 7)
def adagrad(call, rate, count, x, gradient, squares):
    gradient = _regularized(call, x, gradient)
    squares = squares + gradient * gradient
    step = rate / (1 + count * call.attr("decay_factor", 0.0))
    return x - step * gradient / (squares.sqrt() + call.attr("epsilon", 1e-6)), squares


@_optimizer("Adam", 4, 14)
def adam(call, rate, count, x, gradient, mean, squares):
    alpha, beta = call.attr("alpha", 0.9), call.attr("beta", 0.999)
    gradient = _regularized(call, x, gradient)
    mean = alpha * mean + (1 - alpha) * gradient
    squares = beta * squares + (1 - beta) * gradient * gradient
    step = rate * (1 - beta**count) ** 0.5 / (1 - alpha**count) if count > 0 else rate
    x = x - step * mean / (squares.sqrt() + call.attr("epsilon", 1e-6))
    return (1 - call.attr("norm_coefficient_post", 0.0)) * x, mean, squares


@_optimizer("Momentum", 3, 6)
def momentum(call, rate, count, x, gradient, velocity):
    alpha = call.attr("alpha")
    gradient = _regularized(call, x, gradient)
    velocity = alpha * velocity + (call.attr("beta") if count > 0 else 1.0) * gradient
    direction = gradient + alpha * velocity if call.attr("mode") == "nesterov" else velocity
    return x - rate * direction, velocity
