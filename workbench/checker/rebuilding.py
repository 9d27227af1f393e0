"""Rebuilds a graph in the middle of a log as a message, for shape inference: no file has this graph.

A constant keeps its elements if they are few and a model or the log has them; otherwise it becomes an input.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    helper,
)

from workbench.checker.outcome import Unreadable, in_quotes
from workbench.checker.plain import PlainConstant, PlainGraph, PlainModel, PlainNode
from workbench.checker.types import PlainType, is_tensor

_IR_VERSION = 10
_KINDS = {
    "int": ("i", AttributeProto.INT),
    "text": ("s", AttributeProto.STRING),
    "ints": ("ints", AttributeProto.INTS),
    "texts": ("strings", AttributeProto.STRINGS),
}


def rebuilt_proto(model: PlainModel) -> ModelProto:
    """The message, without the elements of large constants. Raises Unreadable if a function needs these."""
    result = ModelProto(ir_version=_IR_VERSION)
    result.opset_import.extend(_opsets(model.opsets))
    unknown: dict[str, PlainConstant] = {}
    _fill(result.graph, model.graph, unknown)
    for name in model.graph.inputs:
        result.graph.input.append(_value(name, model.types.get(name)))
    for name, constant in unknown.items():
        result.graph.input.append(_value(name, (constant.dtype, constant.shape)))
    for (domain, name, overload), function in model.functions.items():
        missing: dict[str, PlainConstant] = {}
        proto = FunctionProto(name=name, domain=domain, overload=overload, attribute=sorted(function.parameters))
        proto.opset_import.extend(_opsets(function.opsets))
        proto.attribute_proto.extend(
            _attribute(key, attribute, missing) for key, attribute in function.defaults.items()
        )
        proto.input.extend(function.graph.inputs)
        proto.output.extend(function.graph.outputs)
        for value, constant in function.graph.constants.items():
            tensor = _tensor(constant, value)
            if tensor is None:
                missing[value] = constant
                continue
            proto.node.append(helper.make_node("Constant", [], [value], value=tensor))
        proto.node.extend(_nodes(function.graph, missing))
        if missing:
            raise Unreadable(f"the elements of {in_quotes(min(missing))} in the function {in_quotes(name)} are missing")
        result.functions.append(proto)
    return result


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
    producers = {value: call for call in graph.nodes.values() for value in call.outputs if value}
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


def node_proto(call: PlainNode, unknown: dict[str, PlainConstant]) -> NodeProto:
    """The node as a message. unknown: the function adds to it constants of bodies whose elements are missing."""
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
        proto.type = AttributeProto.TENSOR
        proto.t.CopyFrom(_tensor(value, name) or TensorProto(data_type=value.dtype, dims=value.shape))
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
    """Fill in a body. Constants whose elements are missing become inputs of the main graph, which it captures."""
    _fill(proto, body, unknown)
    proto.input.extend(ValueInfoProto(name=name) for name in body.inputs)


def _tensor(constant: PlainConstant, name: str) -> TensorProto | None:
    if constant.data is None:
        return None
    return TensorProto(name=name, data_type=constant.dtype, dims=constant.shape, raw_data=constant.data)


def _value(name: str, type_: PlainType) -> ValueInfoProto:
    if not is_tensor(type_):
        return ValueInfoProto(name=name, type=TypeProto())
    return helper.make_tensor_value_info(name, type_[0], None if type_[1] is None else list(type_[1]))


def _opsets(opsets: Mapping[str, int]) -> list[OperatorSetIdProto]:
    return [OperatorSetIdProto(domain=domain, version=version) for domain, version in opsets.items()]
