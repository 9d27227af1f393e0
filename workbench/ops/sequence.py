"""Sequences, which are Python lists, and optionals, which are None if absent."""

from __future__ import annotations

from workbench.ops.contract import operator
from workbench.ops.fusion_kinds import OPAQUE
from workbench.ops.lazy import torch
from workbench.ops.permutation.kinds import BARRIER


@operator("SequenceEmpty", category="sequence", layout=BARRIER, fusion=OPAQUE)
def sequence_empty(call):
    return []


@operator("SequenceConstruct", category="sequence", layout=BARRIER, fusion=OPAQUE)
def sequence_construct(call, *elements):
    return list(elements)


@operator("SequenceAt", category="sequence", layout=BARRIER, fusion=OPAQUE, host_inputs=(1,))
def sequence_at(call, sequence, position):
    return sequence[int(position)]


@operator("SequenceLength", category="sequence", layout=BARRIER, fusion=OPAQUE)
def sequence_length(call, sequence):
    return torch.full((), len(sequence), dtype=torch.int64, device=call.device)


@operator("SequenceInsert", category="sequence", layout=BARRIER, fusion=OPAQUE, host_inputs=(2,))
def sequence_insert(call, sequence, element, position=None):
    place = len(sequence) if position is None else int(position)
    place = place + len(sequence) if place < 0 else place
    return [*sequence[:place], element, *sequence[place:]]


@operator("SequenceErase", category="sequence", layout=BARRIER, fusion=OPAQUE, host_inputs=(1,))
def sequence_erase(call, sequence, position=None):
    place = (-1 if position is None else int(position)) % len(sequence)
    return [*sequence[:place], *sequence[place + 1 :]]


@operator("ConcatFromSequence", category="sequence", layout=BARRIER, fusion=OPAQUE)
def concat_from_sequence(call, sequence):
    axis = call.attr("axis")
    return torch.stack(sequence, axis) if call.attr("new_axis") else torch.cat(sequence, axis)


@operator("SplitToSequence", category="sequence", layout=BARRIER, fusion=OPAQUE, host_inputs=(1,))
def split_to_sequence(call, x, split=None):
    axis = call.attr("axis")
    if split is None:
        parts = x.split(1, axis)
        return list(parts) if call.attr("keepdims") else [part.squeeze(axis) for part in parts]
    return list(x.split(split.tolist() if split.dim() else int(split), axis))


@operator("Optional", category="sequence", layout=BARRIER, fusion=OPAQUE)
def optional(call, element=None):
    return element


@operator("OptionalHasElement", category="sequence", layout=BARRIER, fusion=OPAQUE)
def optional_has_element(call, element=None):
    return torch.full((), element is not None, device=call.device)


@operator("OptionalGetElement", category="sequence", layout=BARRIER, fusion=OPAQUE)
def optional_get_element(call, element):
    return element
