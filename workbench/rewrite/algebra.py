"""A law is the rule: its left side is matched, its right side is built."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.ir import Constant, Edit, Graph, Node, constant
from workbench.ir.types import Dim, Shape
from workbench.rewrite.exactness import Exactness
from workbench.rewrite.guards import broadcasts_into, forward_operand, is_same_shape, require_floating, require_integers
from workbench.rewrite.laws import Law, Number, Operation, Term, Variable, read_laws, read_term, terms_of
from workbench.rewrite.matching import Match, Misses, Pattern, matches
from workbench.rewrite.rule import Example, NoMatch, Refusal, Rewrite, Rule

Constraint = Callable[[Match], None]  # raises NoMatch with a sentence


def algebraic_rule(
    name: str,
    law: str,
    sentence: str,
    example: Example,
    refusals: tuple[Refusal, ...] = (),
    *,
    exactness: Exactness,
    constants: Sequence[str] = (),
    where: Sequence[Constraint] = (),
    shared: bool = False,
) -> Rule:
    """The rule that rewrites the left sides of a law's equations into their right sides.

    It acts on the kinds of numbers for which the law is proved: those that it names; else on all kinds
    where the rule is exact to the last bit, and on floating-point numbers where it is not. A condition
    on constants is looked at; one on values that are computed is what `exactness` speaks of.

    sentence:  for the user; in braces it may name {root}, {nodes[0]}, the law's variables, {new}, the operator
               that comes last, and {constant}, what is computed of constants.
    constants: variables that must be constants.
    where:     further conditions.
    shared:    matched nodes may have other readers, for which they stay.

    Raises ValueError for a law that is no equation of ONNX operators.
    """
    laws = read_laws(law)
    patterns = [_pattern(part, frozenset(constants), shared) for part in laws]
    demands = (*_of_kinds(laws[0].kinds, exactness), *where)

    def match(graph: Graph, node: Node, options: Any) -> Rewrite:
        misses = Misses()
        for pattern in patterns:
            if pattern.left.operator != node.op:
                continue
            for found in matches(pattern, graph, node, misses):
                try:
                    return _rewritten(found, demands, sentence)
                except NoMatch as no:
                    misses.note(math.inf, str(no))
        raise NoMatch(misses.sentence)

    operators = tuple(dict.fromkeys(pattern.left.operator for pattern in patterns))
    return Rule(name, operators, match, example, refusals, exactness=exactness, law=law)


def _pattern(law: Law, constants: frozenset[str], shared: bool) -> Pattern:
    left, right = map(read_term, law.sides[:2])
    known = {term for term in terms_of(left) if not isinstance(term, Number)}
    if not isinstance(left, Operation) or not (isinstance(right, Operation) or right in known):
        raise ValueError(f"'{' == '.join(law.sides)}' is no rewrite of operators")
    condition = read_term(law.condition) if law.condition else None
    asked = {term.name for term in terms_of(condition) if isinstance(term, Variable)} if condition else set()
    return Pattern(left, right, condition if asked <= constants else None, constants, shared, law.sides[0])


# ---- conditions ----------------------------------------------------------------------


def _of_kinds(kinds: Sequence[str], exactness: Exactness) -> tuple[Constraint, ...]:
    if kinds == ("integers",):
        return (lambda match: require_integers(match.graph, _operand(match.root), match.root),)
    if kinds == ("floats",) or (not kinds and exactness is not Exactness.BITS):
        return (lambda match: require_floating(match.graph, _operand(match.root), match.root),)
    return ()


def _operand(node: Node) -> str:
    """An operand of the element type that the law speaks of."""
    return node.inputs[1] if node.op == "Where" else node.inputs[0]


def same_shape(first: str, second: str) -> Constraint:
    """The values of two variables are known to have one shape."""

    def demand(match: Match) -> None:
        a, b = match[first], match[second]
        if not is_same_shape(match.graph.shape(a), match.graph.shape(b)):
            raise NoMatch(f"'{a}' and '{b}' are not known to have the same shape")

    return demand


def smaller(first: str, second: str) -> Constraint:
    """The first variable's value is known to have fewer elements than the second's, into which it is broadcast."""

    def demand(match: Match) -> None:
        a, b = match[first], match[second]
        small, large = match.graph.shape(a), match.graph.shape(b)
        if not broadcasts_into(small, large) or small == large or _long_axes(small) == _long_axes(large):
            raise NoMatch(f"'{a}' is not known to have fewer elements than '{b}'")

    return demand


def _long_axes(shape: Shape) -> list[Dim]:
    """The axes of more than one element."""
    return [size for size in shape or () if size != 1]


# ---- building ------------------------------------------------------------------------


def _rewritten(match: Match, demands: Sequence[Constraint], sentence: str) -> Rewrite:
    for demand in demands:
        demand(match)
    if match.pattern.condition is not None:
        holds = match.array(match.pattern.condition)
        if holds is None or not np.all(holds):
            raise NoMatch(f"a constant of {match.root} is not as {match.pattern.text} asks: {match.pattern.condition}")
    right = match.pattern.right
    if not isinstance(right, Operation) or right in match.values:
        said = sentence.format(**_words(match))
        return forward_operand(match.graph, match.root, match.values[right], said, match.nodes[:-1])
    build = _Builder(match, donors=list(match.gone[::-1]))
    build.call(right, match.root.outputs)
    edit = Edit(tuple(node.name for node in match.gone), tuple(build.nodes), constants=build.constants)
    return Rewrite(edit, sentence.format(**_words(match)), tuple(node.name for node in match.nodes))


def _words(match: Match) -> dict[str, Any]:
    """What a sentence may name."""
    right, array = match.pattern.right, match.combined
    words: dict[str, Any] = {term.name: value for term, value in match.values.items() if isinstance(term, Variable)}
    words |= {"root": match.root, "nodes": match.nodes, "new": right.operator if isinstance(right, Operation) else ""}
    if array is not None:
        words["constant"] = f"of shape {list(array.shape)}" if array.shape else f"{array:g}"
    return words


@dataclass
class _Builder:
    """Makes the right side. donors: nodes that go; new ones get their names and origins, of their operator first."""

    match: Match
    donors: list[Node]
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Constant] = field(default_factory=dict)
    made: dict[Term, str] = field(default_factory=dict)

    def call(self, call: Operation, outputs: tuple[str, ...]) -> None:
        donor = self._donor(call.operator)
        inputs = tuple(self._value(operand) for operand in call.operands)
        self.nodes.append(donor.replace(op_type=call.operator, inputs=inputs, outputs=outputs, attributes={}))

    def _donor(self, operator: str) -> Node:
        if not self.donors:
            return self.match.root.replace(name=self._fresh(f"{self.match.root.name}_{operator}"))
        donor = next((node for node in self.donors if node.op == operator), self.donors[0])
        self.donors.remove(donor)
        return donor

    def _value(self, term: Term) -> str:
        """The value of a part of the right side, made where there is none yet."""
        if term in self.match.values:
            return self.match.values[term]
        if term not in self.made:
            word = term.operator.lower() if isinstance(term, Operation) else "number"
            self.made[term] = self._fresh(f"{self.match.root.outputs[0]}_{word}")
            self._make(term, self.made[term])
        return self.made[term]

    def _make(self, term: Term, name: str) -> None:
        array = self.match.array(term)
        if array is not None:
            self.constants[name] = constant(np.asarray(array).astype(self._element_type()), name)
        elif isinstance(term, Operation):
            self.call(term, (name,))

    def _element_type(self) -> np.dtype:
        operand = _operand(self.match.root)
        type_ = self.match.graph.tensor_type(operand)
        if type_ is None:
            raise NoMatch(f"the element type of '{operand}', an operand of {self.match.root}, is not known")
        return type_.dtype.numpy()

    def _fresh(self, base: str) -> str:
        taken = [*self.constants, *self.made.values(), *(v for node in self.nodes for v in (node.name, *node.outputs))]
        return self.match.graph.fresh(base, taken)
