"""One opset for every rule: the model is brought to OPSET by ONNX's own version converter.

The converter copies everything it is given and forgets functions, metadata and
external data, so it gets the model without weights, and what it loses is put back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper, version_converter

from workbench.ir.from_proto import bodies
from workbench.ir.text import OPSET
from workbench.loading.checks import every_graph, every_node, every_tensor, opset_of, reads
from workbench.loading.early import put_back, set_aside
from workbench.loading.forms import MAY_MEAN_SOMETHING_ELSE, same_form, stands
from workbench.loading.kernels import newest_opset

_HAD_OTHER_DEFAULTS = {"Upsample", "Resize", "RoiAlign"}
_UPSAMPLED = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}  # before opset 11
_CONVERTER_ERRORS = (RuntimeError, ValueError, version_converter.ConvertError)
_FILLED = b"weight "
_BODY_DOMAIN = "node with bodies"


def to_opset(model: ModelProto) -> tuple[ModelProto, list[str]]:
    """The model at OPSET, and warnings. A newer one, or one that cannot be converted, keeps its own opset.

    A model that ONNX Runtime runs at an older opset only, or there with other kernels, goes to that one.
    """
    version = opset_of(model)
    if version > OPSET:
        return model, _newer_forms(model, version)
    target = _target(model, version)
    if version == 0 or version >= target:
        return model, []
    known, aside = set_aside(model)
    try:
        converted = _converted(known, version, target)
        put_back(converted, aside)
        return converted, []
    except _NotConverted as error:
        reason = str(error)
    except _CONVERTER_ERRORS as error:
        reason = _culprit(model, target) or _last_line(error)
    return model, [f"the model stays at opset {version}, for it cannot be brought to {target}: {reason}"]


def _target(model: ModelProto, version: int) -> int:
    """OPSET, or the newest before it with the kernels that the model has, if rules know every operator's form there."""
    target = newest_opset(model, version, OPSET)
    if target == OPSET:
        return OPSET
    operators = {node.op_type for node in every_node(model) if node.domain in ("", "ai.onnx")}
    known = all(same_form(op, target, OPSET) for op in operators if onnx.defs.has(op, target, ""))
    return target if known or target == 21 else OPSET


class _NotConverted(ValueError):
    pass


def _converted(model: ModelProto, version: int, target: int) -> ModelProto:
    operators = {node.op_type for node in every_node(model)}
    if operators & MAY_MEAN_SOMETHING_ELSE:
        _refuse_other_meanings(model, version, target)
    bare = onnx.shape_inference.infer_shapes(model)
    if version < 13:
        for graph in every_graph(bare):
            _spell_out_hardmax(graph)
    del bare.functions[:]
    holes = _fill_holes(bare)
    graph = _graph_at(bare.graph, bare.opset_import, {}, version, target)
    others = [o for o in model.opset_import if o.domain not in ("", "ai.onnx")]
    result = helper.make_model(graph, opset_imports=[helper.make_opsetid("", target), *others], ir_version=10)
    if holes:
        _make_holes(result, holes)
    _put_back_rest(model, result)
    _rename_new_values(result.graph, set(_values(model.graph)), {}, [0])
    if operators & _HAD_OTHER_DEFAULTS:
        _keep_old_defaults(model, result, version)
    result.functions.extend(_function_at(f, version, target) for f in model.functions)
    return result


def _graph_at(
    graph: GraphProto, imports: Sequence[onnx.OperatorSetIdProto], outside: dict, version: int, target: int
) -> GraphProto:
    """The graph at opset `target`. `outside`: the types of values that a body may capture.

    Bodies are converted by themselves, what they capture as typed inputs, and
    their nodes stand meanwhile as calls of an unknown domain: in a body the
    converter stumbles over values from outside. Where it would change nothing
    it is not called, for it takes 15 ms whatever it gets, and models have many bodies.
    """
    types = {**outside, **{t.name: _type_of(t) for t in graph.initializer}}
    types.update((i.name, i) for i in (*graph.input, *graph.value_info, *graph.output))
    alone = GraphProto()
    alone.CopyFrom(graph)
    if all(stands(node, version, target) for node in alone.node):
        for node in alone.node:
            for body in (body for attribute in node.attribute for body in bodies(attribute)):
                body.CopyFrom(_graph_at(body, imports, types, version, target))
        return alone
    waiting: list[tuple[NodeProto, list[str]]] = []
    for node in alone.node:
        found = [body for attribute in node.attribute for body in bodies(attribute)]
        if not found:
            continue
        captured = list(dict.fromkeys(reads(node)))[len(set(filter(None, node.input))) :]
        for body in found:
            body.CopyFrom(_graph_at(body, imports, types, version, target))
        kept = NodeProto()
        kept.CopyFrom(node)
        node.CopyFrom(helper.make_node(str(len(waiting)), [*node.input, *captured], node.output, domain=_BODY_DOMAIN))
        waiting.append((kept, captured))
    made = {v for node in alone.node for v in node.output} | {i.name for i in alone.input}
    made |= {t.name for t in alone.initializer}
    read = dict.fromkeys([*(v for n in alone.node for v in n.input if v), *(o.name for o in alone.output)])
    own = len(alone.input)
    alone.input.extend(types.get(v, onnx.ValueInfoProto(name=v)) for v in read if v not in made)
    whole = helper.make_model(alone, opset_imports=[*imports, helper.make_opsetid(_BODY_DOMAIN, 1)], ir_version=8)
    result = version_converter.convert_version(whole, target).graph
    del result.input[own:]
    for node in result.node:
        if node.domain == _BODY_DOMAIN:
            kept, captured = waiting[int(node.op_type)]
            _reconnect(kept, captured, node)
            node.CopyFrom(kept)
    return result


