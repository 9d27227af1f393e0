"""A region of a file's graph as a model, with the opset, operators, attributes and functions of the file.

A region is some of the nodes. Values that they read and do not compute become inputs, or constants with the numbers
of a recorded run. Initializers that they read stay initializers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import onnx_ir
from onnx import FunctionProto, ModelProto, NodeProto, TensorProto, TypeProto, helper

from workbench.errors import UserError
from workbench.evidence.reduction.recording import Recording
from workbench.formats.io.checks import every_node, reads
from workbench.formats.io.proto_file import ProtoFile, known_types
from workbench.ir import Constant, TensorType
from workbench.ir.from_proto import bodies, value_type
from workbench.ir.to_proto import LARGE
from workbench.support.reachability import reachable

RECORDED = "<recorded>"  # the location of a constant whose numbers are those of the recorded run
_IR_WITHOUT_INITIALIZER_INPUTS = 4  # the IR version before which every initializer had to be an input too
_MAX_SHAPE_ELEMENTS = 64  # an integer vector of up to so many elements is taken for a shape, axes or pads


class RegionError(UserError):
    """Nodes that cannot be a model, or values at which a region cannot begin or end."""


@dataclass(frozen=True)
class Region:
    """Some nodes of a whole, and the values that they output.

    nodes:     ascending indices in the whole's nodes.
    constants: values read from outside that become constants with their recorded numbers; the others become inputs.
    bypassed:  results of removed nodes, each with the value that is read instead.
    declared:  whether the file's declared types of intermediate values are kept.
    """

    nodes: tuple[int, ...]
    outputs: tuple[str, ...]
    constants: frozenset[str] = frozenset()
    bypassed: Mapping[str, str] = field(default_factory=dict)
    declared: bool = False

    def resolved(self, value: str) -> str:
        """The value that is read instead of this one: itself unless it is bypassed."""
        while value in self.bypassed:
            value = self.bypassed[value]
        return value


class Whole:
    """The model from which regions are cut. Immutable; nodes are copied only when a region is built."""

    def __init__(self, file: ProtoFile, recording: Recording | None = None) -> None:
        """recording: of the file; None if it does not run."""
        self.file, self._recording = file, recording
        graph = file.model.graph
        self.nodes: Sequence[NodeProto] = tuple(graph.node)
        self.operands = tuple(tuple(dict.fromkeys(reads(node))) for node in self.nodes)
        self.initializers: dict[str, TensorProto] = {tensor.name: tensor for tensor in graph.initializer}
        self.with_default = {info.name for info in graph.input if info.name in self.initializers}
        self.inputs = tuple(info.name for info in graph.input if info.name not in self.initializers)
        self.outputs = tuple(info.name for info in graph.output)
        self.producers = {value: index for index, node in enumerate(self.nodes) for value in node.output if value}

    @cached_property
    def types(self) -> dict[str, TypeProto]:
        """Types of the main graph's values: as inferred, with symbols, else as in the recorded run."""
        result = known_types(self.file.model)
        for value, type_ in self.recorded.items():
            if value not in result:
                result[value] = helper.make_tensor_type_proto(int(type_.dtype), type_.static_shape)
        return result

    @property
    def recorded(self) -> Mapping[str, TensorType]:
        """The values that `recorded_array` returns, with their types in the recorded run."""
        return {} if self._recording is None else self._recording.types

    def recorded_array(self, value: str) -> np.ndarray:
        """The value in the recorded run; it must be in `recorded`. Raises RunError."""
        assert self._recording is not None  # `recorded` has the value
        return self._recording.read(value)

    @cached_property
    def from_inputs(self) -> set[str]:
        """The values that depend on an input."""
        result = set(self.inputs)
        for node, operands in zip(self.nodes, self.operands, strict=True):
            if not result.isdisjoint(operands):
                result.update(filter(None, node.output))
        return result

    @property
    def everything(self) -> Region:
        """The region of all nodes."""
        return Region(tuple(range(len(self.nodes))), self.outputs, declared=True)

    # ---- values and nodes of a region -------------------------------------------------------

    def results_of(self, nodes: Iterable[int]) -> Iterator[str]:
        """The values that these nodes compute."""
        return (value for index in nodes for value in self.nodes[index].output if value)

    def read_by(self, region: Region) -> Iterator[str]:
        """The values that the region's nodes read, bypassed ones replaced."""
        return (region.resolved(value) for index in region.nodes for value in self.operands[index])

    def boundary(self, region: Region) -> tuple[str, ...]:
        """The values that the region reads and does not compute, without initializers, in the order of reading."""
        computed = set(self.results_of(region.nodes)) | self.initializers.keys()
        outside = (*self.read_by(region), *region.outputs)
        return tuple(dict.fromkeys(value for value in outside if value not in computed))

    def live(self, region: Region, stop: Collection[str] = ()) -> Region:
        """The region with only the nodes that its outputs need if the values in `stop` are inputs."""
        needed, nodes = set(region.outputs) - set(stop), []
        for index in reversed(region.nodes):
            if not needed.isdisjoint(self.nodes[index].output):
                nodes.append(index)
                needed.update(v for o in self.operands[index] if (v := region.resolved(o)) not in stop)
        return replace(region, nodes=tuple(reversed(nodes)))

    def is_likely_constant(self, value: str) -> bool:
        """Whether the value does not depend on an input, or is a short integer vector: a shape, axes, an index."""
        type_ = self.recorded.get(value)
        if type_ is None or value in self.inputs:
            return False
        is_shape = type_.dtype.is_integer() and (type_.rank or 0) <= 1 and (type_.elements or 0) <= _MAX_SHAPE_ELEMENTS
        return is_shape or value not in self.from_inputs

    # ---- the region as a model ----------------------------------------------------------------

    def build(self, region: Region) -> ModelProto:
        """The model of the region; its large weights are external and read with `read_tensor`.

        Raises RegionError if an input or output has no known type or an input is not a tensor, or if a constant was
        not recorded.
        """
        source = self.file.model
        model = ModelProto()
        for entry, value in source.ListFields():
            if entry.name not in ("graph", "functions", "training_info"):
                _copy_field(model, entry.name, value)
        graph = model.graph
        graph.name = source.graph.name or "graph"
        for index in region.nodes:
            node = graph.node.add()
            node.CopyFrom(self.nodes[index])
            if region.bypassed:
                _replace_bypassed(node, region)
        self._add_sources(model, region)
        for value in region.outputs:
            graph.output.add(name=value, type=self._type(value))
        if region.declared:
            intermediate = set(self.results_of(region.nodes)) - set(region.outputs)
            graph.value_info.extend(info for info in source.graph.value_info if info.name in intermediate)
        model.functions.extend(_called(model, source.functions))
        return model

    def _add_sources(self, model: ModelProto, region: Region) -> None:
        """Add initializers and inputs for the values that the region reads and does not compute."""
        graph, computed = model.graph, set(self.results_of(region.nodes))
        outside = [v for v in dict.fromkeys((*self.read_by(region), *region.outputs)) if v not in computed]
        for value in sorted(outside, key=lambda v: self.inputs.index(v) if v in self.inputs else len(self.inputs)):
            if value in self.initializers:
                graph.initializer.append(self.initializers[value])
                is_input = value in self.with_default
            elif value in region.constants:
                graph.initializer.append(self._recorded_tensor(value))
                is_input = model.ir_version < _IR_WITHOUT_INITIALIZER_INPUTS
            else:
                is_input = True
                if not self._type(value).HasField("tensor_type"):
                    raise RegionError(f"value '{value}' is not a tensor, so that it cannot be an input of a part")
            if is_input:
                graph.input.add(name=value, type=self._type(value))

    def _type(self, value: str) -> TypeProto:
        if value in self.types:
            return self.types[value]
        if value in self.initializers:
            tensor = self.initializers[value]
            return helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        raise RegionError(f"the type of value '{value}' is not known, so that it cannot be an input or output")

    def _recorded_tensor(self, value: str) -> TensorProto:
        type_ = self.recorded.get(value)
        if type_ is None:
            raise RegionError(f"value '{value}' was not recorded, so that it cannot be a constant")
        size = type_.bytes
        if size is None or size <= LARGE:
            return onnx_ir.serde.serialize_tensor(tensor_of(self.recorded_array(value), value))
        tensor = TensorProto(name=value, data_type=int(type_.dtype), dims=type_.static_shape)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=RECORDED)
        tensor.external_data.add(key="length", value=str(size))
        return tensor

    def read_tensor(self, tensor: TensorProto) -> Constant:
        """The elements of an external tensor of a built model."""
        if self._is_recorded(tensor):
            return tensor_of(self.recorded_array(tensor.name), tensor.name)
        return self.file.read_weight(tensor)

    def recorded_inputs(self, model: ModelProto) -> dict[str, np.ndarray]:
        """The recorded arrays of a built model's inputs, without inputs that were not recorded."""
        fixed = {tensor.name for tensor in model.graph.initializer}
        names = [i.name for i in model.graph.input if i.name not in fixed and i.name in self.recorded]
        self.fetch(names)
        return {name: self.recorded_array(name) for name in names}

    def fetch_constants(self, model: ModelProto) -> None:
        """Record the values of all recorded constants of a built model, in as few runs as possible."""
        self.fetch(tensor.name for tensor in model.graph.initializer if self._is_recorded(tensor))

    def fetch(self, values: Iterable[str]) -> None:
        """Record the values, if there is a recording. Raises RunError."""
        if self._recording is not None:
            self._recording.fetch(values)

    def _is_recorded(self, tensor: TensorProto) -> bool:
        """Whether the tensor was recorded in the run of this whole, not of a model that contained it."""
        is_new = tensor.name not in self.initializers
        return is_new and any(e.key == "location" and e.value == RECORDED for e in tensor.external_data)

    def same_type(self, value: str, other: str) -> bool:
        """Whether both are tensors of the same element type and shape; sizes must be known or equal symbols."""
        types = [self.recorded.get(v) or value_type(self._type(v)) for v in (value, other) if self._is_typed(v)]
        if len(types) < 2 or not isinstance(types[0], TensorType) or types[0].shape is None:
            return False
        return types[0] == types[1] and None not in types[0].shape

    def _is_typed(self, value: str) -> bool:
        return value in self.types or value in self.initializers


