"""One opset for every rule: the model is brought to OPSET by ONNX's own version converter.

The converter copies everything it is given and forgets functions, metadata and
external data, so it gets the model without weights, and what it loses is put back.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, version_converter

from workbench.ir.text import OPSET
from workbench.load.checks import every_graph, every_node, every_tensor, opset_of

# Operators whose meaning changed while their attributes and inputs stayed as they were.
_SAME_FORM_OTHER_MEANING = {"GroupNormalization": 21, "Upsample": 10}
_FILLED = b"weight "


def to_opset(model: ModelProto) -> tuple[ModelProto, list[str]]:
    """The model at OPSET, and warnings. A newer one, or one that cannot be converted, keeps its own opset."""
    version = opset_of(model)
    if version in (0, OPSET):
        return model, []
    if version > OPSET:
        return model, _newer_forms(model, version)
    try:
        return _converted(model, version), []
    except _NotConverted as error:
        reason = str(error)
    except (RuntimeError, ValueError) as error:  # the converter's ConvertError is a RuntimeError
        reason = _culprit(model) or _last_line(error)
    return model, [f"the model stays at opset {version}, for it cannot be brought to {OPSET}: {reason}"]


class _NotConverted(ValueError):
    pass


def _converted(model: ModelProto, version: int) -> ModelProto:
    bare = ModelProto()
    bare.CopyFrom(model)
    del bare.functions[:]
    for graph in every_graph(bare):
        del graph.value_info[:]
    bare.ir_version = max(bare.ir_version, 8)
    holes = _fill_holes(bare)
    result = version_converter.convert_version(bare, OPSET)
    _make_holes(result, holes)
    result.ir_version = bare.ir_version
    _put_back_metadata(model, result)
    _rename_new_values(result.graph, set(_values(model.graph)), {}, [0])
    result.functions.extend(_function_at(f, version) for f in model.functions)
    return result


def _fill_holes(model: ModelProto) -> list[TensorProto]:
    """External tensors become ones that hold their own number, which the converter carries along."""
    holes = []
    for tensor in every_tensor(model):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        hole = TensorProto()
        hole.CopyFrom(tensor)
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")
        tensor.raw_data = _FILLED + str(len(holes)).encode()
        holes.append(hole)
    return holes


def _make_holes(model: ModelProto, holes: list[TensorProto]) -> None:
    for tensor in every_tensor(model):
        if not tensor.raw_data.startswith(_FILLED):
            continue
        hole = holes[int(tensor.raw_data[len(_FILLED) :])]
        tensor.ClearField("raw_data")
        tensor.external_data.extend(hole.external_data)
        tensor.data_location = TensorProto.EXTERNAL


def _put_back_metadata(before: ModelProto, after: ModelProto) -> None:
    told = {tuple(node.output): node for node in every_node(before)}
    for node in every_node(after):
        former = told.get(tuple(node.output))
        if former is None or former.op_type != node.op_type:
            continue
        del node.metadata_props[:]
        node.metadata_props.extend(former.metadata_props)
        node.overload = former.overload
    del after.metadata_props[:]
    after.metadata_props.extend(before.metadata_props)
    after.producer_name = before.producer_name


def _values(graph: GraphProto) -> Iterable[str]:
    yield from (i.name for i in graph.input)
    yield from (t.name for t in graph.initializer)
    for node in graph.node:
        yield from node.output
        for attribute in node.attribute:
            for body in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _values(body)


def _rename_new_values(graph: GraphProto, old: set[str], outside: dict[str, str], count: list[int]) -> None:
    """The converter numbers the values it makes anew in each body; a model's names must differ throughout."""
    names = dict(outside)
    for node in graph.node:
        for index, value in enumerate(node.input):
            node.input[index] = names.get(value, value)
        for attribute in node.attribute:
            for body in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                _rename_new_values(body, old, names, count)
        for index, value in enumerate(node.output):
            if not value or value in old:
                continue
            while (name := f"{node.op_type}_opset{OPSET}_{count[0]}") in old:
                count[0] += 1
            count[0] += 1
            names[value] = node.output[index] = name
    for output in graph.output:
        output.name = names.get(output.name, output.name)
    for info in graph.value_info:
        info.name = names.get(info.name, info.name)


