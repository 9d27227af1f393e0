"""Rules that are equations: the left side is matched, the right side is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workbench.ir import Graph, Node
from workbench.ir.types import Dim, Shape
from workbench.rewrite.core.counterexamples import Counterexample, WrongLaw
from workbench.rewrite.core.exactness import Exactness
from workbench.rewrite.core.guards import (
    broadcasts_into,
    is_same_shape,
    require_floating,
    require_integers,
    require_signed_integers,
)
from workbench.rewrite.core.rule import Example, NoMatch, Refusal, Rule
from workbench.rewrite.patterns.building import Constraint, any_may_match, element_operand, rewrite_by_first_match
from workbench.rewrite.patterns.conditions import WhereClause, refuse_unknown_names
from workbench.rewrite.patterns.laws import Law, read_laws, read_term
from workbench.rewrite.patterns.matching import Match, Pattern
from workbench.rewrite.patterns.terms import Number, OneOf, Operation, Term, Variable, terms_of

_SIGNED = ("Neg", "Relu")  # operators that take signed integers only


def algebraic_rule(
    name: str,
    law: str,
    sentence: str,
    example: Example,
    refusals: tuple[Refusal, ...] = (),
    *,
    exactness: Exactness,
    constants: Sequence[str] = (),
    where: Sequence[WhereClause] = (),
    shared: bool = False,
    counterexample: Counterexample | None = None,
    wrong_laws: tuple[WrongLaw, ...] = (),
) -> Rule:
    """The rule that rewrites the left sides of a law's equations into their right sides.

    It acts on the kinds of numbers that the law names. If it names none, the rule acts on all kinds if it is exact
    to the last bit, else on floating-point numbers. Conditions on constants are
    checked; conditions on computed values are covered by `exactness`. A square is matched as Mul and as Pow.

    sentence:  for the user; in braces it may use {root}, {nodes[0]}, the law's variables, {new}, the last
               operator that is built, and {constant}, the constant that is computed.
    constants: variables that must be constants.
    where:     further conditions: see `graph_rule`.
    shared:    matched nodes may have other users, for which they stay.
    counterexample, wrong_laws: see `Rule`.

    Raises ValueError if the law is not an equation of ONNX operators.
    """
    laws = read_laws(law)
    refuse_unknown_names(where, {name for part in laws for name in _variables(part)}, law)
    for part in laws:
        _refuse_unsigned(part, frozenset(constants), exactness)
    patterns = [_pattern(part, frozenset(constants), shared) for part in laws]
    match = rewrite_by_first_match(patterns, (*_kind_constraints(laws[0].kinds, exactness), *where), sentence)
    operators = tuple(dict.fromkeys(operator for pattern in patterns for operator in pattern.operators))
    return Rule(
        name,
        operators,
        match,
        example,
        refusals,
        may_match=any_may_match(patterns),
        exactness=exactness,
        law=law,
        counterexample=counterexample,
        wrong_laws=wrong_laws,
    )


def _variables(law: Law) -> set[str]:
    return {part.name for side in law.sides[:2] for part in terms_of(read_term(side)) if isinstance(part, Variable)}


def _refuse_unsigned(law: Law, constants: frozenset[str], exactness: Exactness) -> None:
    """Raises ValueError if the rule would write, for unsigned integers, an operator that does not take them."""
    holds_for_integers = "integers" in law.kinds or (not law.kinds and exactness is Exactness.BIT_EXACT)
    left, right = (terms_of(read_term(side)) for side in law.sides[:2])
    if not holds_for_integers or any(isinstance(t, Operation) and t.operator in _SIGNED for t in left):
        return
    for term in right:
        variables = {part.name for part in terms_of(term) if isinstance(part, Variable)}
        if isinstance(term, Operation) and term.operator in _SIGNED and not variables <= constants:
            equation = " == ".join(law.sides)
            raise ValueError(
                f"the right side of '{equation}' has {term.operator}, which takes no unsigned integers; say "
                f"'for signed integers: {equation}'"
            )


def _pattern(law: Law, constants: frozenset[str], shared: bool) -> Pattern:
    left, right = map(read_term, law.sides[:2])
    if isinstance(left, Operation):
        left = Operation(left.operator, tuple(map(_squares_in_both_forms, left.operands)))
    known = {term for term in terms_of(left) if not isinstance(term, Number)}
    if not isinstance(left, Operation) or not (isinstance(right, Operation) or right in known):
        raise ValueError(f"'{' == '.join(law.sides)}' does not rewrite one operator expression into another")
    condition = read_term(law.condition) if law.condition else None
    names = {term.name for term in terms_of(condition) if isinstance(term, Variable)} if condition else set()
    return Pattern(((left, right),), condition if names <= constants else None, constants, shared, law.sides[0])


def _squares_in_both_forms(term: Term) -> Term:
    """The term with each `t * t` or `t ** 2` replaced by an alternative of both."""
    if not isinstance(term, Operation):
        return term
    operands = tuple(map(_squares_in_both_forms, term.operands))
    match term.operator, operands:
        case ("Mul", (base, same)) if base == same:
            pass
        case ("Pow", (base, Number(2))):
            pass
        case _:
            return Operation(term.operator, operands)
    return OneOf((Operation("Mul", (base, base)), Operation("Pow", (base, Number(2)))))


# ---- conditions ----------------------------------------------------------------------


def _kind_constraints(kinds: Sequence[str], exactness: Exactness) -> tuple[Constraint, ...]:
    if kinds == ("integers",):
        return (lambda match: _demand(require_integers, match),)
    if kinds == ("signed integers",):
        return (lambda match: _demand(require_signed_integers, match),)
    if kinds == ("floats",) or (not kinds and exactness is not Exactness.BIT_EXACT):
        return (lambda match: _demand(require_floating, match),)
    return ()


def _demand(require: Callable[[Graph, str, Node], None], match: Match) -> None:
    """Raises NoMatch unless the operands of the last node are of this kind, or those of what a Not negates."""
    node = match.nodes[0] if match.root.op == "Not" else match.root
    require(match.graph, element_operand(node), node)


def same_shape(first: str, second: str) -> Constraint:
    """The values of two variables are known to have the same shape."""

    def check(match: Match) -> None:
        a, b = match[first], match[second]
        if not is_same_shape(match.graph.shape(a), match.graph.shape(b)):
            raise NoMatch(f"'{a}' and '{b}' are not known to have the same shape")

    return check


def smaller(first: str, second: str) -> Constraint:
    """The value of the first variable is broadcast to that of the second, and is known to have fewer elements."""

    def check(match: Match) -> None:
        a, b = match[first], match[second]
        small, large = match.graph.shape(a), match.graph.shape(b)
        if not broadcasts_into(small, large) or small == large or _long_axes(small) == _long_axes(large):
            raise NoMatch(f"'{a}' is not known to have fewer elements than '{b}'")

    return check


def _long_axes(shape: Shape) -> list[Dim]:
    """The axes of more than one element."""
    return [size for size in shape or () if size != 1]
