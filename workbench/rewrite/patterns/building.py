"""Builds the right side of a pattern from a match of its left side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from workbench.ir import Constant, Edit, Graph, Node, constant
from workbench.rewrite.core.guards import replace_with_operand
from workbench.rewrite.core.rule import MayMatch, NoMatch, Rewrite
from workbench.rewrite.patterns.conditions import Sentence, WhereClause, constraint
from workbench.rewrite.patterns.matching import Match, Pattern, matches
from workbench.rewrite.patterns.prefilters import Prefilter
from workbench.rewrite.patterns.schemas import later_opset
from workbench.rewrite.patterns.searching import MatchDiagnostics
from workbench.rewrite.patterns.terms import Absent, AttributeVariable, Operation, Result, Term, Variable

_CONSTRAINT_DEPTH = 1e6  # more than the depth of any partial match

Constraint = Callable[[Match], None]  # raises NoMatch with a sentence


def rewrite_by_first_match(
    patterns: Sequence[Pattern], conditions: Sequence[WhereClause], sentence: str
) -> Callable[[Graph, Node, Any], Rewrite]:
    """A rule's match function: the rewrite of the first pattern that matches at a node and meets the conditions.

    If there is none, it raises NoMatch with the reason of the longest partial match.
    """
    by_operator = _by_operator(patterns)
    constraints = [constraint(condition) for condition in conditions]

    def match(graph: Graph, node: Node, pass_: Any) -> Rewrite:
        misses = MatchDiagnostics()
        producers = [producer.op for value in node.inputs if (producer := graph.producer(value)) is not None]
        for pattern in by_operator[node.op]:
            missing = pattern.missing(node, producers)
            if missing:
                misses.note_operators(1, node, missing)
                continue
            for result in matches(pattern, graph, node, misses):
                met = 0
                try:
                    for demand in constraints:
                        demand(result)
                        met += 1
                    return _rewritten(result, sentence)
                except NoMatch as no:
                    misses.note(_CONSTRAINT_DEPTH + met, no)
        raise NoMatch(misses)  # formatted only when it is shown

    return match


def any_may_match(patterns: Sequence[Pattern]) -> MayMatch:
    """A rule's `may_match`: whether one of the patterns may match at a node."""
    by_operator = _by_operator(patterns)

    @cache
    def prefilters(operator: str) -> list[Prefilter]:
        return [prefilter for pattern in by_operator[operator] for prefilter in pattern.prefilters[operator]]

    def may_match(graph: Graph, node: Node) -> bool:
        return any(prefilter.fits(graph, node) for prefilter in prefilters(node.op))

    return may_match


def _by_operator(patterns: Sequence[Pattern]) -> dict[str, list[Pattern]]:
    operators = dict.fromkeys(operator for pattern in patterns for operator in pattern.operators)
    return {operator: [pattern for pattern in patterns if operator in pattern.operators] for operator in operators}


def _rewritten(match: Match, sentence: str) -> Rewrite:
    pattern = match.pattern
    if pattern.condition is not None:
        holds = match.array(pattern.condition)
        if holds is None or not np.all(holds):
            raise NoMatch(
                f"a constant of {match.root} does not meet the condition of {pattern.text}: {pattern.condition}"
            )
    if not isinstance(pattern.right, Operation | Result) or pattern.right in match.values:
        return _replaced_by_value(match, sentence)
    removed = match.removed
    build = _Builder(match, replaced_nodes=list(removed[::-1]))
    build.results()
    edit = Edit(tuple(node.name for node in removed), tuple(build.nodes), constants=build.constants)
    message = Sentence(match, sentence, len(removed) - len(build.nodes))
    return Rewrite(edit, str(message), tuple(node.name for node in match.nodes))


def _replaced_by_value(match: Match, sentence: str) -> Rewrite:
    """The rewrite that creates no node."""
    graph, root, right = match.graph, match.root, match.pattern.right
    value = match.datum(right.name) if isinstance(right, AttributeVariable) else match.values[right]
    other = next((value for value in root.outputs[1:] if value and (graph.users(value) or graph.is_output(value))), "")
    if other:
        raise NoMatch(f"'{other}' of {root} is read")
    removed = match.removed
    message = str(Sentence(match, sentence, len(removed)))
    edit = Edit(remove=tuple(node.name for node in removed), replace={root.outputs[0]: value})
    if match.pattern.at_outputs:
        return Rewrite(edit, message, tuple(node.name for node in match.nodes))
    return replace(replace_with_operand(graph, root, value, message, match.nodes[:-1]), edit=edit)


