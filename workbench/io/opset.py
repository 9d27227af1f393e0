"""Conversion to OPSET, for which all rules are written, by ONNX's version converter.

The converter copies its input and drops functions, metadata and external data. Therefore it gets only nodes whose
operators have another signature or semantics at OPSET.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
    version_converter,
)

from workbench.inference.shapes import TypesOfFile
from workbench.io.checks import every_graph, every_node, opset_of
from workbench.io.errors import LoadError
from workbench.io.kernels import newest_opset
from workbench.io.legacy_operators import drop_saved_statistics, mark_training, put_back, set_aside
from workbench.io.signature_changes import is_valid_unchanged
from workbench.ir.from_proto import bodies
from workbench.ir.text import OPSET

_CHANGED_MEANINGS = {"GroupNormalization", "Scan", "Resize", "Upsample"}
_CHANGED_DEFAULTS = {"Upsample", "Resize", "RoiAlign"}
_UPSAMPLED = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}  # before opset 11
_Known = ValueInfoProto | TensorProto  # a message with a value's type
_CONVERTER_ERRORS = (RuntimeError, ValueError, version_converter.ConvertError)


def to_opset(
    model: ModelProto, nodes: Sequence[NodeProto], types: TypesOfFile, newest: int = OPSET
) -> tuple[ModelProto, list[str]]:
    """The model at OPSET, or at `newest` if that is older, and warnings.

    A newer model, or one that cannot be converted, keeps its opset. If ONNX Runtime lacks kernels at OPSET, or has
    different ones, the newest suitable opset is used.

    nodes: all nodes of the model.
    """
    version = opset_of(model)
    if version > OPSET:
        return model, _newer_forms(model, version)
    target = min(_target(model, nodes, version), newest)
    if version == 0 or version >= target:
        return model, []
    try:
        return at_opset(model, nodes, target, types), []
    except LoadError as error:
        return model, [f"the model stays at opset {version}, since it cannot be converted to {target}: {error}"]


def at_opset(model: ModelProto, nodes: Sequence[NodeProto], target: int, types: TypesOfFile) -> ModelProto:
    """The model at a newer opset. Raises LoadError with the reason if it cannot be converted."""
    known, early_nodes = set_aside(model, nodes)
    operators = {node.op_type for node in (every_node(known) if early_nodes else nodes)}
    try:
        converted = _converted(known, operators, opset_of(model), target, types)
        put_back(converted, early_nodes)
        return converted
    except _NotConverted as error:
        reason = str(error)
    except onnx.shape_inference.InferenceError as error:  # a declared type contradicts a computed one
        reason = _last_line(error)
    except _CONVERTER_ERRORS as error:
        reason = _culprit(model, target) or _last_line(error)
    raise LoadError(reason)


def _target(model: ModelProto, nodes: Iterable[NodeProto], version: int) -> int:
    """OPSET, or the newest before it with the model's kernels, if rules know every operator's form there."""
    target = newest_opset(model, nodes, version, OPSET)
    if target == OPSET:
        return OPSET
    operators = {node.op_type for node in nodes if node.domain in ("", "ai.onnx")}
    known = all(is_valid_unchanged(op, target, OPSET) for op in operators if onnx.defs.has(op, target, ""))
    return target if known or target == 21 else OPSET


class _NotConverted(ValueError):
    """A call or function has no equivalent at the target opset; the message says why."""


def _converted(
    model: ModelProto, operators: Collection[str], version: int, target: int, types: TypesOfFile
) -> ModelProto:
    if not _CHANGED_MEANINGS.isdisjoint(operators):
        _refuse_changed_meanings(model, version, target)
    functions = [_function_at(f, version, target) for f in model.functions]
    result = _with_infos(model, types)
    changed = frozenset(op for op in operators if not is_valid_unchanged(op, version, target))
    taken = frozenset(_values(model.graph, types.nested))
    conversion = _Conversion(list(result.opset_import), target, changed, taken, types.nested, itertools.count())
    if version < 13:
        for graph in every_graph(result):
            _flatten_hardmax(graph, conversion)
    trains = version < 14 <= target and "BatchNormalization" in operators
    if trains:
        drop_saved_statistics(result)
    _convert_graph(result.graph, {}, conversion)
    if trains:
        mark_training(result)
    if not _CHANGED_DEFAULTS.isdisjoint(operators):
        _keep_old_defaults(model, result, version)
    del result.functions[:]
    result.functions.extend(functions)
    _import_opset(result, target)
    result.ir_version = 10
    return result


def _with_infos(model: ModelProto, types: TypesOfFile) -> ModelProto:
    """A copy with the types of its values, as far as known."""
    if types.infos is None:
        return onnx.shape_inference.infer_shapes(model)
    result = ModelProto()
    result.CopyFrom(model)
    del result.graph.value_info[:]
    result.graph.value_info.extend(types.infos)
    return result


@dataclass(frozen=True)
class _Conversion:
    """Data of one conversion.

    changed: operators whose calls need conversion. taken: the names of all values. nested: whether nodes hold bodies.
    """

    imports: Sequence[onnx.OperatorSetIdProto]
    target: int
    changed: Collection[str]
    taken: Collection[str]
    nested: bool
    numbers: Iterator[int]

    def concerns(self, node: NodeProto) -> bool:
        return node.op_type in self.changed and node.domain in ("", "ai.onnx")

    def new_name(self, op_type: str) -> str:
        names = (f"{op_type}_opset{OPSET}_{number}" for number in self.numbers)
        return next(name for name in names if name not in self.taken)


def _convert_graph(graph: GraphProto, outside: Mapping[str, _Known], conversion: _Conversion) -> None:
    """Convert the graph and its bodies in place. outside: types of values that a body may capture.

    The converter gets only calls that need conversion.
    """
    types = {**outside, **{t.name: t for t in graph.initializer}}
    types.update((i.name, i) for i in (*graph.input, *graph.value_info, *graph.output))
    all_nodes = list(graph.node)
    to_convert = [node for node in all_nodes if conversion.concerns(node)]
    converted = _convert(to_convert, graph, types, conversion)
    nodes: list[NodeProto] = []
    for node in all_nodes:
        if conversion.concerns(node):
            nodes += _next_replacement(node, converted, conversion)
            continue
        for attribute in node.attribute if conversion.nested else ():
            for body in bodies(attribute):
                _convert_graph(body, types, conversion)
        nodes.append(node)
    if to_convert:
        _replace_nodes(graph, nodes)


def _convert(
    nodes: list[NodeProto], graph: GraphProto, types: Mapping[str, _Known], conversion: _Conversion
) -> Iterator[NodeProto]:
    """The converted nodes with those that the converter inserts. The converter gets the constants that they use."""
    read = dict.fromkeys(value for node in nodes for value in node.input if value)
    computed = dict.fromkeys(value for node in nodes for value in node.output if value)
    constants = [t for t in graph.initializer if t.name in read and t.data_location != TensorProto.EXTERNAL]
    constant_nodes = [node for node in graph.node if node.op_type == "Constant" and read.keys() & set(node.output)]
    known = {*computed, *(t.name for t in constants), *(value for node in constant_nodes for value in node.output)}
    changed_graph = helper.make_graph(
        [*constant_nodes, *nodes],
        "changed",
        [_info(value, types) for value in read if value not in known],
        [_info(value, types) for value in computed],
        constants,
    )
    model = helper.make_model(changed_graph, opset_imports=conversion.imports, ir_version=8)
    converted = version_converter.convert_version(model, conversion.target).graph
    new = {t.name: t for t in converted.initializer if t.name not in known}
    for node in list(converted.node)[len(constant_nodes) :]:
        yield from (helper.make_node("Constant", [], [v], value=new.pop(v)) for v in list(node.input) if v in new)
        yield node


def _next_replacement(node: NodeProto, converted: Iterator[NodeProto], conversion: _Conversion) -> Iterator[NodeProto]:
    """The next converted nodes, up to those with the node's outputs; intermediate values are renamed."""
    missing_outputs = set(filter(None, node.output))
    renamed: dict[str, str] = {}
    while missing_outputs:
        new = next(converted)
        new.input[:] = [renamed.get(value, value) for value in new.input]
        for index, value in enumerate(new.output):
            if value and value not in missing_outputs:
                renamed[value] = new.output[index] = conversion.new_name(new.op_type)
        missing_outputs -= set(new.output)
        yield new


