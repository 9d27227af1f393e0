"""What a model's file has that computes nothing: read once, and written again.

Version, domain, documentation, metadata of the graph, denotations, quantization annotations, devices. Those of a node
are entries of its metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from google.protobuf import json_format
from onnx import ModelProto, NodeProto, TensorShapeProto, ValueInfoProto

from workbench.ir.types import Constant, ValueType

DOCUMENTATION, DEVICE_NOTES = "doc_string", "device_configurations"  # keys of a node's metadata


@dataclass(frozen=True)
class Kept:
    """model: a message with these fields alone. defaults: values of inputs that need not be given.

    outputs: the types that the file declares of its outputs; they are written again, but nothing follows from them.
    """

    model: ModelProto = field(default_factory=ModelProto)
    defaults: Mapping[str, Constant] = field(default_factory=dict)
    outputs: Mapping[str, ValueType] = field(default_factory=dict)


def kept_fields(model: ModelProto) -> ModelProto:
    """The fields of the model that `Kept.model` has."""
    result = ModelProto(doc_string=model.doc_string, domain=model.domain, model_version=model.model_version)
    result.configuration.extend(model.configuration)
    result.graph.doc_string = model.graph.doc_string
    result.graph.metadata_props.extend(model.graph.metadata_props)
    result.graph.quantization_annotation.extend(model.graph.quantization_annotation)
    result.graph.input.extend(info for info in (*model.graph.input, *model.graph.output) if _says_more(info))
    return result


def _says_more(info: ValueInfoProto) -> bool:
    dims = info.type.tensor_type.shape.dim
    return bool(info.doc_string or info.type.denotation or any(dim.denotation for dim in dims))


def annotated(written: Iterable[ValueInfoProto], kept: ModelProto) -> None:
    """Give inputs and outputs their documentation and denotations, those of axes where these are the same."""
    entries = {info.name: info for info in kept.graph.input}
    for info in written if entries else ():
        if info.name not in entries:
            continue
        before = entries[info.name]
        if before.doc_string:
            info.doc_string = before.doc_string
        if before.type.denotation:
            info.type.denotation = before.type.denotation
        ours, theirs = info.type.tensor_type.shape.dim, before.type.tensor_type.shape.dim
        if len(ours) != len(theirs) or any(map(_is_another_axis, ours, theirs)):
            continue
        for dim, named in zip(ours, theirs, strict=True):
            if named.denotation:
                dim.denotation = named.denotation


def _is_another_axis(ours: TensorShapeProto.Dimension, theirs: TensorShapeProto.Dimension) -> bool:
    """Whether the sizes differ, as where an input is permuted; a symbol may have become a number."""
    if theirs.dim_value:
        return bool(ours.dim_value != theirs.dim_value)
    return bool(ours.dim_param and ours.dim_param != theirs.dim_param)


def metadata_of(node: NodeProto) -> dict[str, str]:
    """Documentation and devices of a node as entries of its metadata."""
    result = {DOCUMENTATION: node.doc_string} if node.doc_string else {}
    if node.device_configurations:
        alone = NodeProto(device_configurations=node.device_configurations)
        result[DEVICE_NOTES] = json_format.MessageToJson(alone, indent=None)
    return result


def write_metadata_of(proto: NodeProto, metadata: Mapping[str, str]) -> dict[str, str]:
    """Write what `metadata_of` read; returns the other entries. Shards of values that the node lost are left out."""
    rest = {key: value for key, value in metadata.items() if key not in (DOCUMENTATION, DEVICE_NOTES)}
    if len(rest) == len(metadata):
        return rest
    if DOCUMENTATION in metadata:
        proto.doc_string = metadata[DOCUMENTATION]
    if DEVICE_NOTES in metadata:
        values = {*proto.input, *proto.output}
        for message in json_format.Parse(metadata[DEVICE_NOTES], NodeProto()).device_configurations:
            specs = [spec for spec in message.sharding_spec if spec.tensor_name in values]
            del message.sharding_spec[:]
            message.sharding_spec.extend(specs)
            proto.device_configurations.append(message)
    return rest
