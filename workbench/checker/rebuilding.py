"""Nodes of a log as messages, to be run: no file has the graphs in its middle."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    NodeProto,
    OperatorSetIdProto,
    TensorProto,
    ValueInfoProto,
)

from workbench.checker.plain import FunctionKey, PlainConstant, PlainFunction, PlainGraph, PlainNode

_KINDS = {
    "int": ("i", AttributeProto.INT),
    "text": ("s", AttributeProto.STRING),
    "ints": ("ints", AttributeProto.INTS),
    "texts": ("strings", AttributeProto.STRINGS),
}


def _fill(proto: GraphProto, graph: PlainGraph, unknown: dict[str, PlainConstant]) -> None:
    proto.name = "graph"
    proto.node.extend(_nodes(graph, unknown))
    proto.output.extend(ValueInfoProto(name=name) for name in graph.outputs)
    for name, constant in graph.constants.items():
        tensor = _tensor(constant, name)
        if tensor is None:
            unknown[name] = constant
        else:
            proto.initializer.append(tensor)


def _nodes(graph: PlainGraph, unknown: dict[str, PlainConstant]) -> Iterable[NodeProto]:
    """The nodes of a graph in topological order."""
    producers = graph.producers
    done: set[str] = set()
    for call in graph.nodes.values():
        waiting = [call]
        while waiting:
            missing = [producers[v] for v in waiting[-1].reads if v in producers and producers[v].key not in done]
            if missing:
                waiting += missing
                continue
            ready = waiting.pop()
            if ready.key not in done:
                done.add(ready.key)
                yield node_proto(ready, unknown)


def proto_of_function(key: FunctionKey, function: PlainFunction) -> FunctionProto | None:
    """The function as a message; None if elements of its constants are missing."""
    domain, name, overload = key
    graph, unknown = function.graph, dict[str, PlainConstant]()
    proto = FunctionProto(domain=domain, name=name, overload=overload, attribute=sorted(function.parameters))
    proto.input.extend(graph.inputs)
    proto.output.extend(graph.outputs)
    proto.attribute_proto.extend(_attribute(*entry, unknown) for entry in function.defaults.items())
    proto.opset_import.extend(OperatorSetIdProto(domain=own, version=n) for own, n in function.opsets.items())
    for value, constant in graph.constants.items():
        node = NodeProto(op_type="Constant", output=[value])
        node.attribute.append(_attribute("value", ("tensor", constant), unknown))
        proto.node.append(node)
    proto.node.extend(_nodes(graph, unknown))
    return None if unknown else proto


def node_proto(call: PlainNode, unknown: dict[str, PlainConstant]) -> NodeProto:
    """The node as a message. unknown: the function adds to it the constants in it whose elements are missing."""
    node = NodeProto(op_type=call.op_type, domain=call.domain, overload=call.overload)
    node.input.extend(call.inputs)
    node.output.extend(call.outputs)
    node.attribute.extend(_attribute(name, attribute, unknown) for name, attribute in call.attributes.items())
    return node


def _attribute(name: str, entries: tuple[str, Any], unknown: dict[str, PlainConstant]) -> AttributeProto:
    kind, value = entries
    proto = AttributeProto(name=name)
    if kind in _KINDS:
        field, proto.type = _KINDS[kind]
        getattr(proto, field).extend(value) if isinstance(value, tuple) else setattr(proto, field, value)
    elif kind == "float":
        proto.type, proto.f = AttributeProto.FLOAT, float(np.frombuffer(value, "<f4")[0])
    elif kind == "floats":
        proto.type = AttributeProto.FLOATS
        proto.floats.extend(float(np.frombuffer(item, "<f4")[0]) for item in value)
    elif kind == "reference":
        proto.ref_attr_name, proto.type = value
    elif kind == "tensor":
        proto.type, tensor = AttributeProto.TENSOR, _tensor(value, name)
        if tensor is None:
            unknown[name] = value
        else:
            proto.t.CopyFrom(tensor)
    elif kind == "graph":
        proto.type = AttributeProto.GRAPH
        _body(proto.g, value, unknown)
    elif kind == "graphs":
        proto.type = AttributeProto.GRAPHS
        for body in value:
            _body(proto.graphs.add(), body, unknown)
    else:
        proto.type = AttributeProto.TYPE_PROTO
        proto.tp.ParseFromString(value)
    return proto


def _body(proto: GraphProto, body: PlainGraph, unknown: dict[str, PlainConstant]) -> None:
    """Fill in a body."""
    _fill(proto, body, unknown)
    proto.input.extend(ValueInfoProto(name=name) for name in body.inputs)


def _tensor(constant: PlainConstant, name: str) -> TensorProto | None:
    if constant.data is None:
        return None
    return TensorProto(name=name, data_type=constant.dtype, dims=constant.shape, raw_data=constant.data)
