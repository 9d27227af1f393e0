"""Nodes that two files have in common: on operands that are equal, the same node computes the same.

It is the files that are compared, as ONNX Runtime reads them, and not what this program makes of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto, TensorProto, defs, numpy_helper
from onnx.external_data_helper import ExternalDataInfo, uses_external_data

from workbench.ir.signature_changes import is_valid_unchanged
from workbench.run.inner_values.rounding import Values
from workbench.support.reachability import reachable

_DEFAULT_DOMAINS = ("", "ai.onnx")
_SIZES = ("Shape", "Size")
_CLOSE = 1e-5  # relative: parameters that differ by less are the same, rounded
_PAD_VALUE = 2  # the place of that operand of a Pad; behind it are axes
_READ_INTEGERS = (  # operators whose integer operands are numbers, each with its zero point
    *("QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"),
    *("Add", "Sub", "Mul", "Div", "Where", "Equal", "Less", "Greater"),
)
# Of an operator that never reads them in inference, or only in a mode that says so.
_WITHOUT_EFFECT = ("momentum", "seed", "ratio", "cubic_coeff_a", "extrapolation_value")


class ModelStructure:
    """The nodes, constants and versions of a model's file. Weights that lie in other files are read when compared."""

    def __init__(self, model: onnx.ModelProto, file: str) -> None:
        self.folder = Path(file).resolve().parent
        self.nodes = [node for node in model.graph.node if node.op_type != "Constant"]
        self.producers = {value: node for node in self.nodes for value in node.output if value}
        self.constants = {tensor.name: tensor for tensor in model.graph.initializer}
        for node in model.graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self.constants[node.output[0]] = node.attribute[0].t
        self.opsets: dict[str, int] = {_domain(entry.domain): entry.version for entry in model.opset_import}
        self.functions = {
            (_domain(function.domain), function.name, function.overload): function.SerializeToString(deterministic=True)
            for function in model.functions
        }

    def opset(self, node: NodeProto) -> int:
        """The version of the node's domain."""
        return self.opsets.get(_domain(node.domain), 1)

    def function(self, node: NodeProto) -> bytes | None:
        """The function that the node calls."""
        return self.functions.get((_domain(node.domain), node.op_type, node.overload))

    def array(self, value: str) -> np.ndarray:
        """The elements of a constant."""
        return numpy_helper.to_array(self.constants[value], str(self.folder))

    @cached_property
    def weighted(self) -> set[str]:
        """The results of nodes with a constant of two axes or more: products with weights, most of them."""
        return {
            value
            for node in self.nodes
            if any(value in self.constants and len(self.constants[value].dims) > 1 for value in node.input)
            for value in node.output
        }

    def leads_to(self, value: str, end: str, without: Collection[str]) -> bool:
        """Whether a value is computed from another, by way of none of those."""
        return end in self._results_from(value, without)

    def ends_of(self, value: str, known: Collection[str]) -> list[str]:
        """The first known values that are computed from a value, not from its sizes alone, by way of unknown ones."""
        return [result for result in self._results_from(value, known) if result in known]

    def _results_from(self, value: str, known: Collection[str]) -> dict[str, None]:
        """All values that are computed from a value, by way of none that is known."""

        def results_of(value: str) -> list[str]:
            nodes = [node for node in self._readers.get(value, ()) if node.op_type not in _SIZES]
            return [result for node in nodes for result in node.output if result]

        return dict.fromkeys(reachable(results_of(value), lambda one: () if one in known else results_of(one)))

    @cached_property
    def _readers(self) -> Mapping[str, list[NodeProto]]:
        readers = defaultdict(list)
        for node in self.nodes:
            for value in dict.fromkeys((*node.input, *_captured(node))):
                readers[value].append(node)
        return readers


