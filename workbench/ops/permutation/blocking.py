"""What becomes of an operator when its images come with blocked channels, [N, C / c, H, W, c].

`blocked_form` answers as the contract's `propagate_permutation` does for permutations: which node computes the
same. Operators with a blocked form of their own take that; elementwise ones run as they are, with
constants lined up; Concat joins along the axis that its own has become.
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
_AXIS = {"N": 0, "C": 1, "H": 2, "W": 3}  # of a blocked image


@dataclass(frozen=True)
class BlockedForm:
    """The node that works on blocked images.

    inputs:    operands that must arrive blocked.
    outputs:   is each result blocked?
    constants: operands to be replaced by these.
    lined_up:  operands broadcast over blocks, each with the operator (Reshape or Unsqueeze) that gives it a block's
               axis, its numbers and the shape then; no element moves.
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
    """Has the operator a blocked form, or runs it on blocked images as it is?"""
    contract = contracts().get(op)
    return op in (*OPERATORS, "Concat") or (contract is not None and contract.layout.kind == "agnostic")


def blocked_form(graph: Graph, node: Node, own: str, block: int) -> BlockedForm:
    """The node on images of which `block` channels stand together; they are `own` (NCHW or NHWC) as written.

    Raises NotPermutable with a sentence where it has no such form.
    """
    if (graph.opset_imports.get("") or OLDEST_BLOCKED_OPSET) < OLDEST_BLOCKED_OPSET:
        raise NotPermutable(
            f"{node} is of an opset before {OLDEST_BLOCKED_OPSET}, which cannot reshape to blocks of any image"
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
    """Raises NotPermutable where they are not a number, or the image is empty."""
    shape = graph.shape(value) or ()
    channels = shape[own.index("C")] if len(shape) == len(own) else None
    if not isinstance(channels, int) or 0 in shape:
        raise NotPermutable(f"how many channels '{value}' has is not known")
    return channels


def check_channels(graph: Graph, value: str, own: str, block: int) -> None:
    """Raises NotPermutable where the value cannot be cut into blocks."""
    channels = channels_of(graph, value, own)
    if channels % block:
        raise NotPermutable(_indivisible(value, channels, block))


def _indivisible(value: str, channels: int, block: int) -> str:
    return f"'{value}' has {channels:,} channel{'' if channels == 1 else 's'}, which {block} does not divide"


def _form_of_its_own(graph: Graph, node: Node, own: str, block: int) -> BlockedForm:
    if own != _IMAGE:
        raise NotPermutable(f"{node} reads {_IMAGE}, not {own}")
    if len([value for value in node.outputs if value]) > 1:
        raise NotPermutable(f"{node} has a blocked form of one result, not of {len(node.outputs)}")
    if node.op == "Conv":
        return _convolution(graph, node, block)
    domain, op_type = blocked_op(node.op_type, block)
    return BlockedForm((0,), (True,), op_type=op_type, domain=domain)


def _convolution(graph: Graph, node: Node, block: int) -> BlockedForm:
    """Every group is of whole blocks, or of one channel; a first convolution reads what cannot be blocked."""
    source = node.inputs[0]
    given, made = (channels_of(graph, value, _IMAGE) for value in (source, node.outputs[0]))
    group = node.attr("group", 1)
    by_channel = group == given == made
    if group > 1 and not by_channel and (given % (group * block) or made % (group * block)):
        raise NotPermutable(f"{node} has groups that are not of whole blocks of {block} channels")
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
    """What may arrive in another order of all its axes may arrive blocked."""
    turned = channels_last(4) if own == _IMAGE else channels_first(4)
    carried = layout_of(node).propagate_permutation(graph, node, turned)
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
    """Has it all axes, and one channel?"""
    shape = graph.shape(value) or ()
    return len(shape) == len(own) and shape[own.index("C")] == 1


def _lined_up(graph: Graph, value: str, own: str, block: int) -> LinedUp:
    """One number for all channels is so in every block; a number a channel is cut into blocks.

    Raises NotPermutable for an operand of more, whose elements would have to move.
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
            f"operand '{value}' of rank {len(shape)} is broadcast, and would have to be cut into blocks"
        )
    if channels % block:
        raise NotPermutable(_indivisible(value, channels, block))
    cut = (1, channels // block, 1, 1, block)
    return "Reshape", cut, cut


def _blocked_constant(value: str, tensor: Constant, own: str, block: int) -> Constant:
    """Lined up with blocked images; one number for all channels is so in every block."""
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
