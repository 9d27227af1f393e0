"""The values of a graph as QuantizeLinear and DequantizeLinear leave them, where ONNX Runtime's quantizer puts both."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar

import numpy as np

from workbench.ir import Graph, Node, ValueType, constant, constant_type
from workbench.planning.precision.element_types import WIDE, FloatCall, dtype_of
from workbench.planning.precision.int8.quantizer_rules import QuantizedAs, quantizer_plan
from workbench.planning.precision.int8.scales import Scale, activation_scale, dequantized_bias, weight_scale
from workbench.planning.precision.rounding import NewNodes, Rounding

INT8_TYPE = "int8"  # the type's name, beside those of `NARROW_TYPES`
Ranges = Mapping[str, tuple[float, float]]  # by value, its least and its largest element


class QuantizerRounding(Rounding):
    """What ONNX Runtime's static quantizer does with a graph, and with which scales.

    ranges: of the values that `values_to_record` names. per_channel: whether a weight has a scale for each channel.
    kept: operators that are excluded and stay in float32.
    """

    compares_outputs: ClassVar[bool] = True

    def __init__(self, graph: Graph, ranges: Ranges, per_channel: bool, kept: Collection[str] = ()) -> None:
        self._graph, self._ranges = graph, ranges
        self._plan = quantizer_plan(graph, per_channel, kept)
        self._scales: dict[str, Scale] = {}

    @property
    def operators(self) -> tuple[str, ...]:
        """The names of the operators that are quantized, in the order of the graph."""
        return tuple(self._plan.calls)

    def call(self, graph: Graph, node: Node) -> FloatCall | None:
        return self._plan.calls.get(node.name)

    def is_shared(self, value: str) -> bool:
        return value in self._plan.values

    def round(self, new: NewNodes, value: str, of: str) -> str:
        factors = self._plan.values[of].factors
        if factors is not None:
            scale = self.scale(factors[0]).scale * self.scale(factors[1]).scale
            return self._constant(new, f"int32_of_{of}", dequantized_bias(self._graph.constants[of].numpy(), scale))
        scale = self.scale(of)
        names = [self._constant(new, f"{kind}_of_{of}", array) for kind, array in _parts(scale)]
        axis = {} if scale.axis is None else {"axis": scale.axis}
        integers = new.add("QuantizeLinear", value, *names, **axis)
        return new.add("DequantizeLinear", integers, *names, **axis)

    def part_that_counts(self, new: NewNodes, result: str) -> str:
        """What is left of a result of which the only operator that reads it lets a part through, a Relu or Clip."""
        if result not in self._plan.ranges or self._graph.is_output(result):
            return result
        ends = (np.array(end, np.float32) for end in self.scale(result).ends)
        names = [
            self._constant(new, f"{kind}_of_{result}", array)
            for kind, array in zip(("least", "largest"), ends, strict=True)
        ]
        return new.add("Clip", result, *names)

    def scale(self, value: str) -> Scale:
        """The scale with which a value is quantized."""
        if value not in self._scales:
            self._scales[value] = self._new_scale(value, self._plan.values[value])
        return self._scales[value]

    def _new_scale(self, value: str, mark: QuantizedAs) -> Scale:
        if mark.scale_of is not None:
            return self.scale(mark.scale_of)
        tensor = self._graph.constant(value)
        if tensor is None:
            in_range = value in self._plan.from_0_to_1
            return activation_scale(*((0.0, 1.0) if in_range else self._ranges[self._plan.ranges.get(value, value)]))
        array = tensor.numpy()
        if mark.is_weight:
            return weight_scale(array, mark.axis)
        return activation_scale(array.min(initial=0), array.max(initial=0))

    def _constant(self, new: NewNodes, name: str, array: np.ndarray) -> str:
        full = f"{new.prefix}_{name}"
        new.constants[full] = constant(array)
        return full


def values_to_record(graph: Graph) -> list[str]:
    """The computed values whose ranges a `QuantizerRounding` of the graph may need, whatever operators are excluded."""
    plan = quantizer_plan(graph, per_channel=False)
    names = dict.fromkeys((*plan.values, *plan.ranges.values()))
    return [value for value in names if value not in graph.constants and dtype_of(graph, value) == WIDE]


def quantized_graph(graph: Graph, quantization: QuantizerRounding) -> Graph:
    """A copy with the pairs of QuantizeLinear and DequantizeLinear, behind each value that they round."""
    new, types = NewNodes("workbench_quantized"), dict(graph.types)
    rounded: dict[str, str] = {}  # by value: what its readers get
    for node in graph.nodes:
        for value in node.operands:
            if quantization.is_shared(value) and value not in rounded:
                rounded[value] = _typed(types, graph, quantization.round(new, value, value), value)
        exact = {value: f"{new.prefix}_exact_{value}" for value in node.outputs if graph.is_output(value)}
        exact = {value: name for value, name in exact.items() if quantization.is_shared(value)}
        types.update({name: types[value] for value, name in exact.items()})
        results = tuple(exact.get(value, value) for value in node.outputs)
        new.nodes.append(node.with_values_renamed(rounded).replace(outputs=results))
        for value in filter(quantization.is_shared, node.outputs):
            back = quantization.round(new, exact.get(value, value), value)
            rounded[value] = _typed(types, graph, back, value)
            if value in exact:
                new.nodes.append(Node("Identity", (back,), (value,), name=f"{new.prefix}_output_{value}"))
    constants = {**graph.constants, **new.constants}
    return Graph(**graph.constructor_arguments | {"nodes": new.nodes, "types": types, "constants": constants})


def _typed(types: dict[str, ValueType], graph: Graph, rounded: str, value: str) -> str:
    tensor = graph.constant(value)
    type_ = types.get(value) if tensor is None else constant_type(tensor)
    if type_ is not None:
        types[rounded] = type_
    return rounded


def _parts(scale: Scale) -> tuple[tuple[str, np.ndarray], tuple[str, np.ndarray]]:
    return ("scale", scale.scale), ("zero", scale.zero)
