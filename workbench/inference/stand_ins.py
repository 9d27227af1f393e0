"""Operators that ONNX does not define, replaced for shape inference by those that their contracts name."""

from __future__ import annotations

from onnx import GraphProto, ModelProto, NodeProto

from workbench.ir.from_proto import bodies
from workbench.ops.contract import contracts

ONNX_RUNTIME = "com.microsoft"


def put_stand_ins(model: ModelProto) -> bool:
    """Replace them in the main graph and in bodies, in place; whether there were any."""
    return _put_into(model.graph)


def _put_into(graph: GraphProto) -> bool:
    nodes: list[NodeProto] = []
    own = inside = False
    for node in graph.node:
        for attribute in node.attribute:
            for body in bodies(attribute):
                inside |= _put_into(body)
        standing = _stand_ins(node) if node.domain == ONNX_RUNTIME else []
        own |= bool(standing)
        nodes += standing or [node]
    if own:
        copies = GraphProto(node=nodes)  # some belong to the graph itself
        del graph.node[:]
        graph.node.extend(copies.node)
    return own or inside


def _stand_ins(node: NodeProto) -> list[NodeProto]:
    """The nodes that stand for it, and the node itself with the results that they leave out; [] if none do."""
    contract = contracts().get(f"{node.domain}.{node.op_type}")
    if contract is None or contract.stand_in is None:
        return []
    standing = contract.stand_in(node)
    made = {value for other in standing for value in other.output}
    if not standing or made.issuperset(filter(None, node.output)):
        return standing
    rest = NodeProto()
    rest.CopyFrom(node)
    rest.output[:] = ["" if value in made else value for value in node.output]
    return [*standing, rest]
