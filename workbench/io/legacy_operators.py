"""Operators that ONNX Runtime accepts in ONNX's domain before the opset that introduced them.

Exporters wrote LayerNormalization into files of opset 9 to 16. ONNX's converter rejects unknown operators,
so such nodes are replaced by Identities until the model has been converted.
"""

from __future__ import annotations

from collections.abc import Iterable

from onnx import ModelProto, NodeProto, helper

from workbench.io.checks import EARLY, every_node, is_early, opset_of


def set_aside(model: ModelProto, nodes: Iterable[NodeProto]) -> tuple[ModelProto, dict[str, NodeProto]]:
    """A copy with each early node replaced by an Identity, and these nodes by output. nodes: all of the model."""
    version = opset_of(model)
    if not any(node.op_type in EARLY and is_early(node, version) for node in nodes):
        return model, {}
    copy, aside = ModelProto(), {}
    copy.CopyFrom(model)
    for node in every_node(copy):
        if is_early(node, version):
            aside[node.output[0]] = NodeProto.FromString(node.SerializeToString())
            node.CopyFrom(helper.make_node("Identity", node.input[:1], node.output[:1], node.name))
    return copy, aside


def put_back(model: ModelProto, aside: dict[str, NodeProto]) -> None:
    """Restore the early nodes in a model of an opset that has them."""
    for node in every_node(model) if aside else ():
        early = aside.get(node.output[0]) if node.op_type == "Identity" else None
        if early is not None:
            early.input[0] = node.input[0]
            node.CopyFrom(early)