def _function_at(function: FunctionProto, model_version: int) -> FunctionProto:
    """The function at OPSET. Raises _NotConverted where that takes more than another number."""
    result = FunctionProto()
    result.CopyFrom(function)
    version = opset_of(function) or model_version
    changed = [n for n in function.node if n.domain in ("", "ai.onnx") and not _same_form(n.op_type, version, OPSET)]
    if changed and any(a.ref_attr_name for node in function.node for a in node.attribute):
        raise _NotConverted(
            f"operator '{changed[0].op_type}' in function '{function.name}' has another form since opset {version}"
        )
    if changed:
        graph = helper.make_graph(
            list(function.node),
            function.name,
            [onnx.ValueInfoProto(name=name) for name in function.input],
            [onnx.ValueInfoProto(name=name) for name in function.output],
        )
        body = helper.make_model(graph, opset_imports=function.opset_import, ir_version=10)
        try:
            converted = version_converter.convert_version(body, OPSET)
        except (RuntimeError, ValueError) as error:
            raise _NotConverted(f"function '{function.name}': {_last_line(error)}") from None
        del result.node[:]
        result.node.extend(converted.graph.node)
    others = [o for o in function.opset_import if o.domain not in ("", "ai.onnx")]
    del result.opset_import[:]
    result.opset_import.extend([helper.make_opsetid("", OPSET), *others])
    return result


def _same_form(op_type: str, old: int, new: int) -> bool:
    """May a call written for opset `old` stand as it is in opset `new`?"""
    try:
        before, after = onnx.defs.get_schema(op_type, old, ""), onnx.defs.get_schema(op_type, new, "")
    except onnx.defs.SchemaError:
        return False
    if before.since_version == after.since_version:
        return True
    if old < _SAME_FORM_OTHER_MEANING.get(op_type, 0) <= new or after.deprecated:
        return False
    inputs = [i.name for i in before.inputs], [i.name for i in after.inputs]
    kept = all(
        name in after.attributes
        and after.attributes[name].type == attribute.type
        and after.attributes[name].default_value == attribute.default_value
        for name, attribute in before.attributes.items()
    )
    added = [a for name, a in after.attributes.items() if name not in before.attributes]
    return (
        kept
        and not any(a.required for a in added)
        and inputs[1][: len(inputs[0])] == inputs[0]
        and after.min_input <= before.min_input
        and len(after.outputs) >= len(before.outputs)
    )


def _newer_forms(model: ModelProto, version: int) -> list[str]:
    """A sentence for each operator that OPSET has not, or has in another form."""
    warnings = {}
    for node in every_node(model):
        if node.domain not in ("", "ai.onnx") or _same_form(node.op_type, OPSET, version):
            continue
        if onnx.defs.has(node.op_type, max_inclusive_version=version, domain=""):
            warnings[node.op_type] = (
                f"operator '{node.op_type}' of node '{node.name}' has a newer form in opset {version} "
                f"than in {OPSET}, for which the passes are written; they leave it alone"
            )
    return list(warnings.values())


def _culprit(model: ModelProto) -> str | None:
    """Which node the converter refuses, found by giving it one node at a time."""
    typed = onnx.shape_inference.infer_shapes(model)
    types = {i.name: i for i in (*typed.graph.value_info, *typed.graph.input, *typed.graph.output)}
    constants = {t.name: t for t in model.graph.initializer}
    for node in model.graph.node:
        alone = _alone(node, types, constants)
        alone.opset_import.extend(model.opset_import)
        try:
            version_converter.convert_version(alone, OPSET)
        except (RuntimeError, ValueError) as error:
            return f"operator '{node.op_type}' of node '{node.name}' has no conversion ({_last_line(error)})"
    return None


def _alone(node: NodeProto, types: dict, constants: dict) -> ModelProto:
    given = list(dict.fromkeys(v for v in node.input if v))
    graph = helper.make_graph(
        [node],
        "one",
        [types.get(v, onnx.ValueInfoProto(name=v)) for v in given if v not in constants],
        [types.get(v, onnx.ValueInfoProto(name=v)) for v in node.output if v],
        [constants[v] for v in given if v in constants],
    )
    return ModelProto(ir_version=10, graph=graph)


def _last_line(error: Exception) -> str:
    """ONNX's message without the place in its source."""
    line = next((x.strip() for x in reversed(str(error).splitlines()) if x.strip()), type(error).__name__)
    return line.split("failed: ", 1)[-1].rstrip(".")