class CommonNodes:
    """The nodes of a model that another has too, by the names of their results."""

    def __init__(self, first: ModelStructure, second: ModelStructure) -> None:
        self._first, self._second = first, second
        self._equal_constants: dict[tuple[str, str], bool] = {}

    def is_same(self, value: str, known: Mapping[str, str]) -> bool:
        """Whether the second model's node of this value is in the first too, on equal operands.

        known: values of the second model that are equal to one of the first, which is named.
        """
        pair = self._pair(value)
        return pair is not None and self._is_same(*pair, lambda a, b: known.get(a) == b)

    def is_same_but_for_one(self, value: str, known: Mapping[str, str]) -> bool:
        """The same on operands of the same names, of which one is not equal."""
        pair = self._pair(value)
        if pair is None:
            return False
        other = {v for v in pair[0].input if v and v not in self._second.constants and known.get(v) != v}
        return len(other) == 1 and self._is_same(*pair, lambda a, b: known.get(a) == b or (a in other and a == b))

    def _is_same(self, node: NodeProto, other: NodeProto, is_same_value: Callable[[str, str], bool]) -> bool:
        if self._first.function(other) != self._second.function(node):
            return False
        operands = zip(node.input, other.input, strict=True)
        if not all(is_same_value(a, b) or (not a and not b) or self._are_equal(a, b) for a, b in operands):
            return False
        return _attributes(node) == _attributes(other) and all(is_same_value(v, v) for v in _captured(node))

    def is_twin(self, value: str, known: Mapping[str, str]) -> bool:
        """The same, but for constants and attributes, which may differ."""
        pair = self._pair(value)
        if pair is None:
            return False
        first, second = self._first.constants, self._second.constants
        operands = zip(pair[0].input, pair[1].input, strict=True)
        return all(known.get(a) == b or (not a and not b) or (a in second and b in first) for a, b in operands)

    def _pair(self, value: str) -> tuple[NodeProto, NodeProto] | None:
        """The nodes of the second and of the first model that compute the value; None if they are other operators."""
        node, other = self._second.producers.get(value), self._first.producers.get(value)
        if node is None or other is None or node.op_type != other.op_type or len(node.input) != len(other.input):
            return None
        places = list(node.output).index(value), list(other.output).index(value)
        return (node, other) if places[0] == places[1] and self._mean_the_same(node, other) else None

    def _mean_the_same(self, node: NodeProto, other: NodeProto) -> bool:
        """Whether the operators are of one domain, and did not change between the versions of the two models."""
        if _domain(node.domain) != _domain(other.domain):
            return False
        old, new = sorted((self._first.opset(other), self._second.opset(node)))
        return old == new or (not _domain(node.domain) and is_valid_unchanged(node.op_type, old, new))

    def _are_equal(self, value: str, other: str) -> bool:
        """Whether a constant of the second model has the bits of one of the first."""
        if value not in self._second.constants or other not in self._first.constants:
            return False
        if (value, other) not in self._equal_constants:
            here, there = self._second.constants[value], self._first.constants[other]
            is_same = here.data_type == there.data_type and list(here.dims) == list(there.dims)
            self._equal_constants[value, other] = is_same and self._have_same_bits(here, there)
        return self._equal_constants[value, other]

    def _have_same_bits(self, here: TensorProto, there: TensorProto) -> bool:
        if uses_external_data(here) and uses_external_data(there):
            a, b = ExternalDataInfo(here), ExternalDataInfo(there)
            if (self._second.folder / a.location, a.offset) == (self._first.folder / b.location, b.offset):
                return True
        found = numpy_helper.to_array(here, str(self._second.folder))
        right = numpy_helper.to_array(there, str(self._first.folder))
        return found.dtype == right.dtype and found.tobytes() == right.tobytes()

    def other_parameter(self, value: str) -> str:
        """The parameter by which the node of a value differs from its twin, in words; "" if only rounding does."""
        pair = self._pair(value)
        assert pair is not None
        node, other = pair
        has_no_value = _pads_with_own_elements(node)
        operands = node.input[:_PAD_VALUE] if has_no_value else node.input
        for name in dict.fromkeys(v for v in operands if v in other.input and v in self._second.constants):
            difference = self._of_constants(name, _holds_numbers(node, name))
            if difference:
                return f"its constant '{name}' differs in {difference}"
        here, there = (_floats(one) for one in pair)
        for name in sorted({*here, *there} - {*_WITHOUT_EFFECT, *(["value"] if has_no_value else [])}):
            numbers = tuple(floats.get(name, _default(one, name)) for floats, one in ((here, node), (there, other)))
            if not math.isclose(*numbers, rel_tol=_CLOSE):
                return f"its {name} is {numbers[0]:g}, and {numbers[1]:g} in the original"
        return ""

    def _of_constants(self, name: str, with_integers: bool) -> str:
        found, right = self._second.array(name), self._first.array(name)
        if found.shape != right.shape or found.dtype != right.dtype:
            return ""
        if found.dtype.kind in "fV":
            found, right = found.astype(np.float64), right.astype(np.float64)
            wrong = ~np.isclose(found, right, rtol=_CLOSE, atol=0, equal_nan=True)
        elif with_integers:
            wrong = found != right
        else:
            return ""
        if not wrong.any():
            return ""
        place = np.unravel_index(int(wrong.argmax()), wrong.shape)
        at = [int(index) for index in place]
        count = f"{np.count_nonzero(wrong):,} of {wrong.size:,} elements"
        return f"{count}, such as {found[place]:.6g} in place of {right[place]:.6g} at {at}"


