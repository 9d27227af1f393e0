"""Operators that ONNX Runtime has run in ONNX's domain since before they were ONNX's.

Exporters wrote LayerNormalization into files of opset 9 to 16. ONNX's converter refuses what it does not
know, so such nodes stand as Identities while their model is brought to an opset that has them.
"""

from __future__ import annotations

from onnx import ModelProto, NodeProto, helper

from workbench.io.checks import every_node, is_early, opset_of


def set_aside(model: ModelProto) -> tuple[ModelProto, dict[str, NodeProto]]:
    """A copy with an Identity in the place of each early node, and those nodes by the value that they make."""
    version = opset_of(model)
    if not any(is_early(node, version) for node in every_node(model)):
        return model, {}
    copy, aside = ModelProto(), {}
    copy.CopyFrom(model)
    for node in every_node(copy):
        if is_early(node, version):
            aside[node.output[0]] = NodeProto.FromString(node.SerializeToString())
            node.CopyFrom(helper.make_node("Identity", node.input[:1], node.output[:1], node.name))
    return copy, aside


def put_back(model: ModelProto, aside: dict[str, NodeProto]) -> None:
    """The early nodes at their places again, in a model of an opset that has them."""
    for node in every_node(model) if aside else ():
        early = aside.get(node.output[0]) if node.op_type == "Identity" else None
        if early is not None:
            early.input[0] = node.input[0]
            node.CopyFrom(early)