def _info(value: str, types: Mapping[str, _Known]) -> ValueInfoProto:
    known = types.get(value)
    if isinstance(known, TensorProto):
        return helper.make_tensor_value_info(value, known.data_type, list(known.dims))
    return ValueInfoProto(name=value) if known is None else known


def _replace_nodes(graph: GraphProto, nodes: Sequence[NodeProto]) -> None:
    del graph.node[:]
    graph.node.extend(nodes)


def _import_opset(message: ModelProto | FunctionProto, target: int) -> None:
    others = [o for o in message.opset_import if o.domain not in ("", "ai.onnx")]
    del message.opset_import[:]
    message.opset_import.extend([helper.make_opsetid("", target), *others])


# Corrections of the converter's errors, which tests found by comparing each operator with ONNX Runtime.


def _refuse_changed_meanings(model: ModelProto, version: int, target: int) -> None:
    numbers = {t.name: t for graph in every_graph(model) for t in graph.initializer}
    constants = (node for node in every_node(model) if node.op_type == "Constant")
    numbers.update((node.output[0], a.t) for node in constants for a in node.attribute if a.name == "value")
    for node in every_node(model):
        _refuse_changed_meaning(node, version, target, numbers)


def _refuse_changed_meaning(node: NodeProto, version: int, target: int, numbers: dict[str, TensorProto]) -> None:
    """Raise _NotConverted for a call without an equivalent in opset 23 that the converter would keep unchanged."""
    attributes = {a.name: a for a in node.attribute}
    if node.op_type == "GroupNormalization" and version < 21 <= target:
        reason = "scales groups in the model's opset, and channels in newer ones"
    elif node.op_type == "Scan" and version < 9 <= target:
        reason = "has a batch axis in the model's opset"
    elif node.op_type == "Resize" and version < 13 and _mode(attributes) == b"tf_half_pixel_for_nn":
        reason = "has a coordinate mode that was removed since"
    elif node.op_type in ("Resize", "Upsample") and version < 11 and not _enlarges(node, attributes, numbers):
        reason = "shrinks images, with a rounding that only opset 10 has"
    else:
        return
    raise _NotConverted(f"operator '{node.op_type}' of node '{node.name}' {reason}")