def element_operand(node: Node) -> str:
    """An operand with the element type of the law."""
    return node.inputs[1] if node.op == "Where" else node.inputs[0]


@dataclass
class _Builder:
    """Builds the right side. replaced_nodes: new nodes take their names and metadata, of the same operator first."""

    match: Match
    replaced_nodes: list[Node]
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Constant] = field(default_factory=dict)
    built: dict[Term, str] = field(default_factory=dict)

    def results(self) -> None:
        """Build the nodes that compute the results."""
        for left, right in self.match.pattern.results:
            self.built[right] = self.match.values[left]
        for _, right in self.match.pattern.results:
            call = right.call if isinstance(right, Result) else right
            if isinstance(call, Operation) and not any(self.built[right] in node.outputs for node in self.nodes):
                self._call(call)

    def _call(self, call: Operation) -> None:
        domain, _, operator = call.operator.rpartition(".")
        self._refuse_older_opset(call.operator)
        replaced = self._replaced_node(call.operator)
        inputs = [self._operand(operand) for operand in call.operands]
        inputs += self.match.datum(call.further, ())
        while inputs and not inputs[-1]:
            inputs.pop()
        attributes = {key: self._attribute(value) for key, value in call.attributes}
        further = {
            term.index: name for term, name in self.built.items() if isinstance(term, Result) and term.call == call
        }
        outputs = {0: self.built.get(call, ""), **further}
        node = replaced.replace(
            op_type=operator,
            domain=domain,
            overload="",
            inputs=tuple(inputs),
            outputs=tuple(outputs.get(index, "") for index in range(max(outputs) + 1)),
            attributes={**self.match.datum(call.rest, {}), **attributes},
        )
        self.nodes.append(node)

    def _refuse_older_opset(self, operator: str) -> None:
        has = self.match.graph.opset_imports.get("", 0)
        needs = later_opset(operator, has)
        if needs:
            raise NoMatch(f"{operator} came with opset {needs}; this model has opset {has}")

    def _replaced_node(self, operator: str) -> Node:
        """The node whose name and metadata the new one takes over: one of that operator if there is one."""
        if not self.replaced_nodes:
            return self.match.root.replace(name=self._fresh(f"{self.match.root.name}_{operator}"))
        result = next((node for node in self.replaced_nodes if node.op == operator), self.replaced_nodes[0])
        self.replaced_nodes.remove(result)
        return result

    def _attribute(self, value: Any) -> Any:
        """The value of an attribute: a literal, a named datum, or computed from numbers."""
        if isinstance(value, AttributeVariable):
            return self.match.datum(value.name)
        return float(np.asarray(self.match.array(value))) if isinstance(value, Operation) else value

    def _operand(self, term: Term) -> str:
        """The name of the value of a term, built if needed; "" for an omitted operand."""
        if term in self.match.values:
            return self.match.values[term]
        datum = self.match.datum(term.name) if isinstance(term, AttributeVariable) else None
        if isinstance(datum, str):
            return datum
        if isinstance(term, Variable | Absent) or (isinstance(term, AttributeVariable) and datum is None):
            return ""
        if term not in self.built:
            self.built[term] = self._fresh(f"{self.match.root.outputs[0]}_{_suffix(term)}")
            self._build_operand(term, self.built[term])
        return self.built[term]

    def _build_operand(self, term: Term, name: str) -> None:
        array = self.match.array(term)
        if isinstance(term, AttributeVariable) and isinstance(array, np.ndarray):
            self.constants[name] = constant(array, name)
        elif array is not None:
            self.constants[name] = constant(np.asarray(array).astype(self._element_type()), name)
        elif isinstance(term, Operation):
            self._call(term)
        elif isinstance(term, Result) and not any(name in node.outputs for node in self.nodes):
            self._call(term.call)

    def _element_type(self) -> np.dtype:
        operand = element_operand(self.match.root)
        type_ = self.match.graph.tensor_type(operand)
        if type_ is None:
            raise NoMatch(f"the element type of '{operand}', an operand of {self.match.root}, is not known")
        return type_.dtype.numpy()

    def _fresh(self, base: str) -> str:
        taken = [*self.constants, *self.built.values(), *(v for node in self.nodes for v in (node.name, *node.outputs))]
        return self.match.graph.fresh(base, taken)


def _suffix(term: Term) -> str:
    """The suffix of a new value's name."""
    if isinstance(term, Operation | Result):
        call = term.call if isinstance(term, Result) else term
        return call.operator.rpartition(".")[2].lower()
    return term.name if isinstance(term, AttributeVariable) else "number"
