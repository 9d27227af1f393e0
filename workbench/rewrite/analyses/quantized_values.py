"""Values that are stored in a few bits, in words: number type, scales and zero points, and how far weights are off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from workbench.ir import Constant, DataType, Graph, Node, constant_shape

_INTEGER_PRODUCTS = ("MatMulInteger", "ConvInteger")


@dataclass(frozen=True)
class QuantizedValue:
    """A number is scale * (integer - zero).

    name:     of the float value, as the operator reads or gives it.
    scale:    one number, or one for each index of `axis`, or for each `block` of indices; None if it is computed.
    zero:     in the shape of the scale; None if it is computed.
    integers: the elements, if they are a constant; read when they are asked for.
    """

    name: str
    dtype: DataType
    scale: np.ndarray | None
    zero: np.ndarray | None
    axis: int = 1
    block: int = 0
    integers: Constant | None = None

    @property
    def text(self) -> str:
        """Such as "int8, scale 0.0123, zero point 3", or with the range and the number of scales."""
        kind = self.dtype.name.lower()
        if self.scale is None or self.zero is None:
            return f"{kind}, whose scale or zero point is computed"
        if self.scale.size == 1:
            return f"{kind}, scale {_text(self.scale)}, zero point {_text(self.zero)}"
        where = f"for blocks of {self.block} along" if self.block else "along"
        zeros = "zero point" if np.unique(self.zero).size == 1 else "zero points"
        return (
            f"{kind}, {self.scale.size:,} scales {_text(self.scale)} {where} axis {self.axis}, {zeros}"
            f" {_text(self.zero)}"
        )

    @property
    def short(self) -> str:
        """The same with the number of scales alone, where there are several."""
        if self.scale is None or self.zero is None or self.scale.size == 1:
            return self.text
        return f"{self.dtype.name.lower()}, {self.scale.size:,} scales"

    def dequantized(self) -> np.ndarray | None:
        """The numbers in float64 that a constant stands for; None if they are not known."""
        if self.integers is None or self.scale is None or self.zero is None:
            return None
        integers = np.asarray(self.integers.numpy())
        scale, zero = (self._spread(array.astype(np.float64), integers.shape) for array in (self.scale, self.zero))
        return np.asarray((integers.astype(np.float64) - zero) * scale)

    def _spread(self, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Scales or zero points in a shape that broadcasts with elements of this shape."""
        axis = self.axis % max(len(shape), 1)
        if array.size == 1:
            return array.reshape(())
        if self.block:
            return np.repeat(array, self.block, axis).take(range(shape[axis]), axis)
        return array.reshape([-1 if index == axis else 1 for index in range(len(shape))])


def quantized_value(
    graph: Graph, node: Node, constants: Mapping[str, Constant | None] | None = None, beside: Sequence[Node] = ()
) -> QuantizedValue | None:
    """What a QuantizeLinear makes of its operand, what a DequantizeLinear reads, or the weight of an integer product.

    None for other nodes. constants: those that the graph does not have yet. beside: nodes among which those are found
    that multiply an integer product by its scale.
    """

    def constant_of(value: str) -> Constant | None:
        return (constants or {}).get(value) or graph.constant(value)

    def array_of(value: str) -> np.ndarray | None:
        found = constant_of(value)
        return None if found is None else np.asarray(found.numpy())

    if node.op in _INTEGER_PRODUCTS:
        weight = constant_of(node.inputs[1])
        if weight is None:
            return None
        scale = next((found for value in _scales_of(node, beside) if (found := array_of(value)) is not None), None)
        zeros = array_of(node.inputs[3]) if _reads(node, 3) else np.zeros((), weight.dtype.numpy())
        axis = 0 if node.op == "ConvInteger" else len(constant_shape(weight)) - 1
        return QuantizedValue(node.inputs[1], weight.dtype, scale, zeros, axis, 0, weight)
    if node.op not in ("QuantizeLinear", "DequantizeLinear"):
        return None
    dequantizes = node.op == "DequantizeLinear"
    integers = constant_of(node.inputs[0]) if dequantizes else None
    zero = constant_of(node.inputs[2]) if _reads(node, 2) else None
    dtype = _stored_type(graph, node, integers if integers is not None else zero)
    scale, zeros = array_of(node.inputs[1]), None if zero is None else np.asarray(zero.numpy())
    if scale is not None and not _reads(node, 2):
        zeros = np.zeros(scale.shape, dtype.numpy())
    axis, block = node.attr("axis"), node.attr("block_size") or 0
    name = node.outputs[0] if dequantizes else node.inputs[0]
    return QuantizedValue(name, dtype, scale, zeros, 1 if axis is None else axis, block, integers)


def _reads(node: Node, operand: int) -> bool:
    return len(node.inputs) > operand and bool(node.inputs[operand])


def _stored_type(graph: Graph, node: Node, known: Constant | None) -> DataType:
    """The type of the integers: of a constant that has it, else of the value, else of the attribute."""
    if known is not None:
        return known.dtype
    type_ = graph.tensor_type(node.inputs[0] if node.op == "DequantizeLinear" else node.outputs[0])
    return DataType(node.attr("output_dtype") or DataType.UINT8) if type_ is None else type_.dtype


def _scales_of(product: Node, nodes: Sequence[Node]) -> list[str]:
    """The values that are multiplied to the scale of an integer product: it is cast, and multiplied by theirs."""
    casts = {node.outputs[0] for node in nodes if node.op == "Cast" and product.outputs[0] in node.inputs}
    factors = {value for node in nodes if node.op == "Mul" and casts & {*node.inputs} for value in node.inputs} - casts
    scales = [value for node in nodes if node.op == "Mul" and factors & {*node.outputs} for value in node.inputs]
    return [*scales, *factors]


def values_of_each_run(value: str) -> str:
    """What a DynamicQuantizeLinear makes of the value, in words."""
    return f"'{value}' as uint8, whose scale and zero point are those of each run"


def weight_error(weight: np.ndarray, quantized: QuantizedValue) -> tuple[float, float] | None:
    """The largest error of a weight, and its largest magnitude; None if the elements do not correspond."""
    found = quantized.dequantized()
    if found is None or found.shape != weight.shape:
        return None
    wide = weight.astype(np.float64)
    return float(np.abs(wide - found).max(initial=0.0)), float(np.abs(wide).max(initial=0.0))


def weight_error_text(weight: np.ndarray, quantized: QuantizedValue) -> str:
    """How far a weight is off, such as "largest error 0.004 of 0.51"; "" if the elements do not correspond."""
    error = weight_error(weight, quantized)
    return "" if error is None else f"largest error {error[0]:.2g} of {error[1]:.2g}"


def _text(array: np.ndarray) -> str:
    """One number, or the least and the greatest of several."""
    numbers = array.astype(np.float64).ravel()
    least, greatest = (f"{number:.3g}" for number in (numbers.min(initial=np.inf), numbers.max(initial=-np.inf)))
    return least if least == greatest else f"{least} to {greatest}"
