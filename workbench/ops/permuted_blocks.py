"""Operators on images with blocked channels, [N, C / c, H, W, c].

`blocked_form` is for blocked channels what a contract's `propagate_permutation` is for permutations: it returns the
equivalent node. Some operators have a blocked form; elementwise ones stay, with constants aligned to blocks; Concat
stays, with its axis adapted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.ir import Constant, Graph, Node, constant_shape, lazy_constant
from workbench.ir.permutation import channels_first, channels_last, permuted
from workbench.ops.blocked import OLDEST_BLOCKED_OPSET, OPERATORS, blocked_op
from workbench.ops.contract import contracts, layout_of
from workbench.ops.permutation.kinds import NotPermutable, with_attributes

_IMAGE = "NCHW"
_AXIS = {"N": 0, "C": 1, "H": 2, "W": 3}  # axes of a blocked image


@dataclass(frozen=True)
class BlockedForm:
    """The equivalent node on blocked images.

    inputs:    operands that must be blocked.
    outputs:   whether each result is blocked.
    constants: constants that replace operands.
    lined_up:  operands broadcast over blocks, each with the operator (Reshape or Unsqueeze) that adds the axis of a
               block, its constant operand, and the resulting shape; no element moves.
    note:      for the sentence: what is not blocked, and why.
    """

    inputs: tuple[int, ...]
    outputs: tuple[bool, ...]
    attributes: Mapping[str, Any] | None = None
    constants: Mapping[int, Constant] = field(default_factory=dict)
    op_type: str | None = None
    domain: str | None = None
    note: str = ""
    lined_up: Mapping[int, LinedUp] = field(default_factory=dict)


LinedUp = tuple[str, tuple[int, ...], tuple[int | str | None, ...]]


def may_be_blocked(op: str) -> bool:
    """Whether the operator has a blocked form, or runs on blocked images unchanged."""
    contract = contracts().get(op)
    return op in (*OPERATORS, "Concat") or (contract is not None and contract.layout.kind == "agnostic")


def blocked_form(graph: Graph, node: Node, own: str, block: int) -> BlockedForm:
    """The equivalent node on images with blocks of `block` channels; `own` is their layout in the graph, NCHW or NHWC.

    Raises NotPermutable with a sentence if there is none.
    """
    if (graph.opset_imports.get("") or OLDEST_BLOCKED_OPSET) < OLDEST_BLOCKED_OPSET:
        raise NotPermutable(
            f"{node} is of an opset before {OLDEST_BLOCKED_OPSET}, whose Shape cannot return a part of the dims"
        )
    if not may_be_blocked(node.op) or sorted(own) != sorted(_IMAGE):
        raise NotPermutable(f"{node} has no form in NCHW{block}c")
    if node.op in OPERATORS:
        form = _form_of_its_own(graph, node, own, block)
    elif node.op == "Concat":
        form = _concat(graph, node, own, block)
    else:
        form = _elementwise(graph, node, own, block)
    images = [node.inputs[index] for index in form.inputs]
    images += [value for value, is_blocked in zip(node.outputs, form.outputs, strict=False) if value and is_blocked]
    for value in images:
        check_channels(graph, value, own, block)
    return form


def channels_of(graph: Graph, value: str, own: str) -> int:
    """The number of channels. Raises NotPermutable if it is symbolic or unknown, or the image is empty."""
    shape = graph.shape(value) or ()
    channels = shape[own.index("C")] if len(shape) == len(own) else None
    if not isinstance(channels, int) or 0 in shape:
        raise NotPermutable(f"the number of channels of '{value}' is not known")
    return channels


def check_channels(graph: Graph, value: str, own: str, block: int) -> None:
    """Raises NotPermutable if the channels cannot be split into blocks."""
    channels = channels_of(graph, value, own)
    if channels % block:
        raise NotPermutable(_indivisible(value, channels, block))


def _indivisible(value: str, channels: int, block: int) -> str:
    return f"'{value}' has {channels:,} channel{'' if channels == 1 else 's'}, which {block} does not divide"


def _form_of_its_own(graph: Graph, node: Node, own: str, block: int) -> BlockedForm:
    if own != _IMAGE:
        raise NotPermutable(f"{node} reads {_IMAGE}, not {own}")
    if len([value for value in node.outputs if value]) > 1:
        raise NotPermutable(f"the blocked form of {node} has one result, not {len(node.outputs)}")
    if node.op == "Conv":
        return _convolution(graph, node, block)
    domain, op_type = blocked_op(node.op_type, block)
    return BlockedForm((0,), (True,), op_type=op_type, domain=domain)


def _convolution(graph: Graph, node: Node, block: int) -> BlockedForm:
    """Groups must consist of whole blocks, or of one channel; the operand of a first convolution is not blocked."""
    source = node.inputs[0]
    given, made = (channels_of(graph, value, _IMAGE) for value in (source, node.outputs[0]))
    group = node.attr("group")
    by_channel = group == given == made
    if group > 1 and not by_channel and (given % (group * block) or made % (group * block)):
        raise NotPermutable(f"{node} has groups that do not consist of whole blocks of {block} channels")
    from_plain = group == 1 and given % block != 0
    domain, op_type = blocked_op("Conv", block, from_plain)
    note = f"{_indivisible(source, given, block)}, and is read in {_IMAGE}" if from_plain else ""
    return BlockedForm(() if from_plain else (0,), (True,), op_type=op_type, domain=domain, note=note)


def _concat(graph: Graph, node: Node, own: str, block: int) -> BlockedForm:
    axis = _AXIS[own[node.attr("axis") % len(own)]]
    fixed = {index: graph.constant(value) for index, value in enumerate(node.inputs)}
    constants = {i: _blocked_constant(node.inputs[i], c, own, block) for i, c in fixed.items() if c is not None}
    inputs = tuple(index for index, tensor in fixed.items() if tensor is None)
    return BlockedForm(inputs, (True,), with_attributes(node, axis=axis), constants)


def _elementwise(graph: Graph, node: Node, own: str, block: int) -> BlockedForm:
    """An operator that allows its operands in another order of all axes allows them blocked."""
    transposed = channels_last(4) if own == _IMAGE else channels_first(4)
    carried = layout_of(node).propagate_permutation(graph, node, transposed)
    constants = {}
    for index in carried.constants:
        tensor = graph.constant(node.inputs[index])
        assert tensor is not None
        constants[index] = _blocked_constant(node.inputs[index], tensor, own, block)
    broadcast = [i for i in carried.inputs if _is_plane(graph, node.inputs[i], own)]
    lined_up = {i: _lined_up(graph, node.inputs[i], own, block) for i in (*carried.lined_up, *broadcast)}
    inputs = tuple(index for index in carried.inputs if index not in lined_up)
    results = tuple(perm is not None for perm in carried.outputs)
    return BlockedForm(inputs, results, None, constants, lined_up=lined_up)


def _is_plane(graph: Graph, value: str, own: str) -> bool:
    """Whether it has all axes, and one channel."""
    shape = graph.shape(value) or ()
    return len(shape) == len(own) and shape[own.index("C")] == 1


def _lined_up(graph: Graph, value: str, own: str, block: int) -> LinedUp:
    """How to align a broadcast operand with blocks: one number for all channels is kept, one per channel is split.

    Raises NotPermutable for an operand with other axes, whose elements would have to move.
    """
    shape = graph.shape(value) or ()
    letters = own[len(own) - len(shape) :]
    dims = dict.fromkeys(own, 1) | dict(zip(letters, shape, strict=True))
    channels = dims.pop("C")
    if channels == 1:
        axis = dict(zip("NCHW" if own == _IMAGE else "N_HWC", range(5), strict=False))
        kept = {axis[letter] for letter in letters}
        blocked = (dims["N"], 1, dims["H"], dims["W"], 1)
        return "Unsqueeze", tuple(place for place in range(5) if place not in kept), blocked
    if set(dims.values()) != {1} or not isinstance(channels, int):
        raise NotPermutable(
            f"operand '{value}' of rank {len(shape)} is broadcast, and would have to be split into blocks"
        )
    if channels % block:
        raise NotPermutable(_indivisible(value, channels, block))
    cut = (1, channels // block, 1, 1, block)
    return "Reshape", cut, cut


def _blocked_constant(value: str, tensor: Constant, own: str, block: int) -> Constant:
    """The constant aligned with blocked images; one number for all channels is kept."""
    shape = constant_shape(tensor)
    full = (1,) * (len(own) - len(shape)) + shape
    perm = tuple(own.index(axis) for axis in _IMAGE)
    batch, channels, height, width = permuted(full, perm)
    inner = 1 if channels == 1 else block
    if channels % inner:
        raise NotPermutable(_indivisible(value, channels, block))
    apart = (batch, channels // inner, inner, height, width)
    result = (batch, channels // inner, height, width, inner)

    def numbers() -> np.ndarray:
        image = tensor.numpy().reshape(full).transpose(perm)
        return np.ascontiguousarray(image.reshape(apart).transpose(0, 1, 3, 4, 2))

    return lazy_constant(numbers, tensor.dtype, result)
