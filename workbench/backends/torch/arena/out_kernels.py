"""Calls of torch's operators that write into a given tensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Write = Callable[[], Any]


@dataclass(frozen=True)
class OutVariant:
    """An overload that writes its results into its arguments `outs`."""

    operator: Any
    outs: tuple[str, ...]


@cache
def out_variant(operator: Any) -> OutVariant | None:
    """The overload with a kernel that writes into given tensors; None if there is none.

    Overloads that torch generates do not count: they allocate and copy.
    """
    import torch

    signature = [(argument.name, str(argument.type)) for argument in operator._schema.arguments]
    for name in operator.overloadpacket.overloads():
        result = getattr(operator.overloadpacket, name)
        outs = tuple(argument.name for argument in result._schema.arguments if argument.is_out)
        others = [(one.name, str(one.type)) for one in result._schema.arguments if not one.is_out]
        is_kernel = torch.Tag.generated not in result.tags
        if is_kernel and others == signature and len(outs) == len(operator._schema.returns):
            return OutVariant(result, outs)
    return None


def shapes_further_results(variant: OutVariant, is_cuda: bool) -> bool:
    """Whether an overload accepts empty tensors for the results that are not read.

    On a CPU every overload resizes them. On CUDA only structured overloads do (`structured: True` in
    aten/src/ATen/native/native_functions.yaml); others may write out of bounds, as native_batch_norm did.
    """
    import torch

    aten = torch.ops.aten
    structured = (
        aten.max_pool2d_with_indices.out,
        aten.max.dim_max,
        aten.min.dim_min,
        aten.topk.values,
        aten.sort.values_stable,
        aten.aminmax.out,
    )
    return len(variant.outs) == 1 or not is_cuda or variant.operator in structured


def is_pointwise(operator: Any) -> bool:
    """Whether the operator is elementwise."""
    import torch

    aten = torch.ops.aten
    return torch.Tag.pointwise in operator.tags or operator in (
        aten.native_batch_norm.default,  # with stored statistics, as the executor calls it
        aten.relu.default,
    )


def is_aten_view(operator: Any) -> bool:
    """Whether its result is a view of its operand."""
    import torch

    schema = getattr(operator, "_schema", None)
    if schema is None or schema.is_mutable:
        return False
    aliased = any(one.alias_info is not None and not one.alias_info.is_write for one in schema.returns)
    return aliased or operator is torch.ops.aten._unsafe_view.default


def is_reshape(operator: Any) -> bool:
    """Whether its result has the elements of its operand in the same order, if that is contiguous."""
    import torch

    aten = torch.ops.aten
    return operator in (aten.view.default, aten._unsafe_view.default, aten.unsqueeze.default, aten.squeeze.dims)


def is_copy(operator: Any) -> bool:
    """Whether it copies its operand, perhaps to another element type."""
    import torch

    return operator in (torch.ops.aten.clone.default, torch.ops.aten._to_copy.default)


def with_kernel(operator: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """An equivalent call of an operator that has an `out` overload: a Relu becomes a maximum with 0."""
    import torch

    if operator is torch.ops.aten.relu.default:
        return torch.ops.aten.clamp_min.default, (*args, 0)
    return operator, args


def convolution_as_product(args: tuple[Any, ...], target: torch.Tensor) -> Write | None:
    """A convolution of one-element windows as a matrix product into `target`; None for any other.

    Stride, padding and groups must be trivial. args: of aten.convolution.
    """
    import torch

    image, weight, bias, stride, padding, _, transposed, _, groups = args
    if not isinstance(image, torch.Tensor) or image.dim() != 4 or transposed or groups != 1:
        return None
    if any(size != 1 for size in (*weight.shape[2:], *stride)) or any(padding):
        return None
    if not image.is_contiguous() or not target.is_contiguous():
        return None
    batch, inputs = image.shape[:2]
    matrix, result = weight.reshape(weight.shape[0], inputs), target.view(batch, weight.shape[0], -1)
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
