"""Which values of a file may lie in the same memory: views, parts of a Concat, results over an operand.

The operators are listed here, and shapes decide, as the checker infers them. That a kernel which works so exists is for
the runtime.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from onnx import TensorProto

from workbench.checker.moved import axis_order, moves
from workbench.checker.output import Output
from workbench.checker.plain import PlainNode

_VIEWS = ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
# Each element of the result depends on one element of each operand, which are broadcast to its shape; the sizes that
# Expand and Trilu take are read before anything is written.
_ELEMENTWISE = """
Abs Acos Acosh Add And Asin Asinh Atan Atanh BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike
Ceil Celu Clip Cos Cosh DequantizeLinear Div Elu Equal Erf Exp Expand Floor Gelu Greater GreaterOrEqual HardSigmoid
HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow QuantizeLinear
Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum SwiGLU Swish Tan Tanh
ThresholdedRelu Trilu Where Xor
com.microsoft.BiasGelu com.microsoft.FastGelu com.microsoft.Gelu com.microsoft.QuickGelu workbench.Silu
workbench.fused_bias_add_gelu workbench.fused_bias_add_mask_scale
"""
_FIRST_ONLY = """
BatchNormalization Dropout workbench.BatchNormalization_NWC workbench.BatchNormalization_NHWC
workbench.BatchNormalization_NDHWC workbench.BatchNormalization_NCHW8c workbench.BatchNormalization_NCHW16c
"""  # over their first operand, unless they train
_WHOLE: dict[int, str] = {TensorProto.INT32: "<i4", TensorProto.INT64: "<i8"}
_OVER_ANY, _OVER_FIRST = frozenset(_ELEMENTWISE.split()), frozenset(_FIRST_ONLY.split())


class MemorySharing:
    """Of the values of one file; nothing shares where a size is not known."""

    def __init__(self, output: Output) -> None:
        self.sizes = output.inferred
        self.constants = output.model.graph.constants
        self.functions = output.model.functions

    def is_view(self, call: PlainNode) -> bool:
        """Whether its one result is all of its first operand under another shape."""
        if call.domain or not call.inputs or self._has_body(call) or call.op_type not in (*_VIEWS, "Transpose"):
            return False
        shape, result = self.sizes.shape(call.inputs[0]), self.sizes.shape(call.key)
        if call.op_type == "Transpose":
            kind, message = call.attributes.get("perm", ("", None))
            perm = None if shape is None else axis_order(list(message) if kind == "ints" else None, len(shape))
            return perm is not None and shape is not None and not moves(perm, shape)
        return shape is None or result is None or math.prod(shape) == math.prod(result)

    def pieces(self, call: PlainNode) -> Iterator[tuple[str, int]]:
        """The results that lie in the first operand, with the byte at which they begin there."""
        if self.is_view(call):
            yield call.key, 0
        elif self._has_body(call):
            return
        elif call.operator == "Slice":
            begin = self._slice(call)
            yield from () if begin is None else ((call.key, begin),)
        elif call.operator == "Split":
            yield from self._along(call, call.inputs[0], call.outputs)

    def parts(self, call: PlainNode) -> Iterator[tuple[str, int]]:
        """The operands of a Concat that lie in its result, with the byte at which they begin there."""
        if call.operator == "Concat" and not self._has_body(call):
            yield from self._along(call, call.key, call.inputs)

    def overwritable(self, call: PlainNode) -> tuple[list[str], list[str]]:
        """The operands over which the first result may be written, if nothing reads them later; and those of which
        that cannot be said, since a shape is not known."""
        operands = call.inputs[:1] if call.operator in _OVER_FIRST else call.inputs
        training = call.attributes.get("training_mode", ("int", 0))[1] or (
            call.operator == "Dropout" and len(call.inputs) > 2
        )
        if training or not (call.operator in _OVER_ANY or call.operator in _OVER_FIRST):
            return [], []
        if self._has_body(call):  # which is not looked at
            return [], [value for value in operands if value]
        own, sure, open_ = self._form(call.key), [], []
        for value in filter(None, operands):
            form = self._form(value)
            if own is None or form is None:
                open_.append(value)
            elif form == own:
                sure.append(value)
        return sure, open_

    def _has_body(self, call: PlainNode) -> bool:
        """Whether a function of the file says what its name computes."""
        return (call.domain, call.op_type, call.overload) in self.functions

    def _form(self, value: str) -> tuple[tuple[int, ...], int] | None:
        """Shape and bits of an element."""
        shape, bits = self.sizes.shape(value), self.sizes.element_bits(value)
        return None if shape is None or bits is None else (shape, bits)

    def _item(self, value: str) -> int | None:
        """Bytes of an element; None if elements share bytes."""
        bits = self.sizes.element_bits(value)
        return None if bits is None or bits % 8 else bits // 8

    def _along(self, call: PlainNode, whole: str, parts: tuple[str, ...]) -> Iterator[tuple[str, int]]:
        shape, item = self.sizes.shape(whole), self._item(whole)
        sizes = [self.sizes.shape(part) for part in parts]
        kind, axis = call.attributes.get("axis", ("int", 0))
        if not shape or item is None or kind != "int" or not -len(shape) <= axis < len(shape):
            return
        if math.prod(shape[: axis % len(shape)]) != 1:
            return
        begin = 0
        for part, size in zip(parts, sizes, strict=True):
            if size is None:
                return
            yield part, begin * item
            begin += math.prod(size)

    def _slice(self, call: PlainNode) -> int | None:
        """Where the result begins in the operand, if it is one piece of it."""
        whole, part = self.sizes.shape(call.inputs[0]), self.sizes.shape(call.key)
        item = self._item(call.inputs[0])
        if whole is None or part is None or item is None or len(whole) != len(part) or 0 in part:
            return None
        entries = [self._integers(value) for value in (*call.inputs[1:], "", "", "", "")[:4]]
        if any(numbers is None for numbers in entries):
            return None
        starts, _, axes, steps = entries
        if steps and any(step != 1 for step in steps):
            return None
        cut = [axis for axis, (all_, some) in enumerate(zip(whole, part, strict=True)) if all_ != some]
        if cut and math.prod(part[: cut[-1]]) != 1:
            return None
        begin = 0
        for axis, start in zip(axes or range(len(whole)), starts or (), strict=False):
            if not -len(whole) <= axis < len(whole):
                return None
            size = whole[axis]
            begin += min(max(start + size if start < 0 else start, 0), size) * math.prod(whole[axis % len(whole) + 1 :])
        return item * begin

    def _integers(self, value: str) -> list[int] | None:
        """The numbers of a constant operand; [] if it is left out, None if they are not here."""
        if not value:
            return []
        held = self.constants.get(value)
        if held is None or held.data is None or held.dtype not in _WHOLE:
            return None
        return [int(number) for number in np.frombuffer(held.data, _WHOLE[held.dtype])]
