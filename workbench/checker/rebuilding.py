"""A graph in the middle of a log as a message, for shape inference: what was removed since is in no file.

Of constants the elements are here if they are few and a model or the log has them; others are inputs of their type.
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
    """The message, without large elements. Raises Unreadable if a function needs a constant whose elements are not
    here."""
    result = ModelProto(ir_version=_IR_VERSION)
    result.opset_import.extend(_opsets(model.opsets))
    unknown: dict[str, PlainConstant] = {}
    _fill(result.graph, model.graph, unknown)
    for name in model.graph.inputs:
        result.graph.input.append(_value(name, model.types.get(name)))
    for name, held in unknown.items():
        result.graph.input.append(_value(name, (held.dtype, held.shape)))
    for (domain, name, overload), function in model.functions.items():
        inside: dict[str, PlainConstant] = {}
        proto = FunctionProto(name=name, domain=domain, overload=overload, attribute=sorted(function.parameters))
        proto.opset_import.extend(_opsets(function.opsets))
        proto.attribute_proto.extend(_attribute(key, message, inside) for key, message in function.defaults.items())
        proto.input.extend(function.graph.inputs)
        proto.output.extend(function.graph.outputs)
        for value, held in function.graph.constants.items():
            tensor = _tensor(held, value)
            if tensor is None:
                inside[value] = held
                continue
            proto.node.append(helper.make_node("Constant", [], [value], value=tensor))
        proto.node.extend(_nodes(function.graph, inside))
        if inside:
            raise Unreadable(f"the elements of {in_quotes(min(inside))} in the function {in_quotes(name)} are not here")
        result.functions.append(proto)
    return result


def _fill(proto: GraphProto, graph: PlainGraph, unknown: dict[str, PlainConstant]) -> None:
    proto.name = "graph"
    proto.node.extend(_nodes(graph, unknown))
    proto.output.extend(ValueInfoProto(name=name) for name in graph.outputs)
    for name, held in graph.constants.items():
        tensor = _tensor(held, name)
        if tensor is None:
            unknown[name] = held
        else:
            proto.initializer.append(tensor)


def _nodes(graph: PlainGraph, unknown: dict[str, PlainConstant]) -> Iterable[NodeProto]:
    """Each after those whose results it reads."""
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
    """unknown: gets the constants of bodies whose elements are not here."""
    node = NodeProto(op_type=call.op_type, domain=call.domain, overload=call.overload)
    node.input.extend(call.inputs)
    node.output.extend(call.outputs)
    node.attribute.extend(_attribute(name, message, unknown) for name, message in call.attributes.items())
    return node


def _attribute(name: str, entries: tuple[str, Any], unknown: dict[str, PlainConstant]) -> AttributeProto:
    kind, held = entries
    proto = AttributeProto(name=name)
    if kind in _KINDS:
        field, proto.type = _KINDS[kind]
        getattr(proto, field).extend(held) if isinstance(held, tuple) else setattr(proto, field, held)
    elif kind == "float":
        proto.type, proto.f = AttributeProto.FLOAT, float(np.frombuffer(held, "<f4")[0])
    elif kind == "floats":
        proto.type = AttributeProto.FLOATS
        proto.floats.extend(float(np.frombuffer(item, "<f4")[0]) for item in held)
    elif kind == "reference":
        proto.ref_attr_name, proto.type = held
    elif kind == "tensor":
        proto.type = AttributeProto.TENSOR
        proto.t.CopyFrom(_tensor(held, name) or TensorProto(data_type=held.dtype, dims=held.shape))
    elif kind == "graph":
        proto.type = AttributeProto.GRAPH
        _body(proto.g, held, unknown)
    elif kind == "graphs":
        proto.type = AttributeProto.GRAPHS
        for body in held:
            _body(proto.graphs.add(), body, unknown)
    else:
        proto.type = AttributeProto.TYPE_PROTO
        proto.tp.ParseFromString(held)
    return proto


def _body(proto: GraphProto, body: PlainGraph, unknown: dict[str, PlainConstant]) -> None:
    """A body finds in the graph around it what is not here."""
    _fill(proto, body, unknown)
    proto.input.extend(ValueInfoProto(name=name) for name in body.inputs)


def _tensor(held: PlainConstant, name: str) -> TensorProto | None:
    if held.data is None:
        return None
    return TensorProto(name=name, data_type=held.dtype, dims=held.shape, raw_data=held.data)


def _value(name: str, type_: PlainType) -> ValueInfoProto:
    if not is_tensor(type_):
        return ValueInfoProto(name=name, type=TypeProto())
    return helper.make_tensor_value_info(name, type_[0], None if type_[1] is None else list(type_[1]))


def _opsets(opsets: Mapping[str, int]) -> list[OperatorSetIdProto]:
    return [OperatorSetIdProto(domain=domain, version=version) for domain, version in opsets.items()]
