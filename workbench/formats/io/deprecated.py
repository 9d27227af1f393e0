"""Replaces operators that ONNX deprecated, since onnx.checker refuses them and no rule knows them.

Upsample (since opset 10) becomes a Resize, and Scatter (11) ScatterElements. GroupNormalization of opset 18 to 20,
whose scale has an element for each group, becomes ONNX's function body.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import onnx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, helper

from workbench.analysis.inference.shapes import TypesOfFile
from workbench.formats.io.checks import every_graph, node_text, opset_of

_DEPRECATED = ("GroupNormalization", "Scatter", "Upsample")
_EMPTY = "no_region_of_interest"
_AS_BEFORE = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}  # the meaning of Upsample


def replace_deprecated(model: ModelProto, types: TypesOfFile) -> list[str]:
    """Replace deprecated operators in place, in bodies and functions too; returns a sentence for each operator."""
    version = opset_of(model)
    if not any(_is_deprecated(node, version) for owner in _owners(model) for node in owner.node):
        return []
    entries: dict[str, str] = {}
    known = dict(_types(model, types))
    for owner in _owners(model):
        nodes: list[NodeProto] = []
        for node in owner.node:
            replacement = list(_replacement(node, version, known)) if _is_deprecated(node, version) else [node]
            nodes += replacement
            if replacement != [node]:
                entries[node.op_type] = (
                    f"operator '{node.op_type}' of {node_text(node)} is deprecated in opset {version}; "
                    + (
                        "it is opened as its body"
                        if len(replacement) > 1
                        else f"it is opened as {replacement[0].op_type}"
                    )
                )
        del owner.node[:]
        owner.node.extend(nodes)
    if any(_EMPTY in node.input for owner in _owners(model) for node in owner.node):
        model.graph.initializer.append(helper.make_tensor(_EMPTY, TensorProto.FLOAT, [0], []))
    return list(entries.values())


def _owners(model: ModelProto) -> list[GraphProto | FunctionProto]:
    """Each graph and function, the innermost first, so that a node comes before the node that contains it."""
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


def _replacement(node: NodeProto, version: int, types: Mapping[str, TypeProto]) -> Iterator[NodeProto]:
    if node.op_type == "Scatter":
        yield _with_operator(node, "ScatterElements", list(node.input))
    elif node.op_type == "Upsample" and version == 10:
        yield _with_operator(node, "Resize", list(node.input))
    elif node.op_type == "Upsample":
        resized = _with_operator(node, "Resize", [node.input[0], _EMPTY, node.input[1]])
        resized.attribute.extend(helper.make_attribute(name, value) for name, value in _AS_BEFORE.items())
        yield resized
    elif any(value in types for value in node.input) and not any(a.ref_attr_name for a in node.attribute):
        known = next(types[value] for value in node.input if value in types)  # all three have one element type
        yield from _body(node, [types.get(value, known) for value in node.input])
    else:
        yield node


def _with_operator(node: NodeProto, op_type: str, inputs: list[str]) -> NodeProto:
    result: NodeProto = NodeProto.FromString(node.SerializeToString())
    result.op_type = op_type
    result.input[:] = inputs
    return result


def _body(node: NodeProto, types: list[TypeProto]) -> Iterator[NodeProto]:
    """The nodes of ONNX's own function body, in the form of the opset that introduced it."""
    schema: Any = onnx.defs.get_schema(node.op_type, 18, "")  # the stubs lack its functions
    serialized_types = [type_.SerializeToString() for type_ in types]
    body = FunctionProto.FromString(schema.get_context_dependent_function(node.SerializeToString(), serialized_types))
    names = dict(zip((*body.input, *body.output), (*node.input, *node.output), strict=True))
    for inner in body.node:
        inner.input[:] = [names[value] for value in inner.input]
        for value in inner.output:
            names.setdefault(value, f"{node.output[0]}_{value}")
        inner.output[:] = [names[value] for value in inner.output]
        inner.name = f"{node.name or node.op_type}_{inner.output[0]}"
        yield inner
