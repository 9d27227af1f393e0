"""The edit that replaces a region by a selection from an e-graph."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from workbench.analysis.inference.evaluate import CannotEvaluate, evaluate
from workbench.ir import Constant, Edit, Graph, Node, TensorType, ValueType, constant
from workbench.planning.saturation.exact_numbers import MINUS_ZERO
from workbench.planning.saturation.extraction import Selection
from workbench.planning.saturation.regions import AlgebraicRegion
from workbench.planning.saturation.saturating import EGraph, ENode
from workbench.rewrite.core.rule import NoMatch
from workbench.rewrite.core.value_types import inferred_types, with_inferred_types


def edit_for(region: AlgebraicRegion, egraph: EGraph, free: Mapping[int, ENode], chosen: Selection) -> Edit:
    """The edit. Unchanged operators stay the same nodes; new ones take over the names of removed ones.

    free: the e-nodes to take for e-classes that are constant.
    Raises NoMatch if a constant is not finite, or a result would have another type.
    """
    build = _Builder(region, egraph, free)
    for eclass, option in chosen.items():
        build.add(eclass, option.node)
    return build.edit()


class _Builder:
    """value_of: by e-class that is built, the name of its value. results: the region's results by e-class.

    kept, unused: operators of the region that stay, and those that nothing has matched yet.
    """

    def __init__(self, region: AlgebraicRegion, egraph: EGraph, free: Mapping[int, ENode]) -> None:
        self.region, self.egraph, self.free = region, egraph, free
        self.graph: Graph = region.graph
        self.value_of: dict[int, str] = {}
        self.constants: dict[str, Constant] = {}
        self.kept: list[Node] = []
        self.new: list[Node] = []
        self.unused = list(region.nodes)
        self.results: dict[int, list[str]] = {}
        for index in region.results:
            self.results.setdefault(egraph.eclass_of[index], []).append(region.values[index])
        scalars = [index for index in region.numbers if self.graph.rank_of(region.values[index]) == 0]
        self.scalars = {region.numbers[index]: region.values[index] for index in scalars}

    def add(self, eclass: int, node: ENode) -> None:
        """Build the e-class as this e-node, whose operands are built or are leaves."""
        if node.operator in ("Value", "Num") or eclass in self.free:
            self._value(eclass)
            return
        operands = tuple(map(self._value, node.operands))
        result_names = self.results.get(eclass, [])
        matches = (
            candidate
            for candidate in self.unused
            if candidate.op == node.operator and all(map(self._is_built_as, candidate.inputs, node.operands))
        )
        match = next(
            (candidate for candidate in matches if not result_names or candidate.outputs[0] in result_names), None
        )
        if match is not None:
            self.unused.remove(match)
            self.kept.append(match)
            self.value_of[eclass] = match.outputs[0]
            return
        name = result_names[0] if result_names else self._fresh(node.operator.lower())
        self.value_of[eclass] = name
        self.new.append(Node(node.operator, operands, (name,)))

    def _is_built_as(self, value: str, eclass: int) -> bool:
        """Whether the e-class is built as this value of the region, or is the same number."""
        number = self.region.numbers.get(self.region.index_of[value])
        return self._value(eclass) == value if number is None else self.egraph.numbers.get(eclass) == number

    def edit(self) -> Edit:
        replaced: dict[str, str] = {}
        for eclass, results in self.results.items():
            source = self._value(eclass)
            for result in results:
                if result == source:
                    continue
                if self.graph.is_output(result) and (
                    self.graph.is_output(source) or self.graph.producer(source) is None or source in self.constants
                ):
                    self.new.append(Node("Identity", (source,), (result,)))
                else:
                    replaced[result] = source
        edit = Edit(tuple(node.name for node in self.unused), self._named(), replaced, self.constants)
        self._refuse_other_types(edit)
        return with_inferred_types(self.graph, edit)

    def _named(self) -> tuple[Node, ...]:
        """The new nodes, with names and metadata of removed nodes, of the same operator if there is one."""
        unused = list(self.unused)
        named: list[Node] = []
        for node in self.new:
            replaced = next((other for other in unused if other.op == node.op), next(iter(unused), None))
            if replaced is None:  # an additional Identity
                name = self.graph.fresh(f"{node.op}_{node.outputs[0]}", [other.name for other in named])
                named.append(node.replace(name=name))
                continue
            unused.remove(replaced)
            named.append(
                replaced.replace(op_type=node.op_type, inputs=node.inputs, outputs=node.outputs, attributes={})
            )
        return tuple(named)

    def _value(self, eclass: int) -> str:
        if eclass not in self.value_of:
            self.value_of[eclass] = self._leaf(eclass)
        return self.value_of[eclass]

    def _leaf(self, eclass: int) -> str:
        node = self.free.get(eclass)
        if node is None or node.operator == "Value":
            leaves = (p for p in range(self.region.leaves) if self.egraph.eclass_of.get(p) == eclass)
            return self.region.values[next(leaves)]
        if node.operator == "Num":
            return self._number(node.datum)
        return self._computed(node)

    def _number(self, number: str) -> str:
        if number in self.scalars:
            return self.scalars[number]
        dtype = self.region.dtype.numpy()
        value = -0.0 if number == MINUS_ZERO else _rounded(Fraction(number), dtype)
        return self._constant("number", np.asarray(value, dtype))

    def _computed(self, node: ENode) -> str:
        operands = [self._value(operand) for operand in node.operands]
        arrays = [(self.constants.get(name) or self.graph.constants[name]).numpy() for name in operands]
        call = Node(node.operator, tuple(operands), ("result",))
        try:
            with np.errstate(all="ignore"):
                (array,) = evaluate(call, arrays, self.graph.opset_imports)
        except CannotEvaluate as error:
            raise NoMatch(f"one of its constants cannot be computed here: {error}") from error
        assert array is not None
        if (
            array.dtype.kind == "f"
            and not np.isfinite(array).all()
            and all(np.isfinite(operand).all() for operand in arrays)
        ):
            raise NoMatch(f"{node.operator} of the constants '{' and '.join(operands)}' is not finite")
        return self._constant(node.operator.lower(), array)

    def _constant(self, suffix: str, array: np.ndarray) -> str:
        name = self._fresh(suffix)
        self.constants[name] = constant(array, name)
        return name

    def _fresh(self, suffix: str) -> str:
        last = self.region.values[self.region.results[-1]]
        taken = [*self.constants, *self.value_of.values()]
        return self.graph.fresh(f"{last}_{suffix}", taken)

    def _refuse_other_types(self, edit: Edit) -> None:
        """Raises NoMatch if a result would get another type than it has."""
        types = inferred_types(self.graph, edit, [value for node in edit.insert for value in node.outputs])
        for eclass, results in self.results.items():
            source = self._value(eclass)
            for result in results:
                before, after = self.graph.tensor_type(result), types.get(source) or self.graph.tensor_type(source)
                if _differ(before, after):
                    raise NoMatch(f"'{result}' would have the type {after} instead of {before}")


def _differ(one: ValueType | None, other: ValueType | None) -> bool:
    """Whether two types are known to be different."""
    if not isinstance(one, TensorType) or not isinstance(other, TensorType):
        return False
    if one.dtype != other.dtype or one.shape is None or other.shape is None:
        return one.dtype != other.dtype
    pairs = zip(one.shape, other.shape, strict=False)
    sizes = [(a, b) for a, b in pairs if isinstance(a, int) and isinstance(b, int)]
    return len(one.shape) != len(other.shape) or any(a != b for a, b in sizes)


def _rounded(value: Fraction, dtype: np.dtype) -> float | int:
    return int(value) if dtype.kind in "ib" else float(value)
