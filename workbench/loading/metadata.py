"""What exporters wrote beside the nodes, kept apart while the model is checked, converted and inferred.

torch writes the stack trace of each node, often nine tenths of a model without
its weights, and each check would copy it; many nodes share theirs word for word.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import onnx_ir
from onnx import ModelProto

from workbench.loading.checks import every_graph

_Outputs = tuple[str, ...]
NodeMetadata = Mapping[_Outputs, tuple[str, dict[str, str]]]  # operator and entries, by what the node makes


def take_metadata(model: ModelProto) -> tuple[ModelProto, NodeMetadata]:
    """The model without the metadata of its nodes, and what it was; nodes of functions keep theirs."""
    taken = {}
    for graph in every_graph(model):
        for node in graph.node:
            if node.metadata_props:
                entries = {sys.intern(entry.key): sys.intern(entry.value) for entry in node.metadata_props}
                taken[tuple(node.output)] = (node.op_type, entries)
                del node.metadata_props[:]
    if not taken:
        return model, taken
    return ModelProto.FromString(model.SerializeToString()), taken  # a message never shrinks


def put_back_metadata(model: onnx_ir.Model, taken: NodeMetadata) -> None:
    """Each node gets its metadata, unless the opset conversion made another operator of it."""
    for node in onnx_ir.traversal.RecursiveGraphIterator(model.graph) if taken else ():
        op_type, entries = taken.get(tuple(value.name or "" for value in node.outputs), ("", {}))
        if node.op_type == op_type:
            node.metadata_props.update(entries)
