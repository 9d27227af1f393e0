"""Forms of image operators for blocked channels, as ONNX functions in the domain "workbench".

A blocked image is [N, C / c, H, W, c]: c channels (8 or 16, the width of a vector register)
are adjacent in memory. `workbench.Conv_NCHW8c(x, w, b)` reads and returns such images; its
body unblocks by Transpose and Reshape, runs the operator and blocks again, so a runtime of
functions can run it. `Conv_NCHW_NCHW8c` reads NCHW, for images whose channels are not a multiple of c, as
in a network's first convolution. Weights stay in ONNX's order.

Source: oneDNN's nChw8c and nChw16c; ONNX Runtime's NchwcTransformer; Liu et al., "Optimizing
CNN Model Inference on CPUs" (NeoCPU), USENIX ATC 2019.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from onnx import parser

from workbench.ir import Function
from workbench.ir.from_proto import from_proto
from workbench.ops.channels_last import DOMAIN, form_of
from workbench.ops.contract import Call, Figure, operator, per_input, per_output
from workbench.ops.convolution import conv, conv_flops
from workbench.ops.fusion_kinds import FUSABLE, FusionKind, KindOfNode, if_inference
from workbench.ops.normalization import batch_normalization
from workbench.ops.permutation.kinds import BARRIER
from workbench.ops.pooling import average_pool, global_average_pool, global_max_pool, max_pool, pool_flops

BLOCKS = (8, 16)
BLOCKED_LAYOUTS = tuple(f"NCHW{block}c" for block in BLOCKS)
POOLS = ("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")
OPERATORS = ("Conv", *POOLS, "BatchNormalization")
OLDEST_BLOCKED_OPSET = 15  # the first whose Shape can return a part of the dims
_NAME = re.compile(rf"({'|'.join(OPERATORS)})(_NCHW)?_NCHW({'|'.join(map(str, BLOCKS))})c")


@dataclass(frozen=True)
class Blocked:
    """The parts of a blocked operator's name. from_plain: whether it reads NCHW."""

    op_type: str
    block: int
    from_plain: bool = False


def block_of(layout: str) -> int | None:
    """The number of channels in a block of the layout; None if it is not blocked."""
    return dict(zip(BLOCKED_LAYOUTS, BLOCKS, strict=True)).get(layout)


def blocked_op(op_type: str, block: int, from_plain: bool = False) -> tuple[str, str]:
    """(domain, operator) of the blocked form."""
    return DOMAIN, f"{op_type}{'_NCHW' if from_plain else ''}_NCHW{block}c"


@cache
def parse_blocked(domain: str, op_type: str) -> Blocked | None:
    """The parts of a blocked operator's name; None for any other operator."""
    result = _NAME.fullmatch(op_type) if domain == DOMAIN else None
    if result is None or (result[2] and result[1] != "Conv"):
        return None
    return Blocked(result[1], int(result[3]), bool(result[2]))


# ---- bodies ---------------------------------------------------------------------------

_UNBLOCK = """
    x_apart = Transpose <perm = [0, 1, 4, 2, 3]> (x)
    x_batch = Shape <start = 0, end = 1> (x)
    x_blocks = Shape <start = 1, end = 2> (x)
    x_channels = Mul (x_blocks, block)
    x_image = Shape <start = 2, end = 4> (x)
    x_shape = Concat <axis = 0> (x_batch, x_channels, x_image)
    image = Reshape (x_apart, x_shape)
"""
_BODY = """<domain: "{domain}", opset_import: ["": {opset}]>
{name} <{attributes}> ({inputs}) => (y) {{
    block = Constant <value_ints = [{block}]> ()
    {unblock}
    result = {op_type} <{references}> ({operands})
    y_batch = Shape <start = 0, end = 1> (result)
    y_channels = Shape <start = 1, end = 2> (result)
    y_blocks = Div (y_channels, block)
    y_image = Shape <start = 2, end = 4> (result)
    y_shape = Concat <axis = 0> (y_batch, y_blocks, block, y_image)
    y_apart = Reshape (result, y_shape)
    y = Transpose <perm = [0, 1, 3, 4, 2]> (y_apart)
}}"""
_KINDS = {1: "float", 2: "int", 3: "string", 6: "floats", 7: "ints"}  # of ONNX's AttributeType


