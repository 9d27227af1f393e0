"""Between our graphs and `onnx_ir` models (files, protobuf, text all pass through those)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_ir
from onnx import AttributeProto, GraphProto

from workbench.ir.graph import Graph
from workbench.ir.node import AttrRef, Function, Node
from workbench.ir.types import OpaqueType, TensorType, ValueType, constant_shape

IR_VERSION = 10  # what an exported file declares; ONNX Runtime 1.19 and newer read it
_KIND = onnx_ir.AttributeType
_LISTS = {_KIND.INTS: int, _KIND.FLOATS: float, _KIND.STRINGS: str}


# ---- onnx_ir -> ours -----------------------------------------------------------


def from_model(model: onnx_ir.Model) -> Graph:
    """The model's main graph with its functions. Constant nodes become constants."""
    graph = _graph(model.graph, dict(model.opset_imports))
    for function in model.functions.values():
        ours = _function(function)
        graph.functions[ours.key] = ours
    graph.metadata = {
        **dict(model.metadata_props),
        **({"producer": model.producer_name} if model.producer_name else {}),
    }
    return graph


def bodies(attribute: AttributeProto) -> tuple[GraphProto, ...]:
    """The graphs in an attribute: of If, Loop, Scan."""
    return (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs)


def _graph(source: onnx_ir.Graph, opset_imports: Mapping[str, int] | None = None) -> Graph:
    constants = {n: v.const_value for n, v in source.initializers.items() if v.const_value is not None}
    types: dict[str, ValueType] = {}
    nodes: list[Node] = []
    taken: set[str] = set()
    for value in source.inputs:
        _note_type(types, value)
    for node in source:
        for value in node.outputs:
            _note_type(types, value)
        tensor = _constant_value(node)
        if tensor is not None:
            constants[node.outputs[0].name or ""] = tensor
            continue
        nodes.append(_node(node, taken))
    return Graph(
        name=source.name or "graph",
        inputs=[v.name or "" for v in source.inputs if v.name not in constants],
        outputs=[v.name or "" for v in source.outputs],
        nodes=nodes,
        constants=constants,
        types={name: t for name, t in types.items() if name not in constants},
        opset_imports=opset_imports,
    )


def _note_type(types: dict[str, ValueType], value: onnx_ir.Value) -> None:
    found = value_type(value)
    if value.name and found is not None:
        types[value.name] = found


def value_type(value: onnx_ir.Value) -> ValueType | None:
    if isinstance(value.type, onnx_ir.TensorType):
        return TensorType(value.type.dtype, _shape(value.shape))
    return None if value.type is None else OpaqueType(value.type, value.shape)


def _shape(shape: onnx_ir.Shape | None) -> tuple | None:
    if shape is None:
        return None
    return tuple(d if isinstance(d, int) else d.value for d in shape)


def _constant_value(node: onnx_ir.Node) -> onnx_ir.TensorProtocol | None:
    """The tensor of a Constant node, whichever attribute it is written in."""
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx"):
        return None
    attribute = next(iter(node.attributes.values()), None)
    if attribute is None or attribute.is_ref():
        return None
    if attribute.type == _KIND.TENSOR:
        return attribute.value
    dtypes = {
        _KIND.INT: onnx_ir.DataType.INT64,
        _KIND.INTS: onnx_ir.DataType.INT64,
        _KIND.FLOAT: onnx_ir.DataType.FLOAT,
        _KIND.FLOATS: onnx_ir.DataType.FLOAT,
        _KIND.STRING: onnx_ir.DataType.STRING,
        _KIND.STRINGS: onnx_ir.DataType.STRING,
    }
    dtype = dtypes.get(attribute.type)
    return None if dtype is None else onnx_ir.tensor(attribute.value, dtype=dtype)


def _node(node: onnx_ir.Node, taken: set[str]) -> Node:
    return Node(
        op_type=node.op_type,
        domain=node.domain,
        overload=node.overload,
        inputs=tuple("" if v is None else v.name or "" for v in node.inputs),
        outputs=_without_trailing(tuple(v.name or "" for v in node.outputs)),
        attributes={name: _attribute(a) for name, a in node.attributes.items()},
        name=_unique(node.name or _name_from_output(node), taken),
        metadata=dict(node.metadata_props),
    )


def _name_from_output(node: onnx_ir.Node) -> str:
    return next((f"{node.op_type}_{v.name}" for v in node.outputs if v.name), node.op_type)


def _unique(name: str, taken: set[str]) -> str:
    unique, count = name, 1
    while unique in taken:
        count += 1
        unique = f"{name}#{count}"
    taken.add(unique)
    return unique


def _without_trailing(names: tuple[str, ...]) -> tuple[str, ...]:
    while len(names) > 1 and not names[-1]:
        names = names[:-1]
    return names


def _attribute(attribute: onnx_ir.Attr) -> Any:
    if attribute.is_ref():
        return AttrRef(attribute.ref_attr_name or attribute.name, int(attribute.type))
    if attribute.type == _KIND.GRAPH:
        return _graph(attribute.value)
    if attribute.type == _KIND.GRAPHS:
        return tuple(_graph(g) for g in attribute.value)
    if attribute.type in _LISTS:
        return tuple(attribute.value)
    if attribute.type in (_KIND.INT, _KIND.FLOAT, _KIND.STRING, _KIND.TENSOR):
        return attribute.value
    return attribute  # type protos, sparse tensors: kept as they are


