"""Forms of image operators for blocked channels, as ONNX functions in the domain "workbench".

A blocked image is [N, C / c, H, W, c]: c channels (4 to 32, the width of a vector register or of a matrix unit) are
adjacent in memory. `workbench.Conv_NCHW8c(x, w, b)` reads and returns such images. Its body unblocks by Transpose and
Reshape, runs the operator and blocks again, so that every runtime of ONNX functions can run it. `Conv_NCHW_NCHW8c`
reads NCHW, for images whose channels are not a multiple of c, as in a network's first convolution. Weights stay in
ONNX's order.

Source: oneDNN's nChw8c and nChw16c; cuDNN's NCHW_VECT_C of 4 and 32; ONNX Runtime's NchwcTransformer; Liu et al.,
"Optimizing CNN Model Inference on CPUs" (NeoCPU), USENIX ATC 2019.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import numpy as np
from onnx import parser

from workbench.ir import Function
from workbench.ir.from_proto import from_proto
from workbench.ops.channels_last import DOMAIN, signature_of
from workbench.ops.contract import Call, FlopCount, operator, per_input, per_output
from workbench.ops.convolution import conv, conv_flops
from workbench.ops.dtypes import UnsupportedByTorch
from workbench.ops.fusion_kinds import FUSABLE, FusionKind, KindOfNode, if_inference
from workbench.ops.layout_sensitive import ImageRun
from workbench.ops.lazy import torch
from workbench.ops.normalization import batch_normalization
from workbench.ops.permutation.kinds import LAYOUT_BARRIER
from workbench.ops.pooling import average_pool, global_average_pool, global_max_pool, max_pool, pool_flops

BLOCKS = (4, 8, 16, 32)
DEFAULT_BLOCK = 8
BLOCKED_LAYOUTS = tuple(f"NCHW{block}c" for block in BLOCKS)
POOLS = ("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")
OPERATORS = ("Conv", *POOLS, "BatchNormalization")
OLDEST_BLOCKED_OPSET = 15  # the first whose Shape can return a part of the dims, which conversions ask for
_NAME = re.compile(rf"({'|'.join(OPERATORS)})(_NCHW)?_NCHW({'|'.join(map(str, BLOCKS))})c")


@dataclass(frozen=True)
class Blocked:
    """The parts of a blocked operator's name. reads_nchw: whether it reads NCHW."""

    op_type: str
    block: int
    reads_nchw: bool = False


def block_of(layout: str) -> int | None:
    """The number of channels in a block of the layout; None if it is not blocked."""
    return dict(zip(BLOCKED_LAYOUTS, BLOCKS, strict=True)).get(layout)


def blocked_op(op_type: str, block: int, reads_nchw: bool = False) -> tuple[str, str]:
    """(domain, operator) of the blocked form."""
    return DOMAIN, f"{op_type}{'_NCHW' if reads_nchw else ''}_NCHW{block}c"


@cache
def parse_blocked(domain: str, op_type: str) -> Blocked | None:
    """The parts of a blocked operator's name; None for any other operator."""
    result = _NAME.fullmatch(op_type) if domain == DOMAIN else None
    if result is None or (result[2] and result[1] != "Conv"):
        return None
    return Blocked(result[1], int(result[3]), bool(result[2]))


# ---- bodies ---------------------------------------------------------------------------

_BODY = """<domain: "{domain}", opset_import: ["": {opset}]>
{name} <{attributes}> ({inputs}) => (y) {{
    block = Constant <value = int64[1] {{{block}}}> ()
    zero = Constant <value = int64[1] {{0}}> ()
    one = Constant <value = int64[1] {{1}}> ()
    rest = Constant <value = int64[1] {{-1}}> ()
    spatial = Constant <value = int64[2] {{2, 3}}> ()
    {unblock}
    result = {op_type} <{references}> ({operands})
    {blocked}
}}"""
_UNBLOCK = """
    x_apart = Transpose <perm = [0, 1, 4, 2, 3]> (x)
    x_dims = Shape (x)
    x_batch = Gather (x_dims, zero)
    x_blocks = Gather (x_dims, one)
    x_channels = Mul (x_blocks, block)
    x_image = Gather (x_dims, spatial)
    x_shape = Concat <axis = 0> (x_batch, x_channels, x_image)
    image = Reshape (x_apart, x_shape)
"""
_BLOCK = """
    y_dims = Shape (result)
    y_batch = Gather (y_dims, zero)
    y_channels = Gather (y_dims, one)
    y_blocks = Div (y_channels, block)
    y_image = Gather (y_dims, spatial)
    y_shape = Concat <axis = 0> (y_batch, y_blocks, block, y_image)
    y_apart = Reshape (result, y_shape)
    y = Transpose <perm = [0, 1, 3, 4, 2]> (y_apart)
"""
# The same for ONNX's shape inference, which follows no arithmetic of symbols: Reshapes copy dims of the same axes (0)
# and find the channels (-1), which ONNX Runtime does not in an empty batch.
_UNBLOCK_TYPE = """
    x_last = Transpose <perm = [0, 2, 3, 1, 4]> (x)
    x_shape = Concat <axis = 0> (zero, zero, zero, rest)
    x_joined = Reshape (x_last, x_shape)
    image = Transpose <perm = [0, 3, 1, 2]> (x_joined)
"""
_BLOCK_TYPE = """
    y_last = Transpose <perm = [0, 2, 3, 1]> (result)
    y_shape = Concat <axis = 0> (zero, zero, zero, rest, block)
    y_apart = Reshape (y_last, y_shape)
    y = Transpose <perm = [0, 3, 1, 2, 4]> (y_apart)
"""
_TYPE_NAMES = {1: "float", 2: "int", 3: "string", 6: "floats", 7: "ints"}  # names of ONNX's AttributeType


