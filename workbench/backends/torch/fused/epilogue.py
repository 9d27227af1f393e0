"""The epilogue of a product or convolution: operators after it that its call computes too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workbench.backends.torch.executor.instruction import Instruction
from workbench.backends.torch.executor.program import ABSENT, Program
from workbench.backends.torch.fused.activations import NOTHING, Unary, unary_of
from workbench.ops.channels_last import plain_op
from workbench.ops.lazy import torch as lazy_torch

if TYPE_CHECKING:
    import torch


@dataclass
class Epilogue:
    """Operators that run in a product's call: an Add of `bias` or `other`, then `unary`, then a channel shuffle.

    result: the register of the last operator's result. order: the position of each output channel after the shuffle.
    """

    result: int
    steps: list[Instruction]
    bias: torch.Tensor | None = None
    other: int | None = None
    unary: Unary = NOTHING
    order: tuple[int, ...] | None = None


def epilogue_of_product(
    body: Program,
    product: Instruction,
    known: Mapping[int, torch.Tensor],
    shapes: Mapping[int, tuple[int, ...]],
) -> Epilogue:
    """The operators that can be computed in the product's call."""
    epilogue = _with_bias(body, product, known, shapes)
    add = _only_user(body, epilogue.result)
    if add is not None and add.node.op in ("Add", "Sum") and len(set(add.inputs)) == len(add.inputs) == 2:
        other = next(register for register in add.inputs if register != epilogue.result)
        if other not in known and shapes.get(other) == shapes.get(epilogue.result):
            epilogue = replace(epilogue, result=add.outputs[0], steps=[*epilogue.steps, add], other=other)
            relu = _only_user(body, epilogue.result)
            if plain_op(product.node) == "Conv" and relu is not None and relu.node.op == "Relu":
                epilogue = replace(epilogue, result=relu.outputs[0], steps=[*epilogue.steps, relu], unary=Unary("relu"))
            return epilogue
    swish = _swish(body, epilogue.result)
    if swish is not None:
        return replace(epilogue, result=swish[-1].outputs[0], steps=[*epilogue.steps, *swish], unary=Unary("swish"))
    step = _only_user(body, epilogue.result)
    unary = None if step is None else unary_of(step, epilogue.result, known)
    if step is None or unary is None:
        return epilogue
    return replace(epilogue, result=step.outputs[0], steps=[*epilogue.steps, step], unary=unary)


def with_shuffle(
    body: Program, epilogue: Epilogue, shapes: Mapping[int, tuple[int, ...]], axis: int
) -> Epilogue | None:
    """The epilogue with the channel shuffle on `axis` that follows it; None if no shuffle follows.

    Source: X. Zhang et al., "ShuffleNet", 2017, arXiv:1707.01083.
    """
    steps: list[Instruction] = []
    for op in ("Reshape", "Transpose", "Reshape"):
        step = _only_user(body, steps[-1].outputs[0] if steps else epilogue.result)
        if step is None or step.node.op != op or shapes.get(step.outputs[0]) is None:
            return None
        steps.append(step)
    shape, split = shapes[epilogue.result], shapes[steps[0].outputs[0]]
    swapped = [*range(axis), axis + 1, axis, *range(axis + 2, len(split))]
    is_split = len(split) == len(shape) + 1 and (*split[:axis], *split[axis + 2 :]) == (
        *shape[:axis],
        *shape[axis + 1 :],
    )
    if not is_split or list(steps[1].call.attr("perm", ())) != swapped or shapes[steps[2].outputs[0]] != shape:
        return None
    groups, size = split[axis : axis + 2]
    order = tuple(j * groups + i for i in range(groups) for j in range(size))
    return replace(epilogue, result=steps[2].outputs[0], steps=[*epilogue.steps, *steps], order=order)


def concat_after(body: Program, register: int, shapes: Mapping[int, tuple[int, ...]], axis: int) -> Instruction | None:
    """The Concat along `axis`, if it is the only user of the register and reads it once."""
    step = _only_user(body, register)
    if step is None or step.node.op != "Concat" or step.inputs.count(register) != 1:
        return None
    rank = len(shapes[register])
    return step if step.call.attr("axis") % rank == axis and set(step.inputs) <= shapes.keys() else None


def _with_bias(
    body: Program,
    product: Instruction,
    known: Mapping[int, torch.Tensor],
    shapes: Mapping[int, tuple[int, ...]],
) -> Epilogue:
    """The epilogue with the product's bias operand, or with the bias that the next Add adds."""
    result = product.outputs[0]
    if has_bias(product):
        return Epilogue(result, [], known[product.inputs[2]].reshape(-1))
    add = _only_user(body, result)
    if add is None or add.node.op != "Add" or set(add.inputs).isdisjoint(known):
        return Epilogue(result, [])
    summand = known[next(register for register in add.inputs if register in known)]
    if not is_channel_bias(summand, shapes[result], _channels(product)):
        return Epilogue(result, [])
    return Epilogue(add.outputs[0], [add], summand.reshape(-1))


def has_bias(product: Instruction) -> bool:
    return len(product.inputs) > 2 and product.inputs[2] != ABSENT


def _channels(product: Instruction) -> int:
    """The axis of the result along which a bias lies."""
    return -3 if product.node.op == "Conv" else -1


def is_channel_bias(value: torch.Tensor, shape: tuple[int, ...], axis: int) -> bool:
    """Whether the value is a float32 bias along `axis` of a result of that shape. axis: negative, from the end."""
    fits = -axis <= value.dim() <= len(shape) and value.dtype == lazy_torch.float32
    return fits and value.numel() == value.shape[axis] == shape[axis]


def _users(body: Program, register: int) -> list[Instruction]:
    return [step for step in body.steps if register in (*step.inputs, *step.captured)]


def _only_user(body: Program, register: int) -> Instruction | None:
    users = _users(body, register)
    return users[0] if len(users) == 1 and register not in body.outputs else None


def _swish(body: Program, register: int) -> list[Instruction] | None:
    """The Sigmoid and Mul of x * sigmoid(x), if nothing else reads x; else None."""
    users = _users(body, register)
    if len(users) != 2 or register in body.outputs:
        return None
    sigmoid, mul = sorted(users, key=lambda step: step.node.op == "Mul")
    if (sigmoid.node.op, mul.node.op) != ("Sigmoid", "Mul") or _only_user(body, sigmoid.outputs[0]) is not mul:
        return None
    return [sigmoid, mul] if set(mul.inputs) == {register, sigmoid.outputs[0]} else None