def tensor_of(array: np.ndarray, name: str) -> Constant:
    if array.dtype.kind in "US":
        return onnx_ir.StringTensor(array.astype(object), name=name)
    return onnx_ir.Tensor(array, name=name)


def node_count(model: ModelProto) -> int:
    """The number of nodes, with those in bodies and functions."""
    return sum(1 for _ in every_node(model))


def _copy_field(model: ModelProto, name: str, value: object) -> None:
    if isinstance(value, str | int | bytes):
        setattr(model, name, value)
    else:
        getattr(model, name).extend(value)


def _replace_bypassed(node: NodeProto, region: Region) -> None:
    """Replace the bypassed values that the node reads, in its bodies too. Bodies do not redefine outer names."""
    for position, value in enumerate(node.input):
        node.input[position] = region.resolved(value)
    for attribute in node.attribute:
        for body in bodies(attribute):
            for inner in body.node:
                _replace_bypassed(inner, region)
            for output in body.output:
                output.name = region.resolved(output.name)


def _called(model: ModelProto, functions: Iterable[FunctionProto]) -> Iterator[FunctionProto]:
    """The functions that the model calls, and those that these call, in the order of the file."""
    table = {(f.domain, f.name, f.overload): f for f in functions}

    def called_in(part: ModelProto) -> Iterator[tuple[str, str, str]]:
        keys = ((node.domain, node.op_type, node.overload) for node in every_node(part))
        return (key for key in keys if key in table)

    called = {*reachable(called_in(model), lambda key: called_in(ModelProto(functions=[table[key]])))}
    return (function for key, function in table.items() if key in called)
