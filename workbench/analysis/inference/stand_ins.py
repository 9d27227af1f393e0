"""Replaces operators that ONNX does not define by stand-ins of their contracts, for shape inference.

Those that a user declares are written in the newest forms of ONNX's operators, as an opset from 15 on has them.
"""

from __future__ import annotations

from onnx import GraphProto, ModelProto, NodeProto

from workbench.ir.from_proto import bodies
from workbench.ir.node import ONNX_DOMAINS
from workbench.ops.contract import Contract, contract_by_name

ONNX_RUNTIME = "com.microsoft"
_DECLARED_SINCE = 15


def put_stand_ins(model: ModelProto) -> bool:
    """Replace such operators in the main graph and in bodies, in place; returns whether there were any."""
    version = max((entry.version for entry in model.opset_import if entry.domain in ONNX_DOMAINS), default=0)
    return _put_into(model.graph, version >= _DECLARED_SINCE)


def has_stand_in(node: NodeProto) -> bool:
    contract = _contract(node)
    return contract is not None and contract.stand_in is not None


def _contract(node: NodeProto) -> Contract | None:
    return contract_by_name(node.op_type if node.domain in ONNX_DOMAINS else f"{node.domain}.{node.op_type}")


def _put_into(graph: GraphProto, declared: bool) -> bool:
    """declared: whether operators that the user declares are replaced too."""
    nodes: list[NodeProto] = []
    replaced = replaced_inside = False
    for node in graph.node:
        for attribute in node.attribute:
            for body in bodies(attribute):
                replaced_inside |= _put_into(body, declared)
        stand_ins = _stand_ins(node) if node.domain == ONNX_RUNTIME or declared else []
        replaced |= bool(stand_ins)
        nodes += stand_ins or [node]
    if replaced:
        copies = GraphProto(node=nodes)  # some nodes belong to the graph
        del graph.node[:]
        graph.node.extend(copies.node)
    return replaced or replaced_inside


def _stand_ins(node: NodeProto) -> list[NodeProto]:
    """The stand-ins of a node, and the node itself with results that they do not compute; [] without stand-ins."""
    contract = _contract(node)
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
