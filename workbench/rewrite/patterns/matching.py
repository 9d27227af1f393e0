"""Matches the left side of an equation, or the first of two graphs, in a graph.

Variables stand for values, numbers for constants that hold them, operators
for nodes; operands of commutative operators match in both orders, and two
operators of a pattern never match the same node.

The search is depth-first with backtracking over the orders of operands and over alternatives, as in
e-matching (de Moura, Bjorner, "Efficient E-Matching for SMT Solvers", CADE
2007) on a graph without equivalences.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from workbench.ir import Graph, Node
from workbench.rewrite.core.guards import require_no_other_users
from workbench.rewrite.core.rule import NoMatch
from workbench.rewrite.patterns.prefilters import Prefilter, prefilters_of
from workbench.rewrite.patterns.searching import MatchDiagnostics, Search
from workbench.rewrite.patterns.terms import (
    AttributeVariable,
    Number,
    OneOf,
    Operation,
    Term,
    Variable,
    operators_of,
    required_producers,
    terms_of,
)

_ON_CONSTANTS: dict[str, Callable[..., np.ndarray]] = {
    "Abs": np.abs,
    "Add": np.add,
    "And": np.logical_and,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseNot": np.bitwise_not,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "Div": np.divide,
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Max": np.maximum,
    "Min": np.minimum,
    "Mul": np.multiply,
    "Neg": np.negative,
    "Not": np.logical_not,
    "Or": np.logical_or,
    "Reciprocal": np.reciprocal,
    "Sub": np.subtract,
    "Xor": np.logical_xor,
}
_FLOAT_ONLY_OPS = ("Div", "Reciprocal")  # on integers they round


@dataclass(frozen=True)
class Pattern:
    """A rewrite as data: the terms to match, and those that replace them.

    results:   pairs of a replaced and a replacing term; the first is matched at a node, the others near it.
    condition: on constants only; None if there is none.
    constants: variables that must be constants.
    shared:    whether matched nodes may have other users, for which they stay.
    text:      the left side as written.
    names:     the named terms of the left side.
    computed:  functions of the match whose results the right side, conditions and sentences use, by name.
    operators_named: the operators for which names of operators stand.
    known:     everything that has a name.
    at_outputs: whether an operand may replace an output of the graph by an Identity.
    """

    results: tuple[tuple[Term, Term], ...]
    condition: Term | None
    constants: frozenset[str]
    shared: bool
    text: str
    names: Mapping[str, Term] = field(default_factory=dict)
    computed: Mapping[str, Callable[[Match], Any]] = field(default_factory=dict)
    operators_named: Mapping[str, str] = field(default_factory=dict)
    known: frozenset[str] = frozenset()
    at_outputs: bool = False

    @property
    def left(self) -> Term:
        return self.results[0][0]

    @property
    def right(self) -> Term:
        return self.results[0][1]

    @cached_property
    def operators(self) -> tuple[str, ...]:
        """The operators of the nodes at which it may match."""
        return operators_of(self.left)

    @property
    def forms(self) -> Iterator[Term]:
        """The left side; if it is an alternative, each of its terms."""
        waiting = [self.left]
        while waiting:
            form = waiting.pop(0)
            if isinstance(form, OneOf):
                waiting += form.terms
            else:
                yield form

    @cached_property
    def needs(self) -> Mapping[str, list[list[tuple[str, ...]]]]:
        """For each operator, for each form: the required producers of operands, each a tuple of alternatives."""
        needs: dict[str, list[list[tuple[str, ...]]]] = {operator: [] for operator in self.operators}
        for form in self.forms:
            operands = form.operands if isinstance(form, Operation) else ()
            for operator in operators_of(form):
                needs[operator].append([needed for operand in operands if (needed := required_producers(operand))])
        return needs

    def missing(self, node: Node, producers: Collection[str]) -> list[str]:
        """Required producers that are not among `producers`, the operators before the node; empty if it may match."""
        missing: list[str] = []
        for form in self.needs[node.op]:
            needed = next((required for required in form if not any(op in producers for op in required)), None)
            if needed is None:
                return []
            missing += needed
        return missing

    @cached_property
    def prefilters(self) -> Mapping[str, list[Prefilter]]:
        """For each operator: prefilters, of which one fits every node at which the pattern matches."""
        prefilters: dict[str, list[Prefilter]] = {operator: [] for operator in self.operators}
        for form in self.forms:
            anything = Prefilter(operators_of(form), False, ())
            for prefilter in prefilters_of(form, self.constants) or (anything,):
                for operator in prefilter.operators:
                    prefilters[operator].append(prefilter)
        return prefilters

    @cached_property
    def further(self) -> tuple[str, ...]:
        """Names of further operands."""
        parts = terms_of(*(left for left, _ in self.results))
        return tuple(part.further for part in parts if isinstance(part, Operation) and part.further)

    @cached_property
    def kept(self) -> frozenset[Term]:
        """Terms of the left side that the right side uses: their nodes stay, whatever their other users."""
        replaced = {left for left, _ in self.results}
        known = {term for left in replaced for term in terms_of(left) if operators_of(term)}
        return frozenset(known - replaced) & {term for _, right in self.results for term in terms_of(right)}


@dataclass(frozen=True)
class Match:
    """A match of a pattern at the node `root`.

    values: the value bound to each term of the left side.
    data:   numbers, attributes and computed data, by name.
    matched: the matched nodes, by name.
    computed: what functions of the match computed so far, by name.
    """

    graph: Graph
    root: Node
    pattern: Pattern
    values: Mapping[Term, str]
    data: Mapping[str, Any]
    matched: Mapping[str, Node]
    computed: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The matched nodes, operands first, `root` last."""
        ordered: dict[str, Node] = {}

        def visit(node: Node) -> None:
            for value in node.inputs:
                producer = self.graph.producer(value) if value else None
                if producer is not None and producer.name in self.matched and producer.name not in ordered:
                    visit(producer)
            ordered[node.name] = node

        for left, _ in reversed(self.pattern.results):
            last = self.graph.producer(self.values[left]) or self.root
            if last.name not in ordered:
                visit(last)
        return tuple(ordered.values())

    @cached_property
    def removed(self) -> tuple[Node, ...]:
        """The matched nodes that the rewrite removes. Raises NoMatch if one has another user and must not stay."""
        kept_nodes = self._kept_nodes()
        results = {self.values[left] for left, _ in self.pattern.results}
        removed = tuple(
            node for node in self.nodes if results.intersection(node.outputs) or self._is_removed(node, kept_nodes)
        )
        if self.pattern.shared:
            removed = self._without_read(removed)
        lost = {value: node for node in removed for value in node.outputs if value not in results}
        further = [value for name in self.pattern.further for value in self.data.get(name, ())]
        for value in (*(value for term, value in self.values.items() if isinstance(term, Variable)), *further):
            if value in lost:
                raise NoMatch(f"'{value}' of {lost[value]} is read twice")
        for node in removed:
            if results.intersection(node.outputs):
                require_no_other_users(self.graph, node, self.nodes, results)
        if len(self.pattern.results) > 1:
            self._refuse_cycle()
        return removed

    def _is_removed(self, node: Node, kept_nodes: frozenset[str]) -> bool:
        creates = any(operators_of(right) for _, right in self.pattern.results)
        if node.name in kept_nodes or not (creates or self.pattern.shared):
            return False  # if no node is created, only the last one is removed
        try:
            require_no_other_users(self.graph, node, self.nodes)
        except NoMatch:
            if self.pattern.shared:
                return False
            raise
        return True

    def _without_read(self, removed: tuple[Node, ...]) -> tuple[Node, ...]:
        """Those that no other matched node reads that stays."""
        names = {node.name for node in removed}
        for node in reversed(self.nodes):
            if node.name not in names:
                read = {producer.name for value in node.operands if (producer := self.graph.producer(value))}
                names -= read
        return tuple(node for node in removed if node.name in names)

    def _kept_nodes(self) -> frozenset[str]:
        """Names of the matched nodes from which the kept terms are computed."""
        values = [self.values[term] for term in self.pattern.kept if term in self.values]
        if isinstance(self.pattern.right, AttributeVariable):
            values.append(self.datum(self.pattern.right.name))
        kept_nodes: set[str] = set()
        while values:
            producer = self.graph.producer(values.pop())
            if producer is not None and producer.name in self.matched and producer.name not in kept_nodes:
                kept_nodes.add(producer.name)
                values += [value for value in producer.inputs if value]
        return frozenset(kept_nodes)

    def _refuse_cycle(self) -> None:
        """Raises NoMatch if nodes outside the match compute an operand from a matched value.

        New nodes for several results could then form a cycle.
        """
        first = min(self.graph.position(name) for name in self.matched)
        operands = [value for term, value in self.values.items() if isinstance(term, Variable) and value]
        seen = set(operands)
        while operands:
            value = operands.pop()
            producer = self.graph.producer(value)
            if producer is None or self.graph.position(producer.name) < first:
                continue
            if producer.name in self.matched:
                raise NoMatch(f"one result is computed from '{value}' of {producer}, another")
            operands += [read for read in producer.operands if read not in seen]
            seen.update(producer.operands)

    def __getitem__(self, name: str) -> str:
        """The value bound to a name of the pattern."""
        return self.values[self._term(name)]

    def get(self, name: str) -> str | None:
        """The value bound to a name of the pattern; None for an omitted optional term."""
        return self.values.get(self._term(name))

    def node(self, name: str) -> Node:
        """The node that produces the value bound to a name of the pattern."""
        result = self.graph.producer(self[name])
        assert result is not None, f"'{name}' of {self.pattern.text} is not the result of a node"
        return result

    def datum(self, name: str, default: Any = None) -> Any:
        """A number, an attribute, an operator, further operands, or what a function computes, by name."""
        if name in self.data:
            return self.data[name]
        if name in self.pattern.computed and name not in self.computed:
            self.computed[name] = self.pattern.computed[name](self)
        return self.computed.get(name, default)

    def _term(self, name: str) -> Term:
        return self.pattern.names.get(name, Variable(name))

    def array(self, term: Term) -> np.ndarray | float | None:
        """The value of a term that depends on constants only, floats as float64; None otherwise."""
        if isinstance(term, Number):
            return term.value
        if isinstance(term, AttributeVariable):
            result: np.ndarray | float = self.datum(term.name)
            return result
        if term in self.values:
            tensor = self.graph.constant(self.values[term])
            if tensor is None:
                return None
            return tensor.numpy().astype(np.float64) if tensor.dtype.is_floating_point() else tensor.numpy()
        if not isinstance(term, Operation) or term.operator not in _ON_CONSTANTS:
            return None
        operands = [self.array(operand) for operand in term.operands]
        if any(operand is None for operand in operands):
            return None
        if term.operator in _FLOAT_ONLY_OPS and all(np.asarray(operand).dtype.kind != "f" for operand in operands):
            return None
        with np.errstate(all="ignore"):
            return _ON_CONSTANTS[term.operator](*operands)

    @cached_property
    def combined(self) -> np.ndarray | None:
        """The first constant that the right side computes, as `array` returns it; None if it computes none."""
        return self._first_constant(self.pattern.right)

    def _first_constant(self, term: Term) -> np.ndarray | None:
        if not isinstance(term, Operation) or term in self.values:
            return None
        array = self.array(term)
        if array is not None:
            return np.asarray(array)
        result = (self._first_constant(operand) for operand in term.operands)
        return next((array for array in result if array is not None), None)


def matches(pattern: Pattern, graph: Graph, root: Node, misses: MatchDiagnostics) -> Iterator[Match]:
    """Each match of the pattern at `root`; failed attempts are noted in `misses`."""
    search = Search(graph, pattern.constants, pattern.text, misses)
    for state in search.all_of([left for left, _ in pattern.results], root):
        yield Match(graph, root, pattern, state.values, {**pattern.operators_named, **state.data}, state.nodes)
