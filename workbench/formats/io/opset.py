"""Conversion to OPSET, for which all rules are written.

A call of ONNX's operators whose form or meaning changed is upgraded (`upgrades.py`), in bodies and functions too. One
that has no newer form is left as it is, in a domain of its own (`workbench.ir.versioned`), so that nothing takes it for
the operator of OPSET; all others are converted. Nodes of other domains are left alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import onnx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, helper

from workbench.analysis.inference.shapes import TypesOfFile
from workbench.errors import counted
from workbench.formats.io.checks import every_graph, every_node, is_early, node_text, opset_of
from workbench.formats.io.errors import LoadError
from workbench.formats.io.kernels import newest_opset
from workbench.formats.io.upgrades import CallScope, NoNewerForm, changes, upgraded
from workbench.formats.io.value_types import has_shape, with_plain_inference
from workbench.ir.from_proto import bodies
from workbench.ir.node import ONNX_DOMAINS
from workbench.ir.signature_changes import is_valid_unchanged
from workbench.ir.text import OPSET
from workbench.ir.versioned import versioned_domain

_RETURN_LESS = {"Dropout", "BatchNormalization"}  # a newer form lacks results that an older one has


def to_opset(
    model: ModelProto,
    nodes: Sequence[NodeProto],
    types: TypesOfFile,
    newest: int = OPSET,
    keep: Collection[str] = (),
) -> tuple[ModelProto, list[str]]:
    """The model at OPSET, or at `newest` if that is older, and warnings.

    A newer model keeps its opset. If ONNX Runtime lacks kernels at OPSET, or has different ones, the newest suitable
    opset is used. Calls that have no form there stay in their own.

    nodes: all nodes of the model. keep: operators whose calls stay in their own form although they have a newer one.
    """
    version = opset_of(model)
    if version == 0:
        return model, []
    target = version if version > OPSET else max(version, min(_target(model, nodes, version), newest))
    converted, reasons = _converted(model, nodes, target, types, keep)
    return converted, [*_newer_operators(nodes, version), *reasons.values()]


def at_opset(model: ModelProto, nodes: Sequence[NodeProto], target: int, types: TypesOfFile) -> ModelProto:
    """The model at a newer opset. Raises LoadError with the reason if a call has no form there."""
    converted, reasons = _converted(model, nodes, target, types)
    if reasons:
        raise LoadError(next(iter(reasons.values())))
    for graph in every_graph(converted):  # a file must not declare a tensor without a shape
        infos = GraphProto(value_info=[info for info in graph.value_info if has_shape(info)])
        del graph.value_info[:]
        graph.value_info.extend(infos.value_info)
    for output, declared in zip(converted.graph.output, model.graph.output, strict=True):
        output.type.CopyFrom(output.type if has_shape(output) else declared.type)
    return converted


def _target(model: ModelProto, nodes: Iterable[NodeProto], version: int) -> int:
    """OPSET, or the newest before it with the model's kernels, if rules know every operator's form there."""
    target = newest_opset(model, nodes, version, OPSET)
    if target == OPSET:
        return OPSET
    operators = {node.op_type for node in nodes if node.domain in ONNX_DOMAINS}
    known = all(is_valid_unchanged(op, target, OPSET) for op in operators if onnx.defs.has(op, target, ""))
    return target if known or target == 21 else OPSET


@dataclass
class _Conversion:
    """Data of one conversion.

    keep:    operators that stay in their own form.
    read:    values that are read, if an operator with fewer results is among the nodes.
    reasons: by operator that stays in its own form, a sentence.
    stays:   whether a call of the model's opset does.
    """

    version: int
    target: int
    keep: Collection[str]
    read: Collection[str]
    fresh: Callable[[str], str]
    reasons: dict[str, str] = field(default_factory=dict)
    stays: set[int] = field(default_factory=set)

    def concerns(self, node: NodeProto, version: int) -> bool:
        """Whether a call of this opset may have another form at the target, or is not valid."""
        if node.domain not in ONNX_DOMAINS or is_early(node, version):
            return False
        if changes(node.op_type, version, self.target) or _fault(node, version):
            return True
        return version > OPSET and _is_beyond(node, version)

    def calls(self, node: NodeProto, version: int, scope: CallScope) -> list[NodeProto]:
        """The node at the target, or in its own form."""
        call = NodeProto.FromString(node.SerializeToString())
        scope.constants.clear()
        try:
            if fault := _fault(node, version):
                raise NoNewerForm(fault)
            if version > OPSET:
                raise NoNewerForm(f"opset {OPSET}, for which passes are written, does not have it in this form")
            calls = upgraded(call, scope, version, self.target)
            if not {node.op_type, *(other.op_type for other in calls)}.intersection(self.keep):
                return [*scope.constants, *calls]
            reason = f"its newer form cannot be written at opset {version}"
        except NoNewerForm as error:
            reason = str(error)
        if onnx.defs.has(node.op_type, version, ""):  # else it is named among the unknown operators
            self.reasons.setdefault(
                node.op_type,
                f"operator '{node.op_type}' of {node_text(node)} stays in its form of opset {version}, which no pass "
                f"changes, and so does the file: {reason}",
            )
        self.stays.add(version)
        own: NodeProto = NodeProto.FromString(node.SerializeToString())
        own.domain = versioned_domain(version)
        return [own]


def _converted(
    model: ModelProto, nodes: Sequence[NodeProto], target: int, types: TypesOfFile, keep: Collection[str] = ()
) -> tuple[ModelProto, dict[str, str]]:
    """The model at the target, and a sentence for each operator that stays in its own form."""
    version = opset_of(model)
    operators = {node.op_type for node in nodes if node.domain in ONNX_DOMAINS}
    read = _read_values(model) if operators & _RETURN_LESS else ()
    conversion = _Conversion(version, target, keep, read, _fresh_names(model, types.nested))
    versions = {version, *(opset_of(function) or version for function in model.functions)}
    if version == target and not any(conversion.concerns(node, v) for node in nodes for v in versions):
        return model, {}
    result = with_plain_inference(model, types)
    _convert(result.graph, {}, {}, version, conversion, types.nested)
    for function in result.functions:
        of_function = opset_of(function) or version
        if of_function <= target:
            _convert(function, {}, {}, of_function, conversion, types.nested)
            _import_opset(function, target, conversion.stays & {of_function})
    _import_opset(result, target, conversion.stays & {version})
    result.ir_version = max(model.ir_version, 10)
    return result, conversion.reasons


def _convert(
    owner: GraphProto | FunctionProto,
    outer_types: Mapping[str, TypeProto],
    outer_tensors: Mapping[str, TensorProto],
    version: int,
    conversion: _Conversion,
    nested: bool,
) -> None:
    """Convert a graph or function and its bodies in place. outer_types, outer_tensors: of values that a body may
    capture. nested: whether nodes hold bodies."""
    all_nodes = list(owner.node)
    concerned = {index for index, node in enumerate(all_nodes) if conversion.concerns(node, version)}
    if not concerned and not nested:
        return
    types, tensors = {**outer_types, **dict(_types(owner))}, {**outer_tensors, **dict(_tensors(owner))}
    scope = CallScope(types, tensors, conversion.read, conversion.fresh)
    nodes: list[NodeProto] = []
    for index, node in enumerate(all_nodes):
        for attribute in node.attribute if nested else ():
            for body in bodies(attribute):
                _convert(body, types, tensors, version, conversion, nested)
        nodes += conversion.calls(node, version, scope) if index in concerned else [node]
    if concerned:
        copies = GraphProto(node=nodes)  # some nodes belong to the owner
        del owner.node[:]
        owner.node.extend(copies.node)


def _types(owner: GraphProto | FunctionProto) -> Iterator[tuple[str, TypeProto]]:
    ends = (*owner.output, *owner.input) if isinstance(owner, GraphProto) else ()
    yield from ((info.name, info.type) for info in (*ends, *owner.value_info))
    for tensor in owner.initializer if isinstance(owner, GraphProto) else ():
        yield tensor.name, helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))


def _tensors(owner: GraphProto | FunctionProto) -> Iterator[tuple[str, TensorProto]]:
    """The constants whose elements are in the message."""
    found = [] if isinstance(owner, FunctionProto) else [(tensor.name, tensor) for tensor in owner.initializer]
    constants = (node for node in owner.node if node.op_type == "Constant" and node.domain in ONNX_DOMAINS)
    found += [(node.output[0], a.t) for node in constants for a in node.attribute if a.name == "value"]
    yield from ((name, tensor) for name, tensor in found if tensor.data_location != TensorProto.EXTERNAL)


def _read_values(model: ModelProto) -> frozenset[str]:
    """The values that a node reads, or that a graph or function returns."""
    read = {value for node in every_node(model) for value in node.input}
    read.update(value.name for graph in every_graph(model) for value in graph.output)
    read.update(value for function in model.functions for value in function.output)
    return frozenset(read - {""})


def _fresh_names(model: ModelProto, nested: bool) -> Callable[[str], str]:
    """A function that returns a name that no value has. nested: whether nodes hold bodies."""

    @cache
    def taken() -> set[str]:
        names = {value for node in every_node(model) for value in node.output}
        for graph in every_graph(model, nested):
            names.update(value.name for value in graph.input)
            names.update(tensor.name for tensor in graph.initializer)
        return names.union(value for function in model.functions for value in function.input)

    def fresh(base: str) -> str:
        names = itertools.chain([base], (f"{base}_{number}" for number in itertools.count(1)))
        name = next(name for name in names if name not in taken())
        taken().add(name)
        return name

    return fresh


def _import_opset(message: ModelProto | FunctionProto, target: int, own: Iterable[int]) -> None:
    """own: opsets in whose form calls stay."""
    others = [o for o in message.opset_import if o.domain not in ONNX_DOMAINS]
    imports = [helper.make_opsetid("", target), *(helper.make_opsetid(versioned_domain(v), v) for v in own), *others]
    del message.opset_import[:]
    message.opset_import.extend(imports)


def _fault(node: NodeProto, version: int) -> str:
    """What is not valid in a call of an operator that this opset defines, "it ..."; "" if it is valid."""
    signature = _signature(node.op_type, version)
    if signature is None:
        return ""
    attributes, least, most = signature
    unknown = next((a.name for a in node.attribute if a.name not in attributes), None)
    if unknown is not None:
        return f"it has the attribute '{unknown}', which the operator does not have there"
    if not least <= len(node.input) <= most:
        return f"it has {counted(len(node.input), 'operand')}, which the operator does not take there"
    return ""


@cache
def _signature(op_type: str, version: int) -> tuple[frozenset[str], int, int] | None:
    """The names of attributes, and the least and the largest number of operands."""
    if not onnx.defs.has(op_type, version, ""):
        return None
    schema = onnx.defs.get_schema(op_type, version, "")
    return frozenset(schema.attributes), schema.min_input, schema.max_input


def _is_beyond(node: NodeProto, version: int) -> bool:
    """Whether a call of an opset after OPSET says more than the operator's form in OPSET can."""
    if not onnx.defs.has(node.op_type, OPSET, "") or not onnx.defs.has(node.op_type, version, ""):
        return False
    known, newer = onnx.defs.get_schema(node.op_type, OPSET, ""), onnx.defs.get_schema(node.op_type, version, "")
    if known.since_version == newer.since_version:
        return False
    added = [a for a in node.attribute if a.name not in known.attributes and a.name in newer.attributes]
    if any(a.ref_attr_name or a != newer.attributes[a.name].default_value for a in added):
        return True
    return any(node.input[known.max_input :]) or any(node.output[known.max_output :])


def _newer_operators(nodes: Iterable[NodeProto], version: int) -> list[str]:
    """A sentence for each operator that OPSET lacks."""
    results: dict[str, str] = {}
    for node in nodes if version > OPSET else ():
        if node.domain in ONNX_DOMAINS and _is_newer(node.op_type, version):
            results[node.op_type] = (
                f"operator '{node.op_type}' of node '{node.name}' has a newer form in opset {version} "
                f"than in {OPSET}, for which the passes are written; they do not change it"
            )
    return list(results.values())


def _is_newer(op_type: str, version: int) -> bool:
    return bool(onnx.defs.has(op_type, version, "")) and not is_valid_unchanged(op_type, OPSET, version)