def _enlarges(node: NodeProto, attributes: dict[str, onnx.AttributeProto], numbers: dict[str, TensorProto]) -> bool:
    mode, scales = attributes.get("mode"), attributes.get("scales")
    if mode is not None and mode.s != b"nearest":
        return True
    if scales is not None:
        return all(scale >= 1 for scale in scales.floats)
    scale_tensor = numbers.get(node.input[1])
    return scale_tensor is not None and bool((numpy_helper.to_array(scale_tensor) >= 1).all())


def _mode(attributes: dict[str, onnx.AttributeProto]) -> bytes:
    result = attributes.get("coordinate_transformation_mode")
    return b"" if result is None else result.s


def _flatten_hardmax(graph: GraphProto, conversion: _Conversion) -> None:
    """Flatten the axes from `axis` on, as Hardmax did before opset 13; the converter does that for Softmax only."""
    nodes: list[NodeProto] = []
    for node in graph.node:
        if node.op_type != "Hardmax" or node.domain not in ("", "ai.onnx"):
            nodes.append(node)
            continue
        (x,), (y,) = node.input, node.output
        axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
        shape, flat, result = (conversion.new_name(op) for op in ("Shape", "Flatten", "Hardmax"))
        nodes += [
            helper.make_node("Shape", [x], [shape]),
            helper.make_node("Flatten", [x], [flat], axis=axis),
            helper.make_node("Hardmax", [flat], [result], name=node.name, axis=1),
            helper.make_node("Reshape", [result, shape], [y]),
        ]
    if len(nodes) > len(graph.node):
        _replace_nodes(graph, nodes)


