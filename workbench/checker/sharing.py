"""Which values of a file may share memory: views, parts of a Concat, results over an operand.

The operators are those of `operators.py`; inferred shapes decide. Whether a kernel that works so exists depends on the
runtime.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from onnx import TensorProto

from workbench.checker.operators import ELEMENTWISE_OPERATORS, OVER_FIRST, VIEW_OPERATORS, full_name, is_known
from workbench.checker.output import Output
from workbench.checker.plain import FunctionKey, PlainFunction, PlainNode
from workbench.checker.transpose_traffic import axis_order, moves

_SLICE_WITH_OPERANDS = 10  # the version before which its numbers were attributes
_INTEGERS: dict[int, str] = {TensorProto.INT32: "<i4", TensorProto.INT64: "<i8"}


class MemorySharing:
    """Which values of one file may share memory; nothing does if a size is unknown."""

    def __init__(self, output: Output) -> None:
        self.sizes = output.inferred
        self.constants = {name: output.model.graph.constants[name] for name in output.fixed}
        self.functions = output.model.functions
        self.kernels = output.kernels
        self.version = output.version

    def is_view(self, call: PlainNode) -> bool:
        """Whether its only result has all elements of its first operand in order, in another shape."""
        name = self._known_name(call)
        if not call.inputs or name not in (*VIEW_OPERATORS, "Transpose"):
            return False
        shape, result = self.sizes.shape(call.inputs[0]), self.sizes.shape(call.key)
        if name == "Transpose":
            kind, axes = call.attributes.get("perm", ("", None))
            perm = None if shape is None else axis_order(list(axes) if kind == "ints" else None, len(shape))
            return perm is not None and shape is not None and not moves(perm, shape)
        return shape is None or result is None or math.prod(shape) == math.prod(result)

    def pieces(self, call: PlainNode) -> Iterator[tuple[str, int]]:
        """The results that lie in the first operand, with the byte at which they begin there."""
        if self.is_view(call):
            yield call.key, 0
        elif self._known_name(call) == "Slice":
            begin = self._slice_begin(call)
            yield from () if begin is None else ((call.key, begin),)
        elif self._known_name(call) == "Split":
            yield from self._along(call, call.inputs[0], call.outputs)

    def parts(self, call: PlainNode) -> Iterator[tuple[str, int]]:
        """The operands of a Concat that lie in its result, with the byte at which they begin there."""
        if self._known_name(call) == "Concat":
            yield from self._along(call, call.key, call.inputs)

    def overwritable(self, call: PlainNode) -> list[str]:
        """The operands of its shape that the first result may overwrite, if nothing else reads them then or later."""
        result, indices = self._form(call.key), self._elementwise_operands(call)
        otherwise = {value for index, value in enumerate(call.inputs) if index not in indices}
        operands = {call.inputs[index] for index in indices} - otherwise
        return sorted(v for v in operands if v and result is not None and self._form(v) == result)

    def _elementwise_operands(self, call: PlainNode) -> list[int]:
        """The operands that contribute to each element of the first result one element each."""
        name = self._known_name(call)
        if name in OVER_FIRST:
            return [] if _may_train(call, name) else [0]
        if name in ELEMENTWISE_OPERATORS:
            return list(range(len(call.inputs)))
        function = self.functions.get(_key(call))
        return [] if function is None else self._elementwise_inputs(call, function)

    def _elementwise_inputs(self, call: PlainNode, function: PlainFunction) -> list[int]:
        """The same of a function with one result, of which at most the shapes of operands are read otherwise."""
        kernel = self.kernels.get(_key(call))
        if kernel is not None:
            return [0] if kernel.operator == "BatchNormalization" and len(call.outputs) == 1 else []
        refused: set[str] = set()
        sources = {value: {value} for value in function.graph.inputs}
        for node in function.graph.nodes.values():
            read: set[str] = set().union(*(sources.get(value, ()) for value in node.reads))
            name = self._known_name(node)
            if name not in (*ELEMENTWISE_OPERATORS, "Identity", "Shape", "Size"):
                refused |= read
            sources |= dict.fromkeys(node.outputs, set() if name in ("Shape", "Size") else read)
        if len(function.graph.outputs) != 1:
            return []
        inputs = list(function.graph.inputs)
        allowed = [value in sources.get(function.graph.outputs[0], ()) and value not in refused for value in inputs]
        return [index for index, _ in enumerate(call.inputs) if index < len(inputs) and allowed[index]]

    def _known_name(self, call: PlainNode) -> str:
        """The operator; "" if its version is not known, or if a function of the file defines it."""
        name = full_name(*_key(call))
        return name if _key(call) not in self.functions and is_known(name, self.version) else ""

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
        if self.version < _SLICE_WITH_OPERANDS:
            starts, axes = (list(call.attributes.get(name, ("", ()))[1]) for name in ("starts", "axes"))
        if steps and any(step != 1 for step in steps):
            return None
        if axes and len({axis % len(whole) for axis in axes}) < len(axes):
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


def _key(call: PlainNode) -> FunctionKey:
    return (call.domain, call.op_type, call.overload)


def _may_train(call: PlainNode, name: str) -> bool:
    """Whether a BatchNormalization or a Dropout may compute what it does in training."""
    if name == "Dropout":
        return len(call.inputs) > 2
    return len(call.outputs) > 1 or bool(call.attributes.get("training_mode", ("int", 0))[1])
