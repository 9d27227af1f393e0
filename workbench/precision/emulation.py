"""A graph with copies of its operators that compute on rounded numbers: what a narrower type would give.

Beside each operator that runs in both types stand two copies. One reads the operator's own operands, rounded to the
type. The other reads what all operators before it give in the type: a second chain through the whole graph. Each copy
computes in float32 and its results are rounded. ONNX Runtime on a CPU runs float16 with float32 kernels too, but leaves
out the rounding between two of them, so its own run of a model in float16 has other errors. Only scalars that compare
the results are outputs, so a run keeps no value.

This is made of our graph and not of the exported file: it knows the operands of each operator that change their type,
channels-last forms too, and it renames what bodies capture. Weights stay where they are, and the run rounds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.ir import DataType, Graph, Node, TensorType
from workbench.precision.element_types import WIDE, FloatCall, NotConvertible, float_call

_PREFIX = "workbench_rounded"


@dataclass(frozen=True)
class ErrorScalars:
    """Two scalars that compare a result with the float32 one. Elements that are equal, or both NaN, differ by 0.

    largest: the largest |a - b| of the elements that are not NaN in one alone; infinite if one alone is infinite.
    has_nan: 1 if an element is NaN in one alone, else 0.
    Without elements, both are minus infinity.
    """

    largest: str
    has_nan: str


@dataclass(frozen=True)
class ComparedResult:
    """The names of the scalars about one float result of an operator.

    magnitude: the largest magnitude of its finite elements in float32.
    alone, cumulative: the difference where this operator runs in the type, and where all before it do too.
    """

    magnitude: str
    alone: ErrorScalars
    cumulative: ErrorScalars


@dataclass(frozen=True)
class Emulation:
    """graph: its outputs are the scalars. results: by operator of the original graph, those of its float results."""

    graph: Graph
    results: Mapping[str, tuple[ComparedResult, ...]]


def emulate(graph: Graph, narrow: DataType) -> Emulation:
    """The graph with the copies for a narrower type and the scalars that compare their results.

    Operators that run in float32 only, or in the type already, run as they are in the second chain.
    """
    return _Builder(graph, narrow).build()


class _Builder:
    def __init__(self, graph: Graph, narrow: DataType) -> None:
        self.graph, self.narrow = graph, narrow
        self.nodes: list[Node] = []
        self.rounded: dict[str, str] = {}  # by value: the value rounded to the type, in float32
        self.chain: dict[str, str] = {}  # by value of the graph: the value in the second chain, if it is another
        self.zero = ""
        self.scalars: list[str] = []

    def build(self) -> Emulation:
        results: dict[str, tuple[ComparedResult, ...]] = {}
        self.zero = self._add("Constant", value_float=0.0)
        for node in self.graph.nodes:
            self.nodes.append(node)
            call = self._call(node)
            if call is None:
                if not self.chain.keys().isdisjoint(node.operands):
                    self.chain.update(self._copy(node.with_values_renamed(self.chain)))
                continue
            compared = self._compare_copies(node, call)
            if compared:
                results[node.name] = compared
        types = {**self.graph.types, **dict.fromkeys(self.scalars, TensorType(WIDE, ()))}
        replaced = {"nodes": self.nodes, "outputs": self.scalars, "types": types}
        return Emulation(Graph(**self.graph.constructor_arguments | replaced), results)

    def _call(self, node: Node) -> FloatCall | None:
        """How the operator changes its type; None if it does not run in float32, or in float32 only."""
        try:
            call = float_call(self.graph, node, self.narrow)
        except NotConvertible:
            return None
        return call if call.dtype == WIDE else None

    def _compare_copies(self, node: Node, call: FloatCall) -> tuple[ComparedResult, ...]:
        own = self._operands(node.inputs, call)
        of_chain = self._operands([self.chain.get(value, value) for value in node.inputs], call)
        alone = self._in_type(node, call, own)
        cumulative = alone if of_chain == own else self._in_type(node, call, of_chain)
        self.chain.update(cumulative)
        compared = []
        for result in (node.outputs[index] for index in call.outputs):
            difference = self._difference(result, alone[result])
            is_same = cumulative[result] == alone[result]
            of_all = difference if is_same else self._difference(result, cumulative[result])
            compared.append(ComparedResult(self._magnitude(result), difference, of_all))
        return tuple(compared)

    def _operands(self, values: list[str] | tuple[str, ...], call: FloatCall) -> list[str]:
        return [self._round(value) if index in call.inputs else value for index, value in enumerate(values)]

    def _in_type(self, node: Node, call: FloatCall, operands: list[str]) -> dict[str, str]:
        """A copy of the operator on these operands, its float results rounded; by result, what stands for it."""
        results = self._copy(node.replace(inputs=tuple(operands)))
        for result in (node.outputs[index] for index in call.outputs):
            results[result] = self._round(results[result])
        return results

    def _copy(self, node: Node) -> dict[str, str]:
        """Add the node under new names; by result, the new one."""
        prefix = f"{_PREFIX}_{len(self.nodes)}"
        results = {value: f"{prefix}_{index}" for index, value in enumerate(node.outputs) if value}
        outputs = tuple(results.get(value, "") for value in node.outputs)
        self.nodes.append(node.replace(name=prefix, outputs=outputs))
        return results

    def _round(self, value: str) -> str:
        if value not in self.rounded:
            back = self._add("Cast", self._add("Cast", value, to=self.narrow.value), to=WIDE.value)
            self.rounded[value] = self.rounded[back] = back
        return self.rounded[value]

    def _difference(self, first: str, second: str) -> ErrorScalars:
        both_nan = self._add("And", self._add("IsNaN", first), self._add("IsNaN", second))
        equal = self._add("Or", self._add("Equal", first, second), both_nan)
        difference = self._add("Where", equal, self.zero, self._add("Abs", self._add("Sub", first, second)))
        is_nan = self._add("IsNaN", difference)  # the largest number is found without them: it may pass over a NaN
        largest = self._largest(self._add("Where", is_nan, self.zero, difference))
        return ErrorScalars(largest, self._largest(self._add("Cast", is_nan, to=WIDE.value)))

    def _magnitude(self, value: str) -> str:
        is_finite = self._add("Equal", self._add("Sub", value, value), self.zero)
        return self._largest(self._add("Where", is_finite, self._add("Abs", value), self.zero))

    def _largest(self, value: str) -> str:
        scalar = self._add("ReduceMax", value, keepdims=0)
        self.scalars.append(scalar)
        return scalar

    def _add(self, op: str, *inputs: str, **attributes: int | float) -> str:
        name = f"{_PREFIX}_{len(self.nodes)}"
        self.nodes.append(Node(op, inputs, (name,), attributes, name=name))
        return name
