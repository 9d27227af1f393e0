"""A graph with copies of its operators that compute on rounded numbers: what a narrower type would give.

Beside each operator that runs in both types stand two copies. One reads the operator's own operands, rounded to the
type. The other reads what all operators before it give in the type: a second chain through the whole graph. Each copy
computes in float32 and its results are rounded; a `Rounding` says which values, and how. ONNX Runtime on a CPU runs
float16 with float32 kernels too, but leaves out the rounding between two of them, so its own run of a model in float16
has other errors. Only scalars that compare the results are outputs, so a run keeps no value.

This is made of our graph and not of the exported file: it knows the operands of each operator that change their type,
channels-last forms too, and it renames what bodies capture. Weights stay where they are, and the run rounds them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from workbench.ir import Graph, Node, TensorType, ValueType, constant_type
from workbench.planning.precision.element_types import WIDE, FloatCall, dtype_of
from workbench.planning.precision.rounding import NewNodes, Rounding

_PREFIX = "workbench_rounded"
_SCALAR = TensorType(WIDE, ())


@dataclass(frozen=True)
class ComparedResult:
    """The names of the scalars about one float result of an operator; without elements, each is minus infinity.

    magnitude: the largest magnitude of its finite elements in float32, of the part that counts.
    alone, cumulative: the largest |a - b| of its elements in float32, and where this operator runs in the type, or all
               before it do too. Equal elements differ by 0, and so do two NaN; NaN if an element is NaN in one alone.
               alone is None for an operator that stays as it is.
    """

    magnitude: str
    alone: str | None
    cumulative: str


@dataclass(frozen=True)
class Emulation:
    """graph: its outputs are the scalars. results: by operator of the original graph, those of its float results.

    An operator that stays as it is has some only if the rounding asks for outputs, of which it gives one.
    """

    graph: Graph
    results: Mapping[str, tuple[ComparedResult, ...]]


def emulate(graph: Graph, rounding: Rounding) -> Emulation:
    """The graph with the copies for a narrower type and the scalars that compare their results.

    Operators that the rounding leaves as they are run so in the second chain too.
    """
    return _Builder(graph, rounding).build()


class _Builder(NewNodes):
    def __init__(self, graph: Graph, rounding: Rounding) -> None:
        super().__init__(_PREFIX)
        self.graph, self.rounding = graph, rounding
        self.rounded: dict[str, str] = {}  # by value: the value rounded to the type, in float32
        self.chain: dict[str, str] = {}  # by value of the graph: the value in the second chain, if it is another
        self.scalars: list[str] = []
        self.types: dict[str, ValueType] = dict(graph.types)

    def build(self) -> Emulation:
        results: dict[str, tuple[ComparedResult, ...]] = {}
        for node in self.graph.nodes:
            self.nodes.append(node)
            self._round_shared(value for value in node.operands if value not in self.chain)
            call = self.rounding.call(self.graph, node)
            if call is not None:
                compared = self._compare_copies(node, call)
                self._round_shared(node.outputs)
            else:
                compared = self._compare_outputs(node)
            if compared:
                results[node.name] = compared
        types = {**self.types, **dict.fromkeys(self.scalars, _SCALAR)}
        constants = {**self.graph.constants, **self.constants}
        replaced = {"nodes": self.nodes, "outputs": self.scalars, "types": types, "constants": constants}
        return Emulation(Graph(**self.graph.constructor_arguments | replaced), results)

    def _round_shared(self, values: Iterable[str]) -> None:
        """Round those of the values in the second chain that all readers get rounded."""
        for value in filter(self.rounding.is_shared, values):
            self.chain[value] = self._round(self.chain.get(value, value), value)

    def _compare_outputs(self, node: Node) -> tuple[ComparedResult, ...]:
        """Add the operator to the second chain; what its results lose that are float outputs of the graph."""
        if not self.chain.keys().isdisjoint(node.operands):
            self.chain.update(self._copy(node.with_values_renamed(self.chain)))
        self._round_shared(node.outputs)
        given = [value for value in node.outputs if self.graph.is_output(value) and value in self.chain]
        floats = [value for value in given if dtype_of(self.graph, value) == WIDE]
        return tuple(
            ComparedResult(self._magnitude(value), None, self._difference(value, self.chain[value]))
            for value in floats
            if self.rounding.compares_outputs
        )

    def _compare_copies(self, node: Node, call: FloatCall) -> tuple[ComparedResult, ...]:
        """Add both copies of the operator; where they read the same values, they are one."""
        own = self._operands(node, node.inputs, call)
        of_chain = self._operands(node, [self.chain.get(value, value) for value in node.inputs], call)
        alone = self._in_type(node, call, own)
        cumulative = alone if of_chain == own else self._in_type(node, call, of_chain)
        self.chain.update(cumulative)
        compared = []
        for result in (node.outputs[index] for index in call.outputs):
            counts = self.rounding.part_that_counts(self, result)
            difference = self._difference(counts, alone[result])
            is_same = cumulative[result] == alone[result]
            of_all = difference if is_same else self._difference(counts, cumulative[result])
            compared.append(ComparedResult(self._magnitude(counts), difference, of_all))
        return tuple(compared)

    def _operands(self, node: Node, values: Sequence[str], call: FloatCall) -> list[str]:
        """values: what stands for the operands of the node."""
        pairs = enumerate(zip(values, node.inputs, strict=True))
        return [self._round(value, of) if index in call.inputs else value for index, (value, of) in pairs]

    def _in_type(self, node: Node, call: FloatCall, operands: list[str]) -> dict[str, str]:
        """A copy of the operator on these operands, its float results rounded; by result, what stands for it."""
        results = self._copy(node.replace(inputs=tuple(operands)))
        for result in (node.outputs[index] for index in call.outputs):
            results[result] = self._round(results[result], result)
        return results

    def _copy(self, node: Node) -> dict[str, str]:
        """Add the node under new names; by result, the new one."""
        prefix = f"{_PREFIX}_{len(self.nodes)}"
        results = {value: f"{prefix}_{index}" for index, value in enumerate(node.outputs) if value}
        outputs = tuple(results.get(value, "") for value in node.outputs)
        self.types.update({new: self.types[value] for value, new in results.items() if value in self.types})
        self.nodes.append(node.replace(name=prefix, outputs=outputs))
        return results

    def _round(self, value: str, of: str) -> str:
        if value not in self.rounded:
            back = self.rounding.round(self, value, of)
            self.rounded[value] = self.rounded[back] = back
            tensor = self.graph.constant(value)
            type_ = self.types.get(value) if tensor is None else constant_type(tensor)
            if type_ is not None:
                self.types[back] = type_
        return self.rounded[value]

    def _difference(self, first: str, second: str) -> str:
        difference = self.add("Sub", first, second)
        total = self.add("ReduceSum", difference, keepdims=0)
        return self._largest(difference, total, _Branch().difference(first, second))

    def _magnitude(self, value: str) -> str:
        total = self.add("ReduceSum", value, keepdims=0)
        return self._largest(value, self.add("Sub", total, total), _Branch().magnitude(value))

    def _largest(self, value: str, total: str, exact: Graph) -> str:
        """The largest magnitude of a value; what `exact` gives if the scalar is NaN, as the sum of such elements is."""
        plain = _Branch()
        quick = plain.add("Max", plain.reduce("ReduceMax", value), plain.add("Neg", plain.reduce("ReduceMin", value)))
        branches = {"then_branch": exact, "else_branch": plain.body(quick)}
        self.scalars.append(self.add("If", self.add("IsNaN", total), **branches))
        return self.scalars[-1]


class _Branch(NewNodes):
    """The body of a branch, which captures the values that it reads.

    A maximum may pass over a NaN, so it is found without them. That takes several times as long as a plain maximum.
    """

    def __init__(self) -> None:
        super().__init__(f"{_PREFIX}_inner")

    def difference(self, first: str, second: str) -> Graph:
        both_nan = self.add("And", self.add("IsNaN", first), self.add("IsNaN", second))
        equal = self.add("Or", self.add("Equal", first, second), both_nan)
        zero = self.add("Constant", value_float=0.0)
        difference = self.add("Where", equal, zero, self.add("Abs", self.add("Sub", first, second)))
        is_nan = self.add("IsNaN", difference)
        largest = self.reduce("ReduceMax", self.add("Where", is_nan, zero, difference))
        has_nan = self.reduce("ReduceMax", self.add("Cast", is_nan, to=WIDE.value))
        nan = self.add("Constant", value_float=math.nan)
        return self.body(self.add("Where", self.add("Greater", has_nan, zero), nan, largest))

    def magnitude(self, value: str) -> Graph:
        zero = self.add("Constant", value_float=0.0)
        is_finite = self.add("Equal", self.add("Sub", value, value), zero)
        finite = self.add("Where", is_finite, self.add("Abs", value), zero)
        return self.body(self.reduce("ReduceMax", finite))

    def reduce(self, op: str, value: str) -> str:
        return self.add(op, value, keepdims=0)

    def body(self, output: str) -> Graph:
        return Graph(nodes=self.nodes, outputs=(output,), types={output: _SCALAR})