def _holds_numbers(node: NodeProto, constant: str) -> bool:
    """Whether integers of the constant become elements of the result: of a table, or quantized.

    Others are sizes, axes and places, which can be written in several ways.
    """
    return (node.op_type.startswith("Gather") and node.input[0] == constant) or node.op_type in _READ_INTEGERS


def _pads_with_own_elements(node: NodeProto) -> bool:
    """Whether it is a Pad that fills with elements of its operand, and so reads no value."""
    modes = [attribute.s for attribute in node.attribute if attribute.name == "mode"]
    return node.op_type == "Pad" and modes not in ([], [b"constant"])


def unseen_branches(first: ModelStructure, second: ModelStructure, runs: Sequence[Values]) -> list[str]:
    """Branches of the second model's Ifs that no run took and that the first has otherwise, by node and attribute.

    runs: inputs, outputs and recorded values of the second model. A condition that is in none of them says nothing.
    """
    results = []
    for node in second.nodes:
        other = first.producers.get(node.output[0])
        if node.op_type != "If" or other is None or other.op_type != "If":
            continue
        taken = {bool(np.all(run[node.input[0]])) for run in runs if node.input[0] in run}
        if len(taken) != 1:
            continue
        unseen = "else_branch" if True in taken else "then_branch"
        if _branch(node, unseen) != _branch(other, unseen):
            results.append(f"{unseen} of If '{node.name or node.output[0]}'")
    return results


def _branch(node: NodeProto, name: str) -> list[bytes]:
    """What a branch computes: its nodes, without their names and notes, and its constants."""
    graph = next((attribute.g for attribute in node.attribute if attribute.name == name), onnx.GraphProto())
    results = [tensor.SerializeToString(deterministic=True) for tensor in graph.initializer]
    for inner in graph.node:
        copy = NodeProto.FromString(inner.SerializeToString())
        for field in ("name", "doc_string", "metadata_props"):
            copy.ClearField(field)
        results.append(copy.SerializeToString(deterministic=True))
    return results


def _domain(name: str) -> str:
    return "" if name in _DEFAULT_DOMAINS else name


def _attributes(node: NodeProto) -> dict[str, bytes]:
    return {attribute.name: attribute.SerializeToString(deterministic=True) for attribute in node.attribute}


def _captured(node: NodeProto) -> set[str]:
    """Values that bodies of the node read from outside."""
    return {value for a in node.attribute if a.type == AttributeProto.GRAPH for value in _read_by(a.g)}


def _read_by(graph: onnx.GraphProto) -> set[str]:
    inside = {i.name for i in (*graph.input, *graph.initializer)} | {v for node in graph.node for v in node.output}
    return {v for node in graph.node for v in (*node.input, *_captured(node)) if v} - inside


def _floats(node: NodeProto) -> dict[str, float]:
    return {attribute.name: attribute.f for attribute in node.attribute if attribute.type == AttributeProto.FLOAT}


def _default(node: NodeProto, name: str) -> float:
    if not defs.has(node.op_type, _domain(node.domain)):
        return 0.0
    attribute = defs.get_schema(node.op_type, _domain(node.domain)).attributes.get(name)
    return 0.0 if attribute is None else attribute.default_value.f