def _keep_old_defaults(before: ModelProto, after: ModelProto, version: int) -> None:
    """Add attributes that did not exist before or had another default, with their old meaning."""
    old_defaults = {
        tuple(node.output): {"Upsample": _UPSAMPLED, "Resize": _UPSAMPLED if version < 11 else {}}.get(node.op_type, {})
        for node in every_node(before)
    }
    if version < 16:
        roi = {"coordinate_transformation_mode": "output_half_pixel"}
        old_defaults.update({tuple(node.output): roi for node in every_node(before) if node.op_type == "RoiAlign"})
    for node in every_node(after):
        present = {a.name for a in node.attribute}
        for name, value in old_defaults.get(tuple(node.output), {}).items():
            if name not in present and node.op_type in ("Resize", "RoiAlign"):
                node.attribute.append(helper.make_attribute(name, value))


def _values(graph: GraphProto, nested: bool) -> Iterator[str]:
    yield from (i.name for i in graph.input)
    yield from (t.name for t in graph.initializer)
    for node in graph.node:
        yield from node.output
        for attribute in node.attribute if nested else ():
            for body in bodies(attribute):
                yield from _values(body, nested)


def _function_at(function: FunctionProto, model_version: int, target: int) -> FunctionProto:
    """The function at opset `target`. Raises _NotConverted if that is not possible."""
    result = FunctionProto()
    result.CopyFrom(function)
    version = opset_of(function) or model_version
    changed = [
        n for n in function.node if n.domain in ("", "ai.onnx") and not is_valid_unchanged(n.op_type, version, target)
    ]
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
    _import_opset(result, target)
    return result


def _newer_forms(model: ModelProto, version: int) -> list[str]:
    """A sentence for each operator that OPSET lacks, or has in another form."""
    warnings = {}
    for node in every_node(model):
        if node.domain not in ("", "ai.onnx") or is_valid_unchanged(node.op_type, OPSET, version):
            continue
        if onnx.defs.has(node.op_type, max_inclusive_version=version, domain=""):
            warnings[node.op_type] = (
                f"operator '{node.op_type}' of node '{node.name}' has a newer form in opset {version} "
                f"than in {OPSET}, for which the passes are written; they do not change it"
            )
    return list(warnings.values())


def _culprit(model: ModelProto, target: int) -> str | None:
    """The first node that the converter rejects, as a sentence; None if it converts each node alone."""
    typed = onnx.shape_inference.infer_shapes(model)
    types = {i.name: i for i in (*typed.graph.value_info, *typed.graph.input, *typed.graph.output)}
    constants = {t.name: t for t in model.graph.initializer}
    for node in model.graph.node:
        single = _single_node_model(node, types, constants)
        single.opset_import.extend(model.opset_import)
        try:
            version_converter.convert_version(single, target)
        except _CONVERTER_ERRORS as error:
            return f"operator '{node.op_type}' of node '{node.name}' has no conversion ({_last_line(error)})"
    return None


def _single_node_model(node: NodeProto, types: dict[str, Any], constants: dict[str, Any]) -> ModelProto:
    operands = list(dict.fromkeys(v for v in node.input if v))
    graph = helper.make_graph(
        [node],
        "one",
        [types.get(v, onnx.ValueInfoProto(name=v)) for v in operands if v not in constants],
        [types.get(v, onnx.ValueInfoProto(name=v)) for v in node.output if v],
        [constants[v] for v in operands if v in constants],
    )
    return ModelProto(ir_version=10, graph=graph)


def _last_line(error: Exception) -> str:
    """ONNX's message without source locations."""
    line = next((x.strip() for x in reversed(str(error).splitlines()) if x.strip()), type(error).__name__)
    return line.split("failed: ", 1)[-1].rstrip(".")