def blocked_function(op_type: str, opset: int, of_types: bool = False) -> Function:
    """The function that defines `workbench.<op_type>`, valid at `opset`.

    of_types: whether it is one of which ONNX infers the type for symbolic dims too.

    Raises ValueError for a name that is not a blocked operator's.
    """
    parts = parse_blocked(DOMAIN, op_type)
    if parts is None:
        raise ValueError(f"{DOMAIN}.{op_type} is not a blocked operator")
    plain = signature_of(parts.op_type, opset)
    inputs = ("x", *plain.inputs[1:])
    text = _BODY.format(
        domain=DOMAIN,
        opset=opset,
        name=op_type,
        attributes=", ".join(plain.attributes),
        inputs=", ".join(inputs),
        block=parts.block,
        unblock="" if parts.reads_nchw else _UNBLOCK_TYPE if of_types else _UNBLOCK,
        blocked=_BLOCK_TYPE if of_types else _BLOCK,
        op_type=parts.op_type,
        references=", ".join(f"{name}: {_TYPE_NAMES[type_]} = @{name}" for name, type_ in plain.attributes.items()),
        operands=", ".join(inputs if parts.reads_nchw else ("image", *inputs[1:])),
    )
    text = text.replace("<>", "")  # if there are no attributes
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> none () => () {{}}')
    model.functions.append(parser.parse_function(text))
    return next(iter(from_proto(model).functions.values()))


# ---- contracts --------------------------------------------------------------------------

_Array = TypeVar("_Array", "torch.Tensor", np.ndarray)


def unblocked(x: _Array) -> _Array:
    """[N, C / c, H, W, c] as [N, C, H, W]."""
    n, blocks, height, width, block = x.shape
    return _transposed(x, (0, 1, 4, 2, 3)).reshape(n, blocks * block, height, width)


def blocked(x: _Array, block: int) -> _Array:
    """[N, C, H, W] as a view [N, C / c, H, W, c], where c = block."""
    n, channels, height, width = x.shape
    return _transposed(x.reshape(n, channels // block, block, height, width), (0, 1, 3, 4, 2))


def _transposed(x: _Array, perm: tuple[int, ...]) -> _Array:
    return x.transpose(perm) if isinstance(x, np.ndarray) else x.permute(perm)


def _only(results: torch.Tensor | tuple[torch.Tensor, ...]) -> torch.Tensor:
    if isinstance(results, tuple):
        raise UnsupportedByTorch("a blocked form has one result")
    return results


def _on_whole_images(run: ImageRun, parts: Blocked) -> ImageRun:
    """`run` on the image as a whole, which is unblocked before and blocked again after."""

    def native(call: Call, x: torch.Tensor, *operands: torch.Tensor | None) -> torch.Tensor:
        """Images as of `run`, blocked: [N, C / c, H, W, c]."""
        result = _only(run(call, x if parts.reads_nchw else unblocked(x), *operands))
        return blocked(result, parts.block).contiguous()

    return native


def _on_blocks(run: ImageRun) -> ImageRun:
    """`run` on each block as an image of c channels, without a copy; for operators that do not mix channels."""

    def native(call: Call, x: torch.Tensor) -> torch.Tensor:
        """Images as of `run`, blocked: [N, C / c, H, W, c]."""
        result = _only(run(call, x.flatten(0, 1).permute(0, 3, 1, 2)))
        return torch.unflatten(result.permute(0, 2, 3, 1), 0, x.shape[:2]).contiguous()

    return native


def _register(
    op_type: str, category: str, run: ImageRun, flops: FlopCount, fusion: FusionKind | KindOfNode = FUSABLE
) -> None:
    for block in BLOCKS:
        for reads_nchw in (False, True) if op_type == "Conv" else (False,):
            parts = Blocked(op_type, block, reads_nchw)
            native = _on_blocks(run) if op_type in POOLS else _on_whole_images(run, parts)
            name = ".".join(blocked_op(op_type, block, reads_nchw))
            operator(name, category=category, layout=LAYOUT_BARRIER, fusion=fusion, flops=flops)(native)


_register("Conv", "convolution", conv, conv_flops)
_register("MaxPool", "pooling", max_pool, pool_flops)
_register("AveragePool", "pooling", average_pool, pool_flops)
_register("GlobalAveragePool", "pooling", global_average_pool, per_input(1))
_register("GlobalMaxPool", "pooling", global_max_pool, per_input(1))
_register("BatchNormalization", "normalization", batch_normalization, per_output(2), if_inference)
