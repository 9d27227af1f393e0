"""The inside of a model as models: with called functions inlined, or the body of an If, Loop or Scan alone.

A body's inputs are those of its first run: a Loop's initial values in iteration 0, a Scan's first slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import onnx.inliner
import onnx_ir
from onnx import GraphProto, ModelProto, NodeProto, helper

from workbench.evidence.reduction.candidates import Candidate
from workbench.evidence.reduction.recording import type_of
from workbench.evidence.reduction.regions import Region, Whole, tensor_of
from workbench.formats.io.checks import reads
from workbench.formats.io.proto_file import ProtoFile
from workbench.ir.from_proto import bodies

_InnerModel = tuple[ProtoFile, dict[str, np.ndarray]]  # a model and its inputs
_WITH_BODIES = ("If", "Loop", "Scan")


def inner_models(candidate: Candidate) -> Iterator[_InnerModel]:
    """The candidate with functions inlined, and each body of its nodes whose inputs are known, as a model."""
    model, read = candidate.model, candidate.whole.read_tensor
    if model.functions:
        yield ProtoFile(onnx.inliner.inline_local_functions(model), read), candidate.inputs
        called = {(node.domain, node.op_type) for node in model.graph.node}
        for name in [(f.domain, f.name) for f in model.functions if (f.domain, f.name) in called]:
            yield ProtoFile(onnx.inliner.inline_selected_functions(model, [name]), read), candidate.inputs
    yield from filter(None, (body_as_model(candidate, index) for index in range(len(_bodies_of(model)))))


def body_count(candidate: Candidate) -> int:
    """How many bodies the nodes of the candidate's main graph have."""
    return len(_bodies_of(candidate.model))


def body_as_model(candidate: Candidate, index: int) -> _InnerModel | None:
    """The body with this index as a model; None if its inputs are not known."""
    node, body = _bodies_of(candidate.model)[index]
    inputs = _body_inputs(candidate, node, body)
    return None if inputs is None else _as_model(candidate, body, inputs)


def with_part_of_body(candidate: Candidate, index: int, inner: Whole, nodes: Sequence[int]) -> Candidate:
    """The candidate with only some nodes in the body. What these read of the others becomes recorded constants.

    inner: the body as a whole. Raises RegionError if a value that becomes a constant was not recorded.
    """
    region = inner.live(Region(tuple(nodes), inner.outputs))
    body_inputs = inner.inputs  # with captured values
    constants = frozenset(value for value in inner.boundary(region) if value not in body_inputs)
    part = inner.build(replace(region, constants=constants)).graph
    model = ModelProto()
    model.CopyFrom(candidate.model)
    _, body = _bodies_of(model)[index]
    del body.node[:], body.value_info[:]
    body.node.extend(part.node)
    for tensor in part.initializer:
        if tensor.name in constants:
            body.initializer.append(
                onnx_ir.serde.serialize_tensor(tensor_of(inner.recorded_array(tensor.name), tensor.name))
            )
    return replace(candidate, model=model)


def _bodies_of(model: ModelProto) -> list[tuple[NodeProto, GraphProto]]:
    nodes = [node for node in model.graph.node if node.op_type in _WITH_BODIES and node.domain in ("", "ai.onnx")]
    return [(node, body) for node in nodes for attribute in node.attribute for body in bodies(attribute)]


def _as_model(candidate: Candidate, body: GraphProto, inputs: dict[str, np.ndarray]) -> _InnerModel:
    source, whole = candidate.model, candidate.whole
    model = ModelProto()
    model.CopyFrom(source)
    model.graph.CopyFrom(body)
    graph = model.graph
    graph.name = graph.name or "body"
    del graph.input[:]
    defined = {t.name for t in body.initializer} | {v for node in body.node for v in node.output} | inputs.keys()
    constants = {tensor.name: tensor for tensor in source.graph.initializer}
    captured = dict.fromkeys(v for node in body.node for v in reads(node) if v not in defined)
    captured.update(dict.fromkeys(output.name for output in body.output if output.name not in defined))
    for value in captured:
        if value in constants:
            graph.initializer.append(constants[value])
        else:
            inputs[value] = whole.recorded_array(value)
    for name, array in inputs.items():
        type_ = type_of(array)
        graph.input.add(name=name, type=helper.make_tensor_type_proto(int(type_.dtype), type_.static_shape))
    return ProtoFile(model, whole.read_tensor), inputs


def _body_inputs(candidate: Candidate, node: NodeProto, body: GraphProto) -> dict[str, np.ndarray] | None:
    """The body's inputs in its first run; None if one of them, or of the captured values, is not known."""
    whole, graph = candidate.whole, candidate.model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}

    def known_array(value: str) -> np.ndarray | None:
        if value in whole.recorded:
            return whole.recorded_array(value)
        tensor = constants.get(value)
        return None if tensor is None else np.asarray(whole.read_tensor(tensor).numpy())

    defined = (
        {t.name for t in body.initializer} | {v for n in body.node for v in n.output} | {i.name for i in body.input}
    )
    captured = {v for inner in body.node for v in reads(inner)} | {output.name for output in body.output}
    if any(value not in constants and value not in whole.recorded for value in captured - defined):
        return None
    arrays: list[np.ndarray | None] = []
    if node.op_type == "Loop":
        arrays = [np.asarray(0, np.int64), np.asarray(True), *(known_array(value) for value in node.input[2:])]
    elif node.op_type == "Scan":
        arrays = _scan_slices(node, [known_array(value) for value in node.input])
    names = [info.name for info in body.input]
    if len(names) != len(arrays):
        return None
    inputs = {name: array for name, array in zip(names, arrays, strict=True) if array is not None}
    return inputs if len(inputs) == len(names) else None


def _scan_slices(node: NodeProto, arrays: list[np.ndarray | None]) -> list[np.ndarray | None]:
    """The states, and the first slice of each scanned operand along its axis and direction."""
    attributes = {attribute.name: attribute for attribute in node.attribute}
    count = attributes["num_scan_inputs"].i
    axes = list(attributes["scan_input_axes"].ints) if "scan_input_axes" in attributes else [0] * count
    backward = list(attributes["scan_input_directions"].ints) if "scan_input_directions" in attributes else [0] * count
    states, scanned = arrays[: len(arrays) - count], arrays[len(arrays) - count :]
    slices = [
        array if array is None or not array.shape[axis] else np.asarray(array.take(-1 if back else 0, axis))
        for array, axis, back in zip(scanned, axes, backward, strict=True)
    ]
    return [*states, *slices]
