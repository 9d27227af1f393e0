"""Which operands and results ONNX Runtime's static quantizer quantizes, and whose range each has.

These are the rules of onnxruntime.quantization for the format QDQ, as `ort_quantize_static` calls it: `quantize_model`
of qdq_quantizer.py, which asks the class of each operator (registry.py, operators/*.py) in the order of the graph, and
`adjust_tensor_ranges` of base_quantizer.py.
Source: https://github.com/microsoft/onnxruntime/tree/main/onnxruntime/python/tools/quantization.

A value is quantized once for all its readers, those that stay in float32 too. A bias becomes int32 with the product of
the scales of both other operands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from workbench.ir import Graph, Node, constant_shape
from workbench.planning.precision.element_types import WIDE, FloatCall, dtype_of

# Operators whose result has the scale of their first operand; they are quantized only if that is.
_KEEP_SCALE = (
    *("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Resize", "MaxPool", "AveragePool"),
    *("Slice", "TopK"),
)
# Operators of which all float operands and results are quantized.
_ALL_VALUES = (
    *("ArgMax", "Add", "Mul", "LeakyRelu", "Sigmoid", "GlobalAveragePool", "Concat", "Softmax"),
    *("EmbedLayerNormalization", "CumSum"),
)
_CHANNELS = {"Conv": 0, "ConvTranspose": 1, "MatMul": 1}  # the axis of a weight that has a scale for each index
_CLIPS = ("Relu", "Clip")


@dataclass(frozen=True)
class QuantizedAs:
    """How a value is quantized.

    is_weight: a constant as int8 with zero point 0; else as uint8. axis: of a weight with a scale for each index.
    scale_of:  the value whose scale and zero point it has, if these are not its own.
    factors:   of a bias, the two values whose scales are multiplied to its own.
    """

    is_weight: bool = False
    axis: int | None = None
    scale_of: str | None = None
    factors: tuple[str, str] | None = None


@dataclass
class QuantizerPlan:
    """What the quantizer does with a graph.

    values: those that are quantized. calls: by operator that is quantized, its operands and results that are.
    ranges: by value, the value that has its range: the result of the only operator that reads it, if that clips.
    from_0_to_1: values with that range, whatever they are.
    """

    values: dict[str, QuantizedAs] = field(default_factory=dict)
    calls: dict[str, FloatCall] = field(default_factory=dict)
    ranges: dict[str, str] = field(default_factory=dict)
    from_0_to_1: set[str] = field(default_factory=set)


def quantizer_plan(graph: Graph, per_channel: bool, kept: Collection[str] = ()) -> QuantizerPlan:
    """What ONNX Runtime's quantizer does with the float32 values of the graph's own nodes, not of bodies.

    per_channel: whether a weight has a scale for each channel. kept: operators that are excluded.
    """
    planner, excluded = _Planner(graph, per_channel), set(kept)
    for node in graph.nodes:
        if node.name not in excluded:
            planner.mark_operator(node)
            planner.lend_range(node)
    return planner.plan


class _Planner:
    def __init__(self, graph: Graph, per_channel: bool) -> None:
        self.graph, self.per_channel = graph, per_channel
        self.plan = QuantizerPlan()
        self.touched: set[str] = set()  # values that the operator at hand has quantized

    def mark_operator(self, node: Node) -> None:
        rule = _RULES.get(node.op_type)
        if rule is None:
            return
        self.touched.clear()
        rule(self, node)
        inputs = tuple(index for index, value in enumerate(node.inputs) if value in self.touched)
        outputs = tuple(index for index, value in enumerate(node.outputs) if value in self.touched)
        if inputs or outputs:
            self.plan.calls[node.name] = FloatCall(WIDE, inputs, outputs)

    def lend_range(self, node: Node) -> None:
        """Values before a Relu or Clip get the range behind it, those of a Softmax that from 0 to 1."""
        if node.op_type == "Softmax":
            self.plan.from_0_to_1.add(node.outputs[0])
            self.plan.ranges.pop(node.outputs[0], None)
        elif node.op_type in _CLIPS and self._reads(node.inputs[0]) == 1 and node.inputs[0] not in self.graph.constants:
            self.plan.ranges[node.inputs[0]] = node.outputs[0]
            self.plan.from_0_to_1.discard(node.inputs[0])

    def _reads(self, value: str) -> int:
        return sum(user.inputs.count(value) for user in self.graph.users(value))

    def _is_quantized(self, value: str) -> bool:
        return value in self.plan.values

    # ---- values ------------------------------------------------------------------------

    def activation(self, value: str) -> None:
        self._mark(value, QuantizedAs())

    def weight(self, value: str, axis: int | None) -> None:
        """A weight, with a scale for each index of the axis if that is asked for; what is computed has one scale."""
        tensor = self.graph.constant(value)
        if tensor is not None and self.per_channel and axis is not None and axis < len(constant_shape(tensor)):
            self._mark(value, QuantizedAs(True, axis), anew=True)
        else:
            self._mark(value, QuantizedAs(is_weight=tensor is not None))

    def as_operand(self, result: str, operand: str) -> None:
        """A result with the scale of an operand."""
        self._mark(result, QuantizedAs(scale_of=operand), anew=True)

    def bias(self, node: Node) -> None:
        """The third operand, if it is a constant; of one that several operators read, the first decides."""
        if len(node.inputs) > 2 and node.inputs[2] in self.graph.constants:
            first, second = node.inputs[:2]
            if self._is_quantized(first) and self._is_quantized(second):
                self._mark(node.inputs[2], QuantizedAs(factors=(first, second)))

    def _mark(self, value: str, mark: QuantizedAs, anew: bool = False) -> None:
        producer = self.graph.producer(value)
        if dtype_of(self.graph, value) != WIDE or (producer is not None and producer.op == "DequantizeLinear"):
            return
        self.touched.add(value)
        if anew or value not in self.plan.values:
            self.plan.values[value] = mark

    # ---- operators ---------------------------------------------------------------------

    def all_values(self, node: Node) -> None:
        for value in (*node.inputs, *node.outputs):
            self.activation(value)

    def keeps_scale(self, node: Node) -> None:
        if self._is_quantized(node.inputs[0]):
            self.activation(node.inputs[0])
            self.as_operand(node.outputs[0], node.inputs[0])

    def weighted(self, node: Node) -> None:
        self.activation(node.inputs[0])
        self.activation(node.outputs[0])
        axis = _CHANNELS[node.op_type] if node.op_type in _CHANNELS else 0 if node.attr("transB") else 1
        self.weight(node.inputs[1], axis)
        self.bias(node)

    def product(self, node: Node) -> None:
        for value in (*node.inputs, *node.outputs):
            if value in self.graph.constants:
                self.weight(value, _CHANNELS["MatMul"])
            else:
                self.activation(value)

    def normalized(self, node: Node) -> None:
        self.activation(node.inputs[0])
        if node.inputs[1] in self.graph.constants:
            self.weight(node.inputs[1], 1)
        else:
            self.activation(node.inputs[1])
        self.bias(node)
        for value in node.outputs:
            self.activation(value)

    def clipped(self, node: Node) -> None:
        if self._is_quantized(node.inputs[0]):
            self.activation(node.inputs[0])
            self.activation(node.outputs[0])

    def split(self, node: Node) -> None:
        self.activation(node.inputs[0])
        for value in node.outputs:
            self.as_operand(value, node.inputs[0])

    def gathered(self, node: Node) -> None:
        if node.inputs[0] in self.graph.constants or self._is_quantized(node.inputs[0]):
            self.activation(node.inputs[0])
            self.as_operand(node.outputs[0], node.inputs[0])

    def chosen(self, node: Node) -> None:
        if self._is_quantized(node.inputs[1]) and self._is_quantized(node.inputs[2]):
            for value in (*node.inputs[1:], *node.outputs):
                self.activation(value)

    def padded(self, node: Node) -> None:
        for value in node.inputs:
            self.activation(value)
        if self._pads_with_known(node):
            self.as_operand(node.outputs[0], node.inputs[0])
        else:
            self.activation(node.outputs[0])

    def _pads_with_known(self, node: Node) -> bool:
        """Whether the new elements are 0 or those of the operand, so that its scale has them."""
        if (node.attr("mode") or "constant") != "constant":
            return True
        if len(node.inputs) < 3 or not node.inputs[2]:
            return True
        tensor = self.graph.constant(node.inputs[2])
        return tensor is not None and not np.any(tensor.numpy())


_RULES: Mapping[str, Callable[[_Planner, Node], None]] = {
    **dict.fromkeys(_ALL_VALUES, _Planner.all_values),
    **dict.fromkeys(_KEEP_SCALE, _Planner.keeps_scale),
    **dict.fromkeys(("Conv", "ConvTranspose", "Gemm"), _Planner.weighted),
    "MatMul": _Planner.product,
    **dict.fromkeys(("InstanceNormalization", "LayerNormalization", "BatchNormalization"), _Planner.normalized),
    **dict.fromkeys(_CLIPS, _Planner.clipped),
    "Split": _Planner.split,
    **dict.fromkeys(("Gather", "GatherElements"), _Planner.gathered),
    "Where": _Planner.chosen,
    "Pad": _Planner.padded,
}
