"""Sequences, which are Python lists, and optionals, which are None if absent."""

from __future__ import annotations

from workbench.ops.contract import Call, Value, operator
from workbench.ops.fusion_kinds import OPAQUE
from workbench.ops.lazy import torch
from workbench.ops.permutation.kinds import LAYOUT_BARRIER


@operator("SequenceEmpty", category="sequence", layout=LAYOUT_BARRIER, fusion=OPAQUE)
def sequence_empty(call: Call) -> list[torch.Tensor]:
    return []


@operator("SequenceConstruct", category="sequence", layout=LAYOUT_BARRIER, fusion=OPAQUE)
def sequence_construct(call: Call, *elements: torch.Tensor) -> list[torch.Tensor]:
    return list(elements)


@operator("SequenceAt", category="sequence", layout=LAYOUT_BARRIER, fusion=OPAQUE, host_inputs=(1,))
def sequence_at(call: Call, sequence: list[torch.Tensor], position: torch.Tensor) -> torch.Tensor:
    return sequence[int(position)]


@operator("SequenceLength", category="sequence", layout=LAYOUT_BARRIER, fusion=OPAQUE)
def sequence_length(call: Call, sequence: list[torch.Tensor]) -> torch.Tensor:
    return torch.full((), len(sequence), dtype=torch.int64, device=call.device)


@operator("SequenceInsert", category="sequence", layout=LAYOUT_BARRIER, fusion=OPAQUE, host_inputs=(2,))
def sequence_insert(
    call: Call, sequence: list[torch.Tensor], element: torch.Tensor, position: torch.Tensor | None = None
) -> list[torch.Tensor]:
    index = len(sequence) if position is None else int(position)
    index = index + len(sequence) if index < 0 else index
    return [*sequence[:index], element, *sequence[index:]]


@operator("SequenceErase", category="sequence", layout=LAYOUT_BARRIER, fusion=OPAQUE, host_inputs=(1,))
def sequence_erase(
    call: Call, sequence: list[torch.Tensor], position: torch.Tensor | None = None
) -> list[torch.Tensor]:
    index = (-1 if position is None else int(position)) % len(sequence)
    return [*sequence[:index], *sequence[index + 1 :]]


@operator("ConcatFromSequence", category="sequence", layout=LAYOUT_BARRIER, fusion=OPAQUE)
def concat_from_sequence(call: Call, sequence: list[torch.Tensor]) -> torch.Tensor:
    """The elements joined along `axis`, an axis of theirs or a new one."""
    axis = call.attr("axis")
    return torch.stack(sequence, axis) if call.attr("new_axis") else torch.cat(sequence, axis)


@operator("SplitToSequence", category="sequence", layout=LAYOUT_BARRIER, fusion=OPAQUE, host_inputs=(1,))
def split_to_sequence(call: Call, x: torch.Tensor, split: torch.Tensor | None = None) -> list[torch.Tensor]:
    """Parts of x along `axis`. split: the length of all, or a vector of their lengths; None: they have length 1."""
    axis = call.attr("axis")
    if split is None:
        parts = torch.split(x, 1, axis)
        return list(parts) if call.attr("keepdims") else [part.squeeze(axis) for part in parts]
    return list(torch.split(x, split.tolist() if split.dim() else int(split), axis))


@operator("Optional", category="sequence", layout=LAYOUT_BARRIER, fusion=OPAQUE)
def optional(call: Call, element: Value = None) -> Value:
    return element


@operator("OptionalHasElement", category="sequence", layout=LAYOUT_BARRIER, fusion=OPAQUE)
def optional_has_element(call: Call, element: Value = None) -> torch.Tensor:
    return torch.full((), element is not None, device=call.device)


@operator("OptionalGetElement", category="sequence", layout=LAYOUT_BARRIER, fusion=OPAQUE)
def optional_get_element(call: Call, element: Value) -> Value:
    return element
