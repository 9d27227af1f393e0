"""Fusion kinds: on which elements of its operands an element of an operator's result depends.

Source: Apache TVM's OpPatternKind (include/tvm/relax/op_attr_types.h); Chen et al., "TVM: An Automated
End-to-End Optimizing Compiler for Deep Learning", OSDI 2018, section 3.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from workbench.ir import Node


class FusionKind(IntEnum):
    """From the kind that fuses most easily to the one that never does; numbered as in TVM.

    ELEMENTWISE: one result, of the shape of the first operand; element i depends on element i of it.
    BROADCAST:   one result; each element depends on one element of each operand, which are broadcast to its shape.
    INJECTIVE:   each element of each result depends on at most one element of each operand (Transpose, Slice, Concat).
    REDUCTION:   one result; no element of the operand contributes to two elements of it.
    FUSABLE:     elements depend on many, as in a convolution; elementwise operators can be applied to them as they
                 are computed ("out-elementwise-fusable").
    OPAQUE:      nothing is known: control flow, random numbers, sequences, shapes that depend on elements.
    """

    ELEMENTWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    REDUCTION = 3
    FUSABLE = 4
    OPAQUE = 8


ELEMENTWISE = FusionKind.ELEMENTWISE
BROADCAST = FusionKind.BROADCAST
INJECTIVE = FusionKind.INJECTIVE
REDUCTION = FusionKind.REDUCTION
FUSABLE = FusionKind.FUSABLE
OPAQUE = FusionKind.OPAQUE

KindOfNode = Callable[[Node], FusionKind]


def if_nearest(node: Node) -> FusionKind:
    """Resize by nearest neighbours selects elements; other modes combine several."""
    return INJECTIVE if node.attr("mode") in ("nearest", b"nearest") else FUSABLE


def if_inference(node: Node) -> FusionKind:
    """BatchNormalization with stored statistics scales each element; in training mode it computes them."""
    return OPAQUE if node.attr("training_mode", 0) else BROADCAST


def if_not_training(node: Node) -> FusionKind:
    """Dropout returns its operand unless its third operand, the training mode, may be true."""
    return OPAQUE if len(node.inputs) > 2 and node.inputs[2] else ELEMENTWISE