def blocked_function(op_type: str, opset: int) -> Function:
    """The function that defines `workbench.<op_type>`, valid at `opset` (15 or later).

    Raises ValueError for a name that is not a blocked operator's.
    """
    parts = parse_blocked(DOMAIN, op_type)
    if parts is None:
        raise ValueError(f"{DOMAIN}.{op_type} is not a blocked operator")
    plain = form_of(parts.op_type, opset)
    inputs = ("x", *plain.inputs[1:])
    text = _BODY.format(
        domain=DOMAIN,
        opset=opset,
        name=op_type,
        attributes=", ".join(plain.attributes),
        inputs=", ".join(inputs),
        block=parts.block,
        unblock="" if parts.from_plain else _UNBLOCK,
        op_type=parts.op_type,
        references=", ".join(f"{name}: {_KINDS[kind]} = @{name}" for name, kind in plain.attributes.items()),
        operands=", ".join(inputs if parts.from_plain else ("image", *inputs[1:])),
    )
    text = text.replace("<>", "")  # if there are no attributes
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> none () => () {{}}')
    model.functions.append(parser.parse_function(text))
    return next(iter(from_proto(model).functions.values()))


# ---- contracts --------------------------------------------------------------------------

_Run = Callable[..., Any]


def unblocked(x: Any) -> Any:
    """[N, C / c, H, W, c] as [N, C, H, W], for torch or NumPy."""
    n, blocks, height, width, block = x.shape
    return _transposed(x, (0, 1, 4, 2, 3)).reshape(n, blocks * block, height, width)


def blocked(x: Any, block: int) -> Any:
    """[N, C, H, W] as a view [N, C / c, H, W, c], for torch or NumPy."""
    n, channels, height, width = x.shape
    return _transposed(x.reshape(n, channels // block, block, height, width), (0, 1, 3, 4, 2))


def _transposed(x: Any, perm: tuple[int, ...]) -> Any:
    return x.permute(perm) if hasattr(x, "permute") else x.transpose(perm)


def _on_whole_images(run: _Run, parts: Blocked) -> _Run:
    """Unblock, run, block."""

    def native(call: Call, x: Any, *operands: Any) -> Any:
        result = run(call, x if parts.from_plain else unblocked(x), *operands)
        return blocked(result, parts.block).contiguous()

    return native


def _on_blocks(run: _Run) -> _Run:
    """For operators that keep channels apart: each block as an image of c channels, channels last, without a copy."""

    def native(call: Call, x: Any) -> Any:
        result = run(call, x.flatten(0, 1).permute(0, 3, 1, 2))
        return result.permute(0, 2, 3, 1).unflatten(0, x.shape[:2]).contiguous()

    return native


def _enter(op_type: str, category: str, run: _Run, flops: Figure, fusion: FusionKind | KindOfNode = FUSABLE) -> None:
    for block in BLOCKS:
        for from_plain in (False, True) if op_type == "Conv" else (False,):
            parts = Blocked(op_type, block, from_plain)
            native = _on_blocks(run) if op_type in POOLS else _on_whole_images(run, parts)
            name = ".".join(blocked_op(op_type, block, from_plain))
            operator(name, category=category, layout=BARRIER, fusion=fusion, flops=flops)(native)


_enter("Conv", "convolution", conv, conv_flops)
_enter("MaxPool", "pooling", max_pool, pool_flops)
_enter("AveragePool", "pooling", average_pool, pool_flops)
_enter("GlobalAveragePool", "pooling", global_average_pool, per_input(1))
_enter("GlobalMaxPool", "pooling", global_max_pool, per_input(1))
_enter("BatchNormalization", "normalization", batch_normalization, per_output(2), if_inference)