def _type_of(tensor: TensorProto) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))


def _reconnect(kept: NodeProto, captured: Sequence[str], placeholder: NodeProto) -> None:
    """The node with bodies reads what the converter left in its placeholder's inputs."""
    count = len(kept.input)
    kept.input[:] = placeholder.input[:count]
    names = {old: new for old, new in zip(captured, placeholder.input[count:], strict=True) if old != new}
    if names:
        for attribute in kept.attribute:
            for body in bodies(attribute):
                _rename_new_values(body, set(_values(body)), names, [0])


# What the converter gets wrong: checked against ONNX Runtime, operator by operator, in the tests.


def _refuse_other_meanings(model: ModelProto, version: int, target: int) -> None:
    numbers = {t.name: t for graph in every_graph(model) for t in graph.initializer}
    constants = (node for node in every_node(model) if node.op_type == "Constant")
    numbers.update((node.output[0], a.t) for node in constants for a in node.attribute if a.name == "value")
    for node in every_node(model):
        _refuse_other_meaning(node, version, target, numbers)


def _refuse_other_meaning(node: NodeProto, version: int, target: int, numbers: dict[str, TensorProto]) -> None:
    """Raise _NotConverted for a call that opset 23 has no equal of, and that the converter would take over as it is."""
    attributes = {a.name: a for a in node.attribute}
    if node.op_type == "GroupNormalization" and version < 21 <= target:
        reason = "scales groups there, and channels here"
    elif node.op_type == "Scan" and version < 9 <= target:
        reason = "has a batch axis there"
    elif node.op_type == "Resize" and version < 13 and _mode(attributes) == b"tf_half_pixel_for_nn":
        reason = "has a coordinate mode that is gone since"
    elif node.op_type in ("Resize", "Upsample") and version < 11 and not _enlarges(node, attributes, numbers):
        reason = "makes images smaller, for which opset 10 has a rounding of its own"
    else:
        return
    raise _NotConverted(f"operator '{node.op_type}' of node '{node.name}' {reason}")


def _enlarges(node: NodeProto, attributes: dict[str, onnx.AttributeProto], numbers: dict[str, TensorProto]) -> bool:
    mode, scales = attributes.get("mode"), attributes.get("scales")
    if mode is not None and mode.s != b"nearest":
        return True
    if scales is not None:
        return all(scale >= 1 for scale in scales.floats)
    given = numbers.get(node.input[1])
    return given is not None and bool((numpy_helper.to_array(given) >= 1).all())


def _mode(attributes: dict[str, onnx.AttributeProto]) -> bytes:
    found = attributes.get("coordinate_transformation_mode")
    return b"" if found is None else found.s


