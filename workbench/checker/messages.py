"""Refuses a model with a field that is neither read nor known to compute nothing.

The message is walked by its descriptors, so that a field of a later version of ONNX is refused too.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from onnx import ModelProto

from workbench.checker.outcome import Unreadable, in_quotes

# By message, the fields that are compared or walked through.
_READ: dict[str, frozenset[str]] = {
    name: frozenset(fields.split())
    for name, fields in {
        "ModelProto": "ir_version opset_import graph functions",
        "GraphProto": "node initializer input output value_info",
        "FunctionProto": "name domain overload input output attribute attribute_proto node opset_import value_info",
        "NodeProto": "input output op_type domain overload attribute",
        "AttributeProto": "name ref_attr_name type f i s t g tp floats ints strings graphs",
        "TensorProto": "dims data_type float_data int32_data string_data int64_data raw_data double_data uint64_data"
        " external_data data_location name",
        "ValueInfoProto": "name type",
        "TypeProto": "tensor_type sequence_type map_type optional_type",
        "Tensor": "elem_type shape",
        "Sequence": "elem_type",
        "Optional": "elem_type",
        "Map": "key_type value_type",
        "TensorShapeProto": "dim",
        "Dimension": "dim_value dim_param",
        "OperatorSetIdProto": "domain version",
        "StringStringEntryProto": "key value",
    }.items()
}
# Fields that compute nothing; only the SHA-256 of the file covers them. Devices say where a node runs, not what.
_COMPUTE_NOTHING = frozenset(
    (
        *("doc_string", "metadata_props", "denotation", "producer_name", "producer_version", "model_version"),
        *("configuration", "device_configurations", "quantization_annotation"),
    )
)
_NAME_FIELDS = {"ModelProto": "domain", "GraphProto": "name", "NodeProto": "name"}


def check_fields(model: ModelProto, file: str) -> None:
    """Raises Unreadable for a field that is neither read nor without meaning, at any depth. file: its name."""
    waiting: list[Message] = [model]
    while waiting:
        message = waiting.pop()
        kind = message.DESCRIPTOR.name
        if len(UnknownFieldSet(message)):
            raise Unreadable(f"{in_quotes(file)} has a field in its {kind} that the onnx package here does not know")
        for field, value in message.ListFields():
            if field.name in _COMPUTE_NOTHING or field.name == _NAME_FIELDS.get(kind):
                continue
            if field.name not in _READ.get(kind, ()):
                raise Unreadable(f"{in_quotes(file)} has {kind}.{field.name}, which is not read")
            if field.message_type is not None:
                waiting += _messages(field, value)


def filled(message: Message) -> set[str]:
    """The names of the fields that are set, without those that compute nothing."""
    return {field.name for field, _ in message.ListFields()} - _COMPUTE_NOTHING


def _messages(field: Any, value: Any) -> list[Message]:
    return list(value) if field.is_repeated else [value]
