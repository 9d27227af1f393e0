"""Operators on images with blocked channels, [N, C / c, H, W, c].

`blocked_form` returns the equivalent node on blocked images, as a contract's `propagate_permutation` does for
permutations. Some operators have a blocked form. Elementwise ones stay, with constants aligned to blocks. Concat stays,
with its axis mapped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.ir import Constant, Graph, Node, constant_shape
from workbench.ir.permutation import channels_first, channels_last, permuted
from workbench.ir.types import rearranged_constant
from workbench.ops.blocked import OLDEST_BLOCKED_OPSET, OPERATORS, blocked_op
from workbench.ops.contract import contracts, layout_of
from workbench.ops.permutation.kinds import NotPermutable, with_attributes

_IMAGE = "NCHW"
_AXIS = {"N": 0, "C": 1, "H": 2, "W": 3}  # axes of a blocked image


@dataclass(frozen=True)
class BlockedForm:
    """The equivalent node on blocked images.

    inputs:    indices of the operands that must be blocked.
    outputs:   whether each result is blocked.
    constants: constants that replace operands, by index.
    aligned_inputs: how each broadcast operand is aligned with blocked images, by index: Reshape or Unsqueeze, its shape
               or axes, and the resulting shape. The elements keep their order.
    note:      what is not blocked, and why, for the sentence of the rewrite.
    """

    inputs: tuple[int, ...]
    outputs: tuple[bool, ...]
    attributes: Mapping[str, Any] | None = None
    constants: Mapping[int, Constant] = field(default_factory=dict)
    op_type: str | None = None
    domain: str | None = None
    note: str = ""
    aligned_inputs: Mapping[int, Alignment] = field(default_factory=dict)


Alignment = tuple[str, tuple[int, ...], tuple[int | str | None, ...]]


def may_be_blocked(op: str) -> bool:
    """Whether the operator has a blocked form, or runs on blocked images unchanged."""
    contract = contracts().get(op)
    return op in (*OPERATORS, "Concat") or (contract is not None and contract.layout.kind == "agnostic")


def blocked_form(graph: Graph, node: Node, layout: str, block: int) -> BlockedForm:
    """The equivalent node on images with blocks of `block` channels. layout: of the images in the graph, NCHW or NHWC.

    Raises NotPermutable with a sentence if there is none.
    """
    if (graph.opset_imports.get("") or OLDEST_BLOCKED_OPSET) < OLDEST_BLOCKED_OPSET:
        raise NotPermutable(
            f"{node} has an opset before {OLDEST_BLOCKED_OPSET}, and conversions to blocks need its Shape"
        )
    if not may_be_blocked(node.op) or sorted(layout) != sorted(_IMAGE):
        raise NotPermutable(f"{node} has no form in NCHW{block}c")
    if node.op in OPERATORS:
        form = _blocked_operator_form(graph, node, layout, block)
    elif node.op == "Concat":
        form = _concat(graph, node, layout, block)
    else:
        form = _elementwise(graph, node, layout, block)
    images = [node.inputs[index] for index in form.inputs]
    images += [value for value, is_blocked in zip(node.outputs, form.outputs, strict=False) if value and is_blocked]
    for value in images:
        check_channels(graph, value, layout, block)
    return form


def channels_of(graph: Graph, value: str, layout: str) -> int:
    """The number of channels. Raises NotPermutable if it is symbolic or unknown, or the image is empty."""
    shape = graph.shape(value) or ()
    channels = shape[layout.index("C")] if len(shape) == len(layout) else None
    if not isinstance(channels, int) or 0 in shape:
        raise NotPermutable(f"the number of channels of '{value}' is not known")
    return channels


def check_channels(graph: Graph, value: str, layout: str, block: int) -> None:
    """Raises NotPermutable if the channels cannot be split into blocks."""
    channels = channels_of(graph, value, layout)
    if channels % block:
        raise NotPermutable(_indivisible(value, channels, block))


def _indivisible(value: str, channels: int, block: int) -> str:
    return f"'{value}' has {channels:,} channel{'' if channels == 1 else 's'}, which {block} does not divide"


def _blocked_operator_form(graph: Graph, node: Node, layout: str, block: int) -> BlockedForm:
    if layout != _IMAGE:
        raise NotPermutable(f"{node} reads {_IMAGE}, not {layout}")
    if len([value for value in node.outputs if value]) > 1:
        raise NotPermutable(f"the blocked form of {node} has one result, not {len(node.outputs)}")
    if node.op == "Conv":
        return _convolution(graph, node, block)
    domain, op_type = blocked_op(node.op_type, block)
    return BlockedForm((0,), (True,), op_type=op_type, domain=domain)


def _convolution(graph: Graph, node: Node, block: int) -> BlockedForm:
    """Groups must consist of whole blocks, or of one channel each.

    An image whose channels are no multiple of the block is read in NCHW; the result is blocked.
    """
    source = node.inputs[0]
    channels, filters = (channels_of(graph, value, _IMAGE) for value in (source, node.outputs[0]))
    group = node.attr("group")
    is_depthwise = group == channels == filters
    if group > 1 and not is_depthwise and (channels % (group * block) or filters % (group * block)):
        raise NotPermutable(f"{node} has groups that do not consist of whole blocks of {block} channels")
    reads_nchw = group == 1 and channels % block != 0
    domain, op_type = blocked_op("Conv", block, reads_nchw)
    note = f"{_indivisible(source, channels, block)}, and is read in {_IMAGE}" if reads_nchw else ""
    return BlockedForm(() if reads_nchw else (0,), (True,), op_type=op_type, domain=domain, note=note)


def _concat(graph: Graph, node: Node, layout: str, block: int) -> BlockedForm:
    axis = _AXIS[layout[node.attr("axis") % len(layout)]]
    tensors = {index: graph.constant(value) for index, value in enumerate(node.inputs)}
    constants = {i: _blocked_constant(node.inputs[i], c, layout, block) for i, c in tensors.items() if c is not None}
    inputs = tuple(index for index, tensor in tensors.items() if tensor is None)
    return BlockedForm(inputs, (True,), with_attributes(node, axis=axis), constants)


def _elementwise(graph: Graph, node: Node, layout: str, block: int) -> BlockedForm:
    """An operator that computes the same on transposed operands does so on blocked ones."""
    transposed = channels_last(4) if layout == _IMAGE else channels_first(4)
    permuted_call = layout_of(node).propagate_permutation(graph, node, transposed)
    constants = {}
    for index in permuted_call.constants:
        tensor = graph.constant(node.inputs[index])
        assert tensor is not None
        constants[index] = _blocked_constant(node.inputs[index], tensor, layout, block)
    broadcast = [i for i in permuted_call.inputs if _has_one_channel(graph, node.inputs[i], layout)]
    aligned_inputs = {
        i: _aligned_input(graph, node.inputs[i], layout, block) for i in (*permuted_call.aligned_inputs, *broadcast)
    }
    inputs = tuple(index for index in permuted_call.inputs if index not in aligned_inputs)
    results = tuple(perm is not None for perm in permuted_call.outputs)
    return BlockedForm(inputs, results, None, constants, aligned_inputs=aligned_inputs)


def _has_one_channel(graph: Graph, value: str, layout: str) -> bool:
    """Whether the value has all axes, and one channel."""
    shape = graph.shape(value) or ()
    return len(shape) == len(layout) and shape[layout.index("C")] == 1


def _aligned_input(graph: Graph, value: str, layout: str, block: int) -> Alignment:
    """How to align a broadcast operand with blocks: one number for all channels stays, numbers per channel are split.

    Raises NotPermutable for an operand with other axes, whose elements would have to move.
    """
    shape = graph.shape(value) or ()
    letters = layout[len(layout) - len(shape) :]
    dims = dict.fromkeys(layout, 1) | dict(zip(letters, shape, strict=True))
    channels = dims.pop("C")
    if channels == 1:
        axis_of = _AXIS if layout == _IMAGE else {**_AXIS, "C": 4}  # either axis of channels may be the one of size 1
        present = {axis_of[letter] for letter in letters}
        blocked = (dims["N"], 1, dims["H"], dims["W"], 1)
        return "Unsqueeze", tuple(axis for axis in range(5) if axis not in present), blocked
    if set(dims.values()) != {1} or not isinstance(channels, int):
        raise NotPermutable(
            f"operand '{value}' of rank {len(shape)} is broadcast, and would have to be split into blocks"
        )
    if channels % block:
        raise NotPermutable(_indivisible(value, channels, block))
    split = (1, channels // block, 1, 1, block)
    return "Reshape", split, split


def _blocked_constant(value: str, tensor: Constant, layout: str, block: int) -> Constant:
    """The constant aligned with blocked images; one number for all channels stays one."""
    shape = constant_shape(tensor)
    full = (1,) * (len(layout) - len(shape)) + shape
    perm = tuple(layout.index(axis) for axis in _IMAGE)
    batch, channels, height, width = permuted(full, perm)
    inner = 1 if channels == 1 else block
    if channels % inner:
        raise NotPermutable(_indivisible(value, channels, block))
    split = (batch, channels // inner, inner, height, width)
    result = (batch, channels // inner, height, width, inner)

    def blocked(elements: np.ndarray) -> np.ndarray:
        return elements.reshape(full).transpose(perm).reshape(split).transpose(0, 1, 3, 4, 2)

    return rearranged_constant(tensor, blocked, result)
