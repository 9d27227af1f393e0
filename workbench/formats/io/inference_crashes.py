"""Refuses calls before shape inference: with attributes that are missing or of another type, or that crash the process.

ONNX's shape inference, in C++, reads out of bounds: a first operand that is omitted, a size after the last of a Split,
or a dim before the first (onnx 1.23: EyeLike, LabelEncoder, TreeEnsemble, Split, GatherND).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx
from onnx import AttributeProto, ModelProto, NodeProto

from workbench.formats.io.checks import node_text
from workbench.formats.io.errors import LoadError

_HOLDERS = {AttributeProto.TENSOR: "t", AttributeProto.GRAPH: "g", AttributeProto.SPARSE_TENSOR: "sparse_tensor"}


def check_calls(model: ModelProto, nodes: Iterable[NodeProto]) -> None:
    """Raise LoadError for a call that crashes ONNX's shape inference, or with attributes of other types.

    nodes: all nodes of the model.
    """
    needs_first: dict[tuple[str, str], bool] = {}
    attributes: dict[tuple[str, str], Mapping[str, tuple[int, bool]]] = {}
    versions = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}
    for node in nodes:
        key = ("" if node.domain == "ai.onnx" else node.domain, node.op_type)
        if key not in needs_first:
            needs_first[key] = _needs_first_operand(*key, versions)
            attributes[key] = _attributes_of(*key, versions)
        if needs_first[key] and not (node.input and node.input[0]):
            raise LoadError(
                f"{node_text(node)} has no first operand, without which it computes nothing; export it again"
            )
        _check_attributes(node, attributes[key])
        _check_numbers(node)


def _attributes_of(domain: str, op: str, versions: Mapping[str, int]) -> Mapping[str, tuple[int, bool]]:
    """For each attribute of an operator that onnx defines, its type's number and whether it is required; else empty."""
    version = versions.get(domain, 1)
    if not onnx.defs.has(op, max_inclusive_version=version, domain=domain):
        return {}
    result = onnx.defs.get_schema(op, max_inclusive_version=version, domain=domain).attributes.items()
    return {name: (int(attribute.type.value), attribute.required) for name, attribute in result}  # type: ignore[attr-defined]


def _check_attributes(node: NodeProto, known: Mapping[str, tuple[int, bool]]) -> None:
    present = {attribute.name for attribute in node.attribute}
    missing = next((name for name, (_, required) in known.items() if required and name not in present), None)
    if missing is not None:
        raise LoadError(f"{node_text(node)} lacks the attribute '{missing}', which the operator needs; export it again")
    for attribute in node.attribute:
        _check_kind(node, attribute, known.get(attribute.name, (attribute.type, False))[0])


def _check_kind(node: NodeProto, attribute: AttributeProto, expected: int) -> None:
    kind, names = attribute.type, AttributeProto.AttributeType
    if kind == AttributeProto.UNDEFINED or attribute.ref_attr_name:  # in the oldest files; in functions
        return
    if kind != expected:
        raise LoadError(
            f"{node_text(node)} has an attribute '{attribute.name}' of the type {names.Name(kind)}; the operator takes "
            f"{names.Name(expected)}"
        )
    field = _HOLDERS.get(kind)
    if field is not None and not attribute.HasField(field):
        raise LoadError(f"{node_text(node)} has an attribute '{attribute.name}' without a value; export it again")


def _needs_first_operand(domain: str, op: str, versions: dict[str, int]) -> bool:
    version = versions.get(domain, 1)
    if not onnx.defs.has(op, max_inclusive_version=version, domain=domain):
        return False
    inputs = onnx.defs.get_schema(op, max_inclusive_version=version, domain=domain).inputs
    return bool(inputs) and inputs[0].option == onnx.defs.OpSchema.FormalParameterOption.Single


def _check_numbers(node: NodeProto) -> None:
    if node.op_type not in ("Split", "GatherND") or node.domain not in ("", "ai.onnx"):
        return
    for attribute in node.attribute:
        if attribute.name == "num_outputs" and attribute.i != len(node.output):
            raise LoadError(
                f"{node_text(node)} has num_outputs={attribute.i} and {len(node.output)} outputs; make both the same"
            )
        if attribute.name == "batch_dims" and attribute.i < 0:
            raise LoadError(f"{node_text(node)} has batch_dims={attribute.i}; at least 0 can be computed")