def _spell_out_hardmax(graph: GraphProto) -> None:
    """Before opset 13 Hardmax took the axes from `axis` on as one; the converter knows that of Softmax only."""
    nodes: list[NodeProto] = []
    for node in graph.node:
        if node.op_type != "Hardmax" or node.domain not in ("", "ai.onnx"):
            nodes.append(node)
            continue
        (x,), (y,) = node.input, node.output
        axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
        nodes += [
            helper.make_node("Shape", [x], [f"{y}/shape"]),
            helper.make_node("Flatten", [x], [f"{y}/flat"], axis=axis),
            helper.make_node("Hardmax", [f"{y}/flat"], [f"{y}/hardmax"], name=node.name, axis=1),
            helper.make_node("Reshape", [f"{y}/hardmax", f"{y}/shape"], [y]),
        ]
    if len(nodes) == len(graph.node):
        return
    copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def _keep_old_defaults(before: ModelProto, after: ModelProto, version: int) -> None:
    """Attributes that were not there, or had another default, get the value that they meant."""
    meant = {
        tuple(node.output): {"Upsample": _UPSAMPLED, "Resize": _UPSAMPLED if version < 11 else {}}.get(node.op_type, {})
        for node in every_node(before)
    }
    if version < 16:
        roi = {"coordinate_transformation_mode": "output_half_pixel"}
        meant.update({tuple(node.output): roi for node in every_node(before) if node.op_type == "RoiAlign"})
    for node in every_node(after):
        given = {a.name for a in node.attribute}
        for name, value in meant.get(tuple(node.output), {}).items():
            if name not in given and node.op_type in ("Resize", "RoiAlign"):
                node.attribute.append(helper.make_attribute(name, value))


def _fill_holes(model: ModelProto) -> list[TensorProto]:
    """External tensors become ones that hold their own number, which the converter carries along."""
    holes: list[TensorProto] = []
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


def _put_back_rest(before: ModelProto, after: ModelProto) -> None:
    overloads = {tuple(node.output): node.overload for node in every_node(before) if node.overload}
    for node in every_node(after) if overloads else ():
        node.overload = overloads.get(tuple(node.output), "")
    del after.metadata_props[:]
    after.metadata_props.extend(before.metadata_props)
    after.producer_name = before.producer_name


def _values(graph: GraphProto) -> Iterator[str]:
    yield from (i.name for i in graph.input)
    yield from (t.name for t in graph.initializer)
    for node in graph.node:
        yield from node.output
        for attribute in node.attribute:
            for body in bodies(attribute):
                yield from _values(body)


def _rename_new_values(graph: GraphProto, old: set[str], outside: dict[str, str], count: list[int]) -> None:
    """The converter numbers the values it makes anew in each body; a model's names must differ throughout."""
    names = dict(outside)
    for node in graph.node:
        node.input[:] = [names.get(value, value) for value in node.input]
        for attribute in node.attribute:
            for body in bodies(attribute):
                _rename_new_values(body, old, names, count)
        for index, value in enumerate(node.output):
            if not value or value in old:
                continue
            while (name := f"{node.op_type}_opset{OPSET}_{count[0]}") in old:
                count[0] += 1
            count[0] += 1
            names[value] = node.output[index] = name
    for info in (*graph.output, *graph.value_info):
        info.name = names.get(info.name, info.name)


def _function_at(function: FunctionProto, model_version: int, target: int) -> FunctionProto:
    """The function at opset `target`. Raises _NotConverted where that takes more than another number."""
    result = FunctionProto()
    result.CopyFrom(function)
    version = opset_of(function) or model_version
    changed = [n for n in function.node if n.domain in ("", "ai.onnx") and not same_form(n.op_type, version, target)]
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
            converted = version_converter.convert_version(body, target)
        except _CONVERTER_ERRORS as error:
            raise _NotConverted(f"function '{function.name}': {_last_line(error)}") from None
        del result.node[:]
        result.node.extend(converted.graph.node)
    others = [o for o in function.opset_import if o.domain not in ("", "ai.onnx")]
    del result.opset_import[:]
    result.opset_import.extend([helper.make_opsetid("", target), *others])
    return result


def _newer_forms(model: ModelProto, version: int) -> list[str]:
    """A sentence for each operator that OPSET has not, or has in another form."""
    warnings = {}
    for node in every_node(model):
        if node.domain not in ("", "ai.onnx") or same_form(node.op_type, OPSET, version):
            continue
        if onnx.defs.has(node.op_type, max_inclusive_version=version, domain=""):
            warnings[node.op_type] = (
                f"operator '{node.op_type}' of node '{node.name}' has a newer form in opset {version} "
                f"than in {OPSET}, for which the passes are written; they leave it alone"
            )
    return list(warnings.values())


def _culprit(model: ModelProto, target: int) -> str | None:
    """Which node the converter refuses, found by giving it one node at a time."""
    typed = onnx.shape_inference.infer_shapes(model)
    types = {i.name: i for i in (*typed.graph.value_info, *typed.graph.input, *typed.graph.output)}
    constants = {t.name: t for t in model.graph.initializer}
    for node in model.graph.node:
        alone = _alone(node, types, constants)
        alone.opset_import.extend(model.opset_import)
        try:
            version_converter.convert_version(alone, target)
        except _CONVERTER_ERRORS as error:
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
