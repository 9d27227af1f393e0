"""Calls of torch's operators that write into a given tensor."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Write = Callable[[], Any]


@cache
def out_variant(operator: Any) -> tuple[Any, str] | None:
    """The overload of one result that a kernel writes where it is told, and the name of that argument; None if there is
    none, or if torch generates one that allocates and copies."""
    import torch

    given = [argument.name for argument in operator._schema.arguments]
    if len(operator._schema.returns) != 1:
        return None
    for name in operator.overloadpacket.overloads():
        found = getattr(operator.overloadpacket, name)
        outs = [argument.name for argument in found._schema.arguments if argument.is_out]
        others = [argument.name for argument in found._schema.arguments if not argument.is_out]
        if len(outs) == 1 and others == given and torch.Tag.generated not in found.tags:
            return found, outs[0]
    return None


def is_pointwise(operator: Any) -> bool:
    """Whether an element of the result depends on the elements of the operands at its place alone."""
    import torch

    return torch.Tag.pointwise in operator.tags


def relu_as_clamp(operator: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Relu has no kernel that writes where it is told; a maximum with 0 has one."""
    import torch

    if operator is torch.ops.aten.relu.default:
        return torch.ops.aten.clamp_min.default, (*args, 0)
    return operator, args


def convolution_as_product(args: tuple[Any, ...], place: torch.Tensor) -> Write | None:
    """A convolution whose kernel has one element, without stride, padding or groups, as a matrix product into `place`;
    None for any other. args: of aten.convolution."""
    import torch

    image, weight, bias, stride, padding, _, transposed, _, groups = args
    if not isinstance(image, torch.Tensor) or image.dim() != 4 or transposed or groups != 1:
        return None
    if any(size != 1 for size in (*weight.shape[2:], *stride)) or any(padding):
        return None
    if not image.is_contiguous() or not place.is_contiguous():
        return None
    batch, inputs = image.shape[:2]
    matrix, result = weight.reshape(weight.shape[0], inputs), place.view(batch, weight.shape[0], -1)
    columns = image.view(batch, inputs, -1)
    if batch == 1 and bias is None:
        return lambda: torch.mm(matrix, columns[0], out=result[0])
    if batch == 1:
        column = bias.view(-1, 1)
        return lambda: torch.addmm(column, matrix, columns[0], out=result[0])
    expanded = matrix.expand(batch, *matrix.shape)
    if bias is None:
        return lambda: torch.bmm(expanded, columns, out=result)
    return lambda: torch.baddbmm(bias.view(1, -1, 1), expanded, columns, out=result)
