"""Operators that ONNX Runtime accepts in ONNX's domain before the opset that introduced them.

Exporters wrote LayerNormalization into files of opset 9 to 16. ONNX's converter rejects unknown operators,
so such nodes are replaced by Identities until the model has been converted.

A BatchNormalization that trained had five results before opset 14; since then it has three and an attribute.
The converter rejects the last two results and does not write the attribute.
"""

from __future__ import annotations

from collections.abc import Iterable

from onnx import ModelProto, NodeProto, helper

from workbench.io.checks import EARLY, every_graph, every_node, is_early, opset_of


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


def drop_saved_statistics(model: ModelProto) -> None:
    """Remove the last two results of each BatchNormalization that trains before opset 14, if nothing reads them."""
    norms = [node for node in every_node(model) if node.op_type == "BatchNormalization" and len(node.output) == 5]
    if not norms:
        return
    read = {value for node in every_node(model) for value in node.input}
    read.update(value.name for graph in every_graph(model) for value in graph.output)
    for node in norms:
        if read.isdisjoint(node.output[3:]):
            del node.output[3:]


def mark_training(model: ModelProto) -> None:
    """Give a BatchNormalization with more than one result the attribute that says so since opset 14."""
    for node in every_node(model):
        if node.op_type == "BatchNormalization" and len(node.output) > 1:
            node.attribute.append(helper.make_attribute("training_mode", 1))
