"""Which values of a file may share memory: views, parts of a Concat, results over an operand.

The operators are listed here; inferred shapes decide. Whether a kernel that works so exists depends on the runtime.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from onnx import TensorProto

from workbench.checker.output import Output
from workbench.checker.plain import PlainNode
from workbench.checker.transpose_traffic import axis_order, moves

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
"""  # may overwrite their first operand, unless they train
_INTEGERS: dict[int, str] = {TensorProto.INT32: "<i4", TensorProto.INT64: "<i8"}
_OVER_ANY, _OVER_FIRST = frozenset(_ELEMENTWISE.split()), frozenset(_FIRST_ONLY.split())


class MemorySharing:
    """Which values of one file may share memory; nothing does if a size is unknown."""

    def __init__(self, output: Output) -> None:
        self.sizes = output.inferred
        self.constants = output.model.graph.constants
        self.functions = output.model.functions

    def is_view(self, call: PlainNode) -> bool:
        """Whether its only result has all elements of its first operand in order, in another shape."""
        if call.domain or not call.inputs or self._has_body(call) or call.op_type not in (*_VIEWS, "Transpose"):
            return False
        shape, result = self.sizes.shape(call.inputs[0]), self.sizes.shape(call.key)
        if call.op_type == "Transpose":
            kind, axes = call.attributes.get("perm", ("", None))
            perm = None if shape is None else axis_order(list(axes) if kind == "ints" else None, len(shape))
            return perm is not None and shape is not None and not moves(perm, shape)
        return shape is None or result is None or math.prod(shape) == math.prod(result)

    def pieces(self, call: PlainNode) -> Iterator[tuple[str, int]]:
        """The results that lie in the first operand, with the byte at which they begin there."""
        if self.is_view(call):
            yield call.key, 0
        elif self._has_body(call):
            return
        elif call.operator == "Slice":
            begin = self._slice_begin(call)
            yield from () if begin is None else ((call.key, begin),)
        elif call.operator == "Split":
            yield from self._along(call, call.inputs[0], call.outputs)

    def parts(self, call: PlainNode) -> Iterator[tuple[str, int]]:
        """The operands of a Concat that lie in its result, with the byte at which they begin there."""
        if call.operator == "Concat" and not self._has_body(call):
            yield from self._along(call, call.key, call.inputs)

    def overwritable(self, call: PlainNode) -> tuple[list[str], list[str]]:
        """The operands that the first result may overwrite if nothing reads them later; then those for which an
        unknown shape leaves it open."""
        operands = call.inputs[:1] if call.operator in _OVER_FIRST else call.inputs
        training = call.attributes.get("training_mode", ("int", 0))[1] or (
            call.operator == "Dropout" and len(call.inputs) > 2
        )
        if training or not (call.operator in _OVER_ANY or call.operator in _OVER_FIRST):
            return [], []
        if self._has_body(call):  # which is not read
            return [], [value for value in operands if value]
        result_form, certain, undecided = self._form(call.key), [], []
        for value in filter(None, operands):
            form = self._form(value)
            if result_form is None or form is None:
                undecided.append(value)
            elif form == result_form:
                certain.append(value)
        return certain, undecided

    def _has_body(self, call: PlainNode) -> bool:
        """Whether a function of the file defines the operator."""
        return (call.domain, call.op_type, call.overload) in self.functions

    def _form(self, value: str) -> tuple[tuple[int, ...], int] | None:
        """Shape and bits of an element."""
        shape, bits = self.sizes.shape(value), self.sizes.element_bits(value)
        return None if shape is None or bits is None else (shape, bits)

    def _element_bytes(self, value: str) -> int | None:
        """Bytes of an element; None if elements share bytes."""
        bits = self.sizes.element_bits(value)
        return None if bits is None or bits % 8 else bits // 8

    def _along(self, call: PlainNode, whole: str, parts: tuple[str, ...]) -> Iterator[tuple[str, int]]:
        """The parts of a Split or Concat with the byte at which each begins in the whole; none if a size is unknown or
        parts are not contiguous."""
        shape, item = self.sizes.shape(whole), self._element_bytes(whole)
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

    def _slice_begin(self, call: PlainNode) -> int | None:
        """The byte of the operand at which the result begins; None if it is not known to be contiguous there."""
        whole, part = self.sizes.shape(call.inputs[0]), self.sizes.shape(call.key)
        item = self._element_bytes(call.inputs[0])
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
        """The numbers of a constant operand; [] if it is omitted, None if they are not known."""
        if not value:
            return []
        constant = self.constants.get(value)
        if constant is None or constant.data is None or constant.dtype not in _INTEGERS:
            return None
        return [int(number) for number in np.frombuffer(constant.data, _INTEGERS[constant.dtype])]
