"""Operators that ONNX deprecated: replaced by what they mean, since onnx.checker refuses them and no rule knows them.

Upsample (since opset 10) is a Resize, Scatter (11) is ScatterElements, and GroupNormalization of opset 18 to 20, whose
scale is of groups, is the body that ONNX gives it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import onnx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, helper

from workbench.inference.shapes import TypesOfFile
from workbench.io.checks import called, every_graph, opset_of

_DEPRECATED = ("GroupNormalization", "Scatter", "Upsample")
_EMPTY = "no_region_of_interest"
_AS_BEFORE = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}  # as Upsample means it


def replace_deprecated(model: ModelProto, types: TypesOfFile) -> list[str]:
    """Replace them in place, in bodies and functions too; a sentence for each operator of which there was one."""
    version = opset_of(model)
    if not any(_is_deprecated(node, version) for owner in _owners(model) for node in owner.node):
        return []
    entries: dict[str, str] = {}
    known = dict(_types(model, types))
    for owner in _owners(model):
        nodes: list[NodeProto] = []
        for node in owner.node:
            put = list(_meaning(node, version, known)) if _is_deprecated(node, version) else [node]
            nodes += put
            if put != [node]:
                entries[node.op_type] = (
                    f"operator '{node.op_type}' of {called(node)} is deprecated in opset {version}; "
                    + ("it is opened as its body" if len(put) > 1 else f"it is opened as {put[0].op_type}")
                )
        del owner.node[:]
        owner.node.extend(nodes)
    if any(_EMPTY in node.input for owner in _owners(model) for node in owner.node):
        model.graph.initializer.append(helper.make_tensor(_EMPTY, TensorProto.FLOAT, [0], []))
    return list(entries.values())


def _owners(model: ModelProto) -> list[GraphProto | FunctionProto]:
    """Each graph and function, the innermost first, so that a node is looked at before the node that holds it."""
    return [*list(every_graph(model))[::-1], *model.functions]


def _is_deprecated(node: NodeProto, version: int) -> bool:
    if node.op_type not in _DEPRECATED or node.domain not in ("", "ai.onnx"):
        return False
    return onnx.defs.has(node.op_type, version, "") and bool(onnx.defs.get_schema(node.op_type, version, "").deprecated)


def _types(model: ModelProto, types: TypesOfFile) -> Iterator[tuple[str, TypeProto]]:
    for graph in every_graph(model):
        yield from ((info.name, info.type) for info in (*graph.value_info, *graph.input))
        for tensor in graph.initializer:
            yield tensor.name, helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
    yield from ((info.name, info.type) for info in types.infos or ())


def _meaning(node: NodeProto, version: int, types: Mapping[str, TypeProto]) -> Iterator[NodeProto]:
    if node.op_type == "Scatter":
        yield _called(node, "ScatterElements", list(node.input))
    elif node.op_type == "Upsample" and version == 10:
        yield _called(node, "Resize", list(node.input))
    elif node.op_type == "Upsample":
        resized = _called(node, "Resize", [node.input[0], _EMPTY, node.input[1]])
        resized.attribute.extend(helper.make_attribute(name, value) for name, value in _AS_BEFORE.items())
        yield resized
    elif all(value in types for value in node.input) and not any(a.ref_attr_name for a in node.attribute):
        yield from _body(node, [types[value] for value in node.input])
    else:
        yield node


def _called(node: NodeProto, op_type: str, inputs: list[str]) -> NodeProto:
    result: NodeProto = NodeProto.FromString(node.SerializeToString())
    result.op_type = op_type
    result.input[:] = inputs
    return result


def _body(node: NodeProto, types: list[TypeProto]) -> Iterator[NodeProto]:
    """The nodes of ONNX's own function body, in the form of the opset in which it came."""
    schema: Any = onnx.defs.get_schema(node.op_type, 18, "")  # whose functions the stubs do not have
    given = [type_.SerializeToString() for type_ in types]
    body = FunctionProto.FromString(schema.get_context_dependent_function(node.SerializeToString(), given))
    names = dict(zip((*body.input, *body.output), (*node.input, *node.output), strict=True))
    for inner in body.node:
        inner.input[:] = [names[value] for value in inner.input]
        for value in inner.output:
            names.setdefault(value, f"{node.output[0]}_{value}")
        inner.output[:] = [names[value] for value in inner.output]
        inner.name = f"{node.name or node.op_type}_{inner.output[0]}"
        yield inner
