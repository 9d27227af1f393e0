"""What is inside a model as models of their own: called functions inlined, the body of an If, a Loop or a Scan alone.

A body gets the numbers of its first run: of a Loop those before it and iteration 0, of a Scan the first slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import onnx.inliner
import onnx_ir
from onnx import GraphProto, ModelProto, NodeProto, helper

from workbench.io.checks import reads
from workbench.io.proto_file import ProtoFile
from workbench.ir.from_proto import bodies
from workbench.reduction.candidates import Candidate
from workbench.reduction.recording import type_of
from workbench.reduction.regions import Region, Whole, tensor_of

_Opening = tuple[ProtoFile, dict[str, np.ndarray]]  # a model and the numbers of its inputs
_KNOWN = ("If", "Loop", "Scan")


def openings(candidate: Candidate) -> Iterator[_Opening]:
    """Models that hold less around what the candidate holds inside; those whose inputs are not known left out."""
    model, read = candidate.model, candidate.whole.read_tensor
    if model.functions:
        yield ProtoFile(onnx.inliner.inline_local_functions(model), read), candidate.inputs
        called = {(node.domain, node.op_type) for node in model.graph.node}
        for name in [(f.domain, f.name) for f in model.functions if (f.domain, f.name) in called]:
            yield ProtoFile(onnx.inliner.inline_selected_functions(model, [name]), read), candidate.inputs
    yield from filter(None, (body_opening(candidate, place) for place in range(len(_bodies_of(model)))))


def body_count(candidate: Candidate) -> int:
    """How many bodies the nodes of its main graph have."""
    return len(_bodies_of(candidate.model))


def body_opening(candidate: Candidate, place: int) -> _Opening | None:
    """The body at that place of all as a model of its own; None if its inputs are not known."""
    node, body = _bodies_of(candidate.model)[place]
    inputs = _body_inputs(candidate, node, body)
    return None if inputs is None else _alone(candidate, body, inputs)


def with_part_of_body(candidate: Candidate, place: int, opened: Whole, nodes: Sequence[int]) -> Candidate:
    """The candidate with only some nodes in that body; what they read of others has the numbers of its first run.

    Raises RegionError if those are not known.
    """
    region = opened.live(Region(tuple(nodes), opened.outputs))
    own = opened.inputs  # of the body, and what it captures
    constants = frozenset(value for value in opened.boundary(region) if value not in own)
    part = opened.build(replace(region, constants=constants)).graph
    model = ModelProto()
    model.CopyFrom(candidate.model)
    _, body = _bodies_of(model)[place]
    del body.node[:], body.value_info[:]
    body.node.extend(part.node)
    for tensor in part.initializer:
        if tensor.name in constants:
            body.initializer.append(
                onnx_ir.serde.serialize_tensor(tensor_of(opened.recorded_array(tensor.name), tensor.name))
            )
    return replace(candidate, model=model)


def _bodies_of(model: ModelProto) -> list[tuple[NodeProto, GraphProto]]:
    results = [node for node in model.graph.node if node.op_type in _KNOWN and node.domain in ("", "ai.onnx")]
    return [(node, body) for node in results for attribute in node.attribute for body in bodies(attribute)]


def _alone(candidate: Candidate, body: GraphProto, inputs: dict[str, np.ndarray]) -> _Opening:
    source, whole = candidate.model, candidate.whole
    model = ModelProto()
    model.CopyFrom(source)
    model.graph.CopyFrom(body)
    graph = model.graph
    graph.name = graph.name or "body"
    del graph.input[:]
    own = {t.name for t in body.initializer} | {v for node in body.node for v in node.output} | inputs.keys()
    constants = {tensor.name: tensor for tensor in source.graph.initializer}
    captured = dict.fromkeys(v for node in body.node for v in reads(node) if v not in own)
    captured.update(dict.fromkeys(output.name for output in body.output if output.name not in own))
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
    """The numbers of the body's inputs in its first run; None if some are not known, captured ones included."""
    whole, graph = candidate.whole, candidate.model.graph
    constants = {tensor.name: tensor for tensor in graph.initializer}

    def numbers(value: str) -> np.ndarray | None:
        if value in whole.recorded:
            return whole.recorded_array(value)
        tensor = constants.get(value)
        return None if tensor is None else np.asarray(whole.read_tensor(tensor).numpy())

    own = {t.name for t in body.initializer} | {v for n in body.node for v in n.output} | {i.name for i in body.input}
    captured = {v for inner in body.node for v in reads(inner)} | {output.name for output in body.output}
    if any(value not in constants and value not in whole.recorded for value in captured - own):
        return None
    arrays: list[np.ndarray | None] = []
    if node.op_type == "Loop":
        arrays = [np.asarray(0, np.int64), np.asarray(True), *(numbers(value) for value in node.input[2:])]
    elif node.op_type == "Scan":
        arrays = _scan_slices(node, [numbers(value) for value in node.input])
    names = [info.name for info in body.input]
    if len(names) != len(arrays):
        return None
    results = {name: array for name, array in zip(names, arrays, strict=True) if array is not None}
    return results if len(results) == len(names) else None


def _scan_slices(node: NodeProto, arrays: list[np.ndarray | None]) -> list[np.ndarray | None]:
    given = {attribute.name: attribute for attribute in node.attribute}
    count = given["num_scan_inputs"].i
    axes = list(given["scan_input_axes"].ints) if "scan_input_axes" in given else [0] * count
    backward = list(given["scan_input_directions"].ints) if "scan_input_directions" in given else [0] * count
    states, scanned = arrays[: len(arrays) - count], arrays[len(arrays) - count :]
    slices = [
        array if array is None or not array.shape[axis] else np.asarray(array.take(-1 if back else 0, axis))
        for array, axis, back in zip(scanned, axes, backward, strict=True)
    ]
    return [*states, *slices]
