"""Calls that are refused before shape inference sees them: those whose attributes are missing or of another type, and
those at which it ends the process.

Its C++ reads a first operand that is left out, a size after the last of a Split, and a dim before the first
(onnx 1.23: EyeLike, LabelEncoder, TreeEnsemble, Split, GatherND).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx
from onnx import AttributeProto, ModelProto, NodeProto

from workbench.io.checks import called
from workbench.io.errors import LoadError

_HOLDERS = {AttributeProto.TENSOR: "t", AttributeProto.GRAPH: "g", AttributeProto.SPARSE_TENSOR: "sparse_tensor"}


def check_calls(model: ModelProto, nodes: Iterable[NodeProto]) -> None:
    """Raise LoadError for a call that ONNX's shape inference does not survive, or whose attributes are of other types.

    nodes: all of the model.
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
            raise LoadError(f"{called(node)} has no first operand, without which it computes nothing; export it again")
        _check_attributes(node, attributes[key])
        _check_numbers(node)


def _attributes_of(domain: str, op: str, versions: Mapping[str, int]) -> Mapping[str, tuple[int, bool]]:
    """By name the number of the type of each attribute, and whether it must be there, of an operator onnx knows."""
    version = versions.get(domain, 1)
    if not onnx.defs.has(op, max_inclusive_version=version, domain=domain):
        return {}
    result = onnx.defs.get_schema(op, max_inclusive_version=version, domain=domain).attributes.items()
    return {name: (int(one.type.value), one.required) for name, one in result}  # type: ignore[attr-defined]


def _check_attributes(node: NodeProto, known: Mapping[str, tuple[int, bool]]) -> None:
    given = {attribute.name for attribute in node.attribute}
    missing = next((name for name, (_, required) in known.items() if required and name not in given), None)
    if missing is not None:
        raise LoadError(f"{called(node)} lacks the attribute '{missing}', which the operator needs; export it again")
    for attribute in node.attribute:
        _check_kind(node, attribute, known.get(attribute.name, (attribute.type, False))[0])


def _check_kind(node: NodeProto, attribute: AttributeProto, wanted: int) -> None:
    kind, names = attribute.type, AttributeProto.AttributeType
    if kind == AttributeProto.UNDEFINED or attribute.ref_attr_name:  # as in the oldest files; of a function's call
        return
    if kind != wanted:
        raise LoadError(
            f"{called(node)} has an attribute '{attribute.name}' of the type {names.Name(kind)}; the operator takes "
            f"{names.Name(wanted)}"
        )
    field = _HOLDERS.get(kind)
    if field is not None and not attribute.HasField(field):
        raise LoadError(f"{called(node)} has an attribute '{attribute.name}' without a value; export it again")


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
                f"{called(node)} has num_outputs={attribute.i} and {len(node.output)} outputs; make both the same"
            )
        if attribute.name == "batch_dims" and attribute.i < 0:
            raise LoadError(f"{called(node)} has batch_dims={attribute.i}; at least 0 can be computed")