def _function(function: onnx_ir.Function) -> Function:
    graph = _graph(function.graph, dict(function.opset_imports))
    defaults = {name: None if a.value is None else _attribute(a) for name, a in function.attributes.items()}
    return Function(function.name, function.domain, graph, defaults, function.overload)


# ---- ours -> onnx_ir -----------------------------------------------------------


def to_model(graph: Graph) -> onnx_ir.Model:
    """The graph as an `onnx_ir` model, its functions beside it; unused constants are left out."""
    functions = [_to_function(f) for f in graph.functions.values()]
    main = _to_graph(graph, {})
    main.opset_imports.update(graph.opset_imports)
    metadata = {key: value for key, value in graph.metadata.items() if key != "producer"}
    return onnx_ir.Model(
        main,
        ir_version=max(IR_VERSION, 11 if graph.opset_imports.get("", 0) >= 23 else 0),
        producer_name="graph-workbench",
        functions=functions,
        metadata_props=metadata,
    )


def _to_graph(graph: Graph, outside: Mapping[str, onnx_ir.Value]) -> onnx_ir.Graph:
    values: dict[str, onnx_ir.Value] = {}

    def value(name: str) -> onnx_ir.Value:
        if name in values:
            return values[name]
        if name in outside and not graph.has_value(name):
            return outside[name]
        values[name] = _to_value(name, graph.types.get(name))
        return values[name]

    inputs = [value(name) for name in graph.inputs]
    initializers = []
    used = dict.fromkeys(v for node in graph.nodes for v in node.uses) | dict.fromkeys(graph.outputs)
    for name in used:  # in the order of their use, so that the text does not depend on the order of edits
        tensor = graph.constants.get(name)
        if tensor is None:
            continue
        values[name] = onnx_ir.Value(
            name=name,
            type=onnx_ir.TensorType(tensor.dtype),
            shape=onnx_ir.Shape(constant_shape(tensor)),
            const_value=tensor,
        )
        initializers.append(values[name])
    nodes = []
    for node in graph.nodes:
        scope = {**outside, **values} if node.bodies else {}
        nodes.append(
            onnx_ir.Node(
                node.domain,
                node.op_type,
                [value(v) if v else None for v in node.inputs],
                [_to_attribute(key, a, scope) for key, a in node.attributes.items()],
                overload=node.overload,
                outputs=[value(v) if v else onnx_ir.Value(name="") for v in node.outputs],
                name=node.name,
                metadata_props=dict(node.metadata),
            )
        )
    return onnx_ir.Graph(
        inputs, [value(v) for v in graph.outputs], nodes=nodes, initializers=initializers, name=graph.name
    )


def _to_value(name: str, found: ValueType | None) -> onnx_ir.Value:
    if isinstance(found, TensorType):
        shape = None if found.shape is None else onnx_ir.Shape(found.shape)
        return onnx_ir.Value(name=name, type=onnx_ir.TensorType(found.dtype), shape=shape)
    if isinstance(found, OpaqueType):
        return onnx_ir.Value(name=name, type=found.type, shape=found.shape)
    return onnx_ir.Value(name=name)


def _to_attribute(name: str, value: Any, scope: Mapping[str, onnx_ir.Value]) -> onnx_ir.Attr:
    if isinstance(value, onnx_ir.Attr):
        return value
    if isinstance(value, AttrRef):
        return onnx_ir.RefAttr(name, value.name, _KIND(value.type))
    if isinstance(value, Graph):
        return onnx_ir.Attr(name, _KIND.GRAPH, _to_graph(value, scope))
    if isinstance(value, tuple) and value and isinstance(value[0], Graph):
        return onnx_ir.Attr(name, _KIND.GRAPHS, [_to_graph(g, scope) for g in value])
    if isinstance(value, tuple):
        return onnx_ir.Attr(name, _list_kind(value), value)
    kinds = {bool: _KIND.INT, int: _KIND.INT, float: _KIND.FLOAT, str: _KIND.STRING}
    return onnx_ir.Attr(name, kinds.get(type(value), _KIND.TENSOR), value)


def _list_kind(value: tuple) -> onnx_ir.AttributeType:
    if value and isinstance(value[0], str):
        return _KIND.STRINGS
    if any(isinstance(item, float) for item in value):
        return _KIND.FLOATS
    return _KIND.INTS


def _to_function(function: Function) -> onnx_ir.Function:
    body = _to_graph(function.graph, {})
    body.opset_imports.update(function.graph.opset_imports)
    _constants_to_nodes(body)
    attributes = [
        onnx_ir.Attr(name, _KIND.UNDEFINED, None) if default is None else _to_attribute(name, default, {})
        for name, default in function.attributes.items()
    ]
    return onnx_ir.Function(function.domain, function.name, function.overload, graph=body, attributes=attributes)


def _constants_to_nodes(body: onnx_ir.Graph) -> None:
    """A function has no initializers: its constants are Constant nodes."""
    made = []
    for name, value in list(body.initializers.items()):
        node = onnx_ir.node("Constant", [], attributes={"value": value.const_value}, name=f"Constant_{name}")
        node.outputs[0].name = name
        value.replace_all_uses_with(node.outputs[0], replace_graph_outputs=True)
        body.initializers.pop(name)
        made.append(node)
    first = next(iter(body), None)
    if first is not None:
        body.insert_before(first, made)
