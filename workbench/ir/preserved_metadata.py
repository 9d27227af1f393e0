"""Fields of a model's file that compute nothing: read on loading and written on export.

They are version, domain, documentation, metadata of the graph, denotations, quantization annotations and devices. Such
fields of a node become entries of its metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from google.protobuf import json_format
from onnx import ModelProto, NodeProto, TensorShapeProto, ValueInfoProto

from workbench.ir.types import Constant, ValueType

DOCUMENTATION, DEVICE_NOTES = "doc_string", "device_configurations"  # keys of a node's metadata


@dataclass(frozen=True)
class PassthroughFields:
    """model: a message with these fields only. defaults: default values, by input.

    outputs: the types that the file declares for its outputs; they are written on export and not used otherwise.
    inputs:  the types of its inputs. followed: those of its outputs that follow from them.
    """

    model: ModelProto = field(default_factory=ModelProto)
    defaults: Mapping[str, Constant] = field(default_factory=dict)
    outputs: Mapping[str, ValueType] = field(default_factory=dict)
    inputs: Mapping[str, ValueType] = field(default_factory=dict)
    followed: Mapping[str, ValueType] = field(default_factory=dict)


def kept_fields(model: ModelProto) -> ModelProto:
    """The fields of the model that `Kept.model` has."""
    result = ModelProto(doc_string=model.doc_string, domain=model.domain, model_version=model.model_version)
    result.configuration.extend(model.configuration)
    result.graph.doc_string = model.graph.doc_string
    result.graph.metadata_props.extend(model.graph.metadata_props)
    result.graph.quantization_annotation.extend(model.graph.quantization_annotation)
    result.graph.input.extend(info for info in (*model.graph.input, *model.graph.output) if _has_annotations(info))
    return result


def _has_annotations(info: ValueInfoProto) -> bool:
    dims = info.type.tensor_type.shape.dim
    return bool(info.doc_string or info.type.denotation or any(dim.denotation for dim in dims))


def annotated(written: Iterable[ValueInfoProto], kept: ModelProto) -> None:
    """Restore documentation and denotations of inputs and outputs; denotations of axes only if the axes are the
    same."""
    entries = {info.name: info for info in kept.graph.input}
    for info in written if entries else ():
        if info.name not in entries:
            continue
        kept_info = entries[info.name]
        if kept_info.doc_string:
            info.doc_string = kept_info.doc_string
        if kept_info.type.denotation:
            info.type.denotation = kept_info.type.denotation
        dims, kept_dims = info.type.tensor_type.shape.dim, kept_info.type.tensor_type.shape.dim
        if len(dims) != len(kept_dims) or any(map(_is_another_axis, dims, kept_dims)):
            continue
        for dim, kept_dim in zip(dims, kept_dims, strict=True):
            if kept_dim.denotation:
                dim.denotation = kept_dim.denotation


def _is_another_axis(dim: TensorShapeProto.Dimension, kept_dim: TensorShapeProto.Dimension) -> bool:
    """Whether the sizes differ, for example since an input was permuted; a symbol may have become a number."""
    if kept_dim.dim_value:
        return bool(dim.dim_value != kept_dim.dim_value)
    return bool(dim.dim_param and dim.dim_param != kept_dim.dim_param)


def metadata_of(node: NodeProto) -> dict[str, str]:
    """Documentation and devices of a node as entries of its metadata."""
    result = {DOCUMENTATION: node.doc_string} if node.doc_string else {}
    if node.device_configurations:
        devices = NodeProto(device_configurations=node.device_configurations)
        result[DEVICE_NOTES] = json_format.MessageToJson(devices, indent=None)
    return result


def write_metadata_of(proto: NodeProto, metadata: Mapping[str, str]) -> dict[str, str]:
    """Write the entries that `metadata_of` returns; returns the others. Shards of values that the node no longer has
    are left out."""
    rest = {key: value for key, value in metadata.items() if key not in (DOCUMENTATION, DEVICE_NOTES)}
    if len(rest) == len(metadata):
        return rest
    if DOCUMENTATION in metadata:
        proto.doc_string = metadata[DOCUMENTATION]
    if DEVICE_NOTES in metadata:
        values = {*proto.input, *proto.output}
        for configuration in json_format.Parse(metadata[DEVICE_NOTES], NodeProto()).device_configurations:
            specs = [spec for spec in configuration.sharding_spec if spec.tensor_name in values]
            del configuration.sharding_spec[:]
            configuration.sharding_spec.extend(specs)
            proto.device_configurations.append(configuration)
    return rest
