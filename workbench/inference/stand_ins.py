"""Replaces operators that ONNX does not define by stand-ins of their contracts, for shape inference."""

from __future__ import annotations

from onnx import GraphProto, ModelProto, NodeProto

from workbench.ir.from_proto import bodies
from workbench.ops.contract import contracts

ONNX_RUNTIME = "com.microsoft"


def put_stand_ins(model: ModelProto) -> bool:
    """Replace such operators in the main graph and in bodies, in place; returns whether there were any."""
    return _put_into(model.graph)


def _put_into(graph: GraphProto) -> bool:
    nodes: list[NodeProto] = []
    replaced = replaced_inside = False
    for node in graph.node:
        for attribute in node.attribute:
            for body in bodies(attribute):
                replaced_inside |= _put_into(body)
        stand_ins = _stand_ins(node) if node.domain == ONNX_RUNTIME else []
        replaced |= bool(stand_ins)
        nodes += stand_ins or [node]
    if replaced:
        copies = GraphProto(node=nodes)  # some nodes belong to the graph
        del graph.node[:]
        graph.node.extend(copies.node)
    return replaced or replaced_inside


def _stand_ins(node: NodeProto) -> list[NodeProto]:
    """The stand-ins of a node, and the node itself with results that they do not compute; [] without stand-ins."""
    contract = contracts().get(f"{node.domain}.{node.op_type}")
    if contract is None or contract.stand_in is None:
        return []
    stand_ins = contract.stand_in(node)
    computed = {value for other in stand_ins for value in other.output}
    if not stand_ins or computed.issuperset(filter(None, node.output)):
        return stand_ins
    rest = NodeProto()
    rest.CopyFrom(node)
    rest.output[:] = ["" if value in computed else value for value in node.output]
    return [*stand_ins, rest]
