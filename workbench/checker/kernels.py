"""Which functions of a file are operators of ONNX in another layout, for which a runtime may have a kernel.

A name alone says nothing: `workbench.Conv_NHWC` is such a function if its body is a Conv between the Transposes to NCHW
and back. What any other function runs is counted as if it were in the main graph.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.checker.operators import names_in
from workbench.checker.plain import WORKBENCH_DOMAIN, FunctionKey, PlainFunction, PlainModel, PlainNode, kernel_name

_RANKS = {"NWC": 3, "NHWC": 4, "NDHWC": 5}
_ACTIVATIONS = {
    "Relu": ("Relu",),
    "Relu6": ("Clip",),
    "LeakyRelu": ("LeakyRelu",),
    "Sigmoid": ("Sigmoid",),
    "HardSigmoid": ("HardSigmoid",),
    "HardSwish": ("HardSwish",),
    "Silu": ("Sigmoid", "Mul"),
}
_FUSED = re.compile(rf"Conv(Add)?({'|'.join(_ACTIVATIONS)})")
_LAST = re.compile(rf"([A-Za-z0-9]+)_({'|'.join(_RANKS)})(_OHWI|_HWIO|_HWOI)?")
_BLOCKED = re.compile(r"([A-Za-z]+)(_NCHW)?_NCHW(4|8|16|32)c")
_IN_BLOCKS = names_in("AveragePool BatchNormalization Conv GlobalAveragePool GlobalMaxPool MaxPool")
_CHANNELS_LAST = names_in(
    """
    AveragePool BatchNormalization Conv ConvInteger ConvTranspose DepthToSpace GlobalAveragePool GlobalLpPool
    GlobalMaxPool GridSample GroupNormalization InstanceNormalization LRN LpPool MaxPool MaxUnpool QLinearConv
    SpaceToDepth
    """
)


@dataclass(frozen=True)
class LayoutKernel:
    """An operator of ONNX in another layout: "Conv", "NHWC". block: the channels of a block, 0 without blocks."""

    operator: str
    layout: str
    block: int = 0


def layout_kernels(model: PlainModel) -> dict[FunctionKey, LayoutKernel]:
    """The functions of a model that are an operator of ONNX, or a convolution and its activation, in another layout."""
    kernels = {key: _kernel(key, function, model) for key, function in model.functions.items()}
    return {key: kernel for key, kernel in kernels.items() if kernel is not None}


def _kernel(key: FunctionKey, function: PlainFunction, model: PlainModel) -> LayoutKernel | None:
    domain, op_type, _ = key
    name = kernel_name(domain, op_type) if domain == WORKBENCH_DOMAIN else ""
    last, blocked = _LAST.fullmatch(name), _BLOCKED.fullmatch(name)
    nodes = list(function.graph.nodes.values())
    if last is not None:
        fits = _is_between_transposes(function, nodes, last[1], _RANKS[last[2]], last[3] or "", model)
        return LayoutKernel(_plain(last[1]), last[2]) if fits else None
    if blocked is None or blocked[1] not in _IN_BLOCKS or (blocked[2] and blocked[1] != "Conv"):
        return None
    fits = _is_between_blocks(function, blocked[1], int(blocked[3]), reads_blocks=not blocked[2])
    return LayoutKernel(blocked[1], name.partition("_")[2], int(blocked[3])) if fits else None


def _plain(name: str) -> str:
    return "Conv" if _FUSED.fullmatch(name) else name.removesuffix("WithIndices")


# ---- channels last -----------------------------------------------------------------------------------------------


def _is_between_transposes(
    function: PlainFunction, nodes: list[PlainNode], name: str, rank: int, weights: str, model: PlainModel
) -> bool:
    """Whether the body is the operator `name`, whose images, and no other operands, are brought to channels first, with
    its results brought back."""
    first, last = (0, rank - 1, *range(1, rank - 1)), (0, *range(2, rank), 1)
    cores = [node for node in nodes if node.operator != "Transpose"]
    if len(cores) != 1 or function.graph.constants or not _computes(cores[0], name, model):
        return False
    (core,) = cores
    turned = {node.key: node for node in nodes if node is not core}
    images = _images(name)
    for index, operand in enumerate(core.inputs):
        turn = turned.pop(operand, None)
        source = operand if turn is None else turn.inputs[0]
        order = None if turn is None else _perm(turn)
        expected = first if index in images else _onnx_order(weights, rank) if index == 1 and weights else None
        if operand and (source not in function.graph.inputs or order != expected):
            return False
    back = {node.inputs[0]: node for node in turned.values() if _perm(node) == last}
    return len(back) == len(turned) and [back[v].key if v in back else v for v in core.outputs] == [
        *function.graph.outputs
    ] == [node.key for node in back.values()]


def _computes(core: PlainNode, name: str, model: PlainModel) -> bool:
    """Whether a node is the operator of ONNX of that name, or calls a convolution with its activation."""
    if not core.domain:
        return core.op_type == name.removesuffix("WithIndices") and core.op_type in _CHANNELS_LAST
    fused = _FUSED.fullmatch(name)
    body = model.functions.get((core.domain, core.op_type, core.overload))
    if fused is None or body is None or kernel_name(core.domain, core.op_type) != name:
        return False
    operators = [
        node.operator
        for node in body.graph.nodes.values()
        if node.operator != "CastLike" or node.inputs[0] not in body.graph.constants
    ]
    return operators == ["Conv", *(["Add"] if fused[1] else []), *_ACTIVATIONS[fused[2]]]


def _images(name: str) -> tuple[int, ...]:
    if name == "MaxUnpool":
        return (0, 1)
    fused = _FUSED.fullmatch(name)
    return (0, 3) if fused is not None and fused[1] else (0,)


def _onnx_order(weights: str, rank: int) -> tuple[int, ...]:
    """The permutation of a convolution's weight from the order in a name, such as "_HWIO", to ONNX's."""
    spatial = "DHW"[-(rank - 2) :]
    order = weights.lstrip("_").replace("HW", spatial)
    return tuple(order.index(axis) for axis in f"OI{spatial}")


def _perm(node: PlainNode) -> tuple[int, ...]:
    kind, axes = node.attributes.get("perm", ("", ()))
    return tuple(axes) if kind == "ints" else ()


# ---- blocks of channels --------------------------------------------------------------------------------------------

# By value, the operator that computes it, its operands, and its axes or, of a shape, the first dim that it takes and
# the first that it does not.
_Body = dict[str, tuple[Any, ...]]
_FROM_BLOCKS: _Body = {
    "x_apart": ("Transpose", "x", (0, 1, 4, 2, 3)),
    "x_batch": ("Shape", "x", 0, 1),
    "x_blocks": ("Shape", "x", 1, 2),
    "x_channels": ("Mul", "x_blocks", "block"),
    "x_image": ("Shape", "x", 2, 4),
    "x_shape": ("Concat", "x_batch", "x_channels", "x_image"),
    "image": ("Reshape", "x_apart", "x_shape"),
}
_TO_BLOCKS: _Body = {
    "y_batch": ("Shape", "result", 0, 1),
    "y_channels": ("Shape", "result", 1, 2),
    "y_blocks": ("Div", "y_channels", "block"),
    "y_image": ("Shape", "result", 2, 4),
    "y_shape": ("Concat", "y_batch", "y_blocks", "block", "y_image"),
    "y_apart": ("Reshape", "result", "y_shape"),
    "y": ("Transpose", "y_apart", (0, 1, 3, 4, 2)),
}


def _is_between_blocks(function: PlainFunction, op_type: str, block: int, reads_blocks: bool) -> bool:
    """Whether the body is the operator on an image that is unblocked before, and blocked again after."""
    nodes = dict(function.graph.nodes)
    core = nodes.pop("result", None)
    if core is None or core.operator != op_type or core.outputs != ("result",) or function.graph.outputs != ("y",):
        return False
    operands = ("image" if reads_blocks else "x", *function.graph.inputs[1:])
    if core.inputs != operands or function.graph.inputs[:1] != ("x",):
        return False
    size = function.graph.constants.get("block")
    is_block = size is not None and (size.dtype, size.shape, size.data) == (7, (1,), block.to_bytes(8, "little"))
    return is_block and _read_body(function, nodes) == ({**_FROM_BLOCKS} if reads_blocks else {}) | _TO_BLOCKS


def _read_body(function: PlainFunction, nodes: Mapping[str, PlainNode]) -> _Body:
    """The body in the form above, in which a Slice of a Shape, or a Gather from it, is a part of the shape."""
    result: _Body = {}
    whole = {key: node.inputs[0] for key, node in nodes.items() if node.operator == "Shape" and not node.attributes}
    for key, node in nodes.items():
        if key in whole:
            continue
        if node.operator == "Shape":
            part = _integers(node, "start", 0, function) + _integers(node, "end", 0, function)
            result[key] = ("Shape", *node.inputs, *part)
        elif node.operator in ("Slice", "Gather") and node.inputs[0] in whole:
            part = (_slice if node.operator == "Slice" else _gathered)(node, function)
            result[key] = ("Shape", whole[node.inputs[0]], *part)
        elif node.operator == "Transpose":
            result[key] = ("Transpose", *node.inputs, _perm(node))
        elif node.operator != "Concat" or _integers(node, "axis", 0, function) == [0]:
            result[key] = (node.operator, *node.inputs)
    return result


def _slice(node: PlainNode, function: PlainFunction) -> list[int]:
    """The first place that a Slice of a vector takes, and the first that it does not; [] if it is another Slice."""
    names = enumerate(("starts", "ends", "axes"), 1)
    first, last, axis = (_integers(node, name, index, function) for index, name in names)
    states_axis = len(node.inputs) > 3 or "axes" in node.attributes
    return [*first, *last] if len(node.inputs) <= 4 and axis == ([0] if states_axis else []) else []


def _gathered(node: PlainNode, function: PlainFunction) -> list[int]:
    """As `_slice`, of a Gather."""
    indices, axis = _integers(node, "indices", 1, function), _integers(node, "axis", 0, function)
    is_part = axis in ([], [0]) and all(b == a + 1 for a, b in itertools.pairwise(indices))
    return [indices[0], indices[-1] + 1] if indices and is_part else []


def _integers(node: PlainNode, name: str, index: int, function: PlainFunction) -> list[int]:
    """The numbers of an attribute or, if there is none, of a constant operand."""
    kind, value = node.attributes.get(name, ("", ()))
    if kind in ("int", "ints"):
        return [value] if kind == "int" else list(value)
    constant = function.graph.constants.get(node.inputs[index]) if 0 < index < len(node.inputs) else None
    if constant is None or constant.data is None or constant.dtype != 7:
        return []
    return [int(number) for number in np.frombuffer(constant.data, "<i8")]
