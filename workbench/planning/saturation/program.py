"""Equations and a region's terms as a program of egglog.

Source: Zhang et al., "Better Together: Unifying Datalog and Equality Saturation", PLDI 2023; egglog's language,
https://egraphs-good.github.io/egglog/.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from workbench.planning.saturation.equations import EQUATIONS, SIGN_LAWS, Equation
from workbench.planning.saturation.exact_numbers import as_number
from workbench.rewrite.core.exactness import Exactness
from workbench.rewrite.patterns.laws import read_laws, read_term
from workbench.rewrite.patterns.terms import Number, Operation, Term, Variable, terms_of

_RELATIONS = {"GreaterOrEqual": "NotNegative", "Greater": "Positive"}  # by comparison with 0
IS_FACTOR = "Factor"  # numbers whose products neither overflow nor underflow
IS_TENSOR = "Tensor"  # values that are not numbers
IS_CONSTANT = "Constant"  # numbers, other constants, and values computed from constants alone
ARITIES = {
    term.operator: len(term.operands)
    for equation in EQUATIONS
    for term in terms_of(*equation.sides)
    if isinstance(term, Operation)
}


def rules_of(equations: Sequence[Equation]) -> list[str]:
    """A rule of egglog for each direction of each equation."""
    return [_rule(equation, *direction) for equation in equations for direction in equation.directions]


def program_of(rules: Sequence[str], terms: Sequence[str]) -> str:
    """The program: the sort of values, their operators, the rules, then the terms."""
    relations = (*_RELATIONS.values(), "Nonzero", IS_FACTOR, IS_TENSOR, IS_CONSTANT)
    return "\n".join(
        [
            "(sort E)",
            "(constructor Value (i64) E)",
            "(constructor Num (String) E)",
            *(f"(constructor {operator} ({' '.join(['E'] * arity)}) E)" for operator, arity in ARITIES.items()),
            *(f"(relation {relation} (E))" for relation in relations),
            "(ruleset laws)",
            *rules,
            *_operand_rules(),
            *(
                _sign_rules()
                if any(name in rule for rule in rules for name in (*_RELATIONS.values(), "Nonzero"))
                else ()
            ),
            *terms,
        ]
    )


def _rule(equation: Equation, left: Term, right: Term) -> str:
    numbers = equation.numbers
    facts = list(_facts(equation.condition, numbers))
    facts += [f"({IS_TENSOR} {name})" for name in equation.tensors]
    facts += [f"({IS_CONSTANT} {name})" for name in equation.constants]
    if equation.exactness is Exactness.ROUNDING:
        facts += [f"({IS_FACTOR} (Num {name}))" for name in numbers]
    condition = f" :when ({' '.join(facts)})" if facts else ""
    return f"(rewrite {_term_text(left, numbers)} {_term_text(right, numbers)}{condition} :ruleset laws)"


def _operand_rules() -> Iterator[str]:
    """Rules that the result of an operator on a tensor is a tensor, and of one on constants alone a constant."""
    for operator, arity in ARITIES.items():
        operands = [f"x{i}" for i in range(arity)]
        result = f"(= result ({operator} {' '.join(operands)}))"
        for operand in operands:
            yield f"(rule ({result} ({IS_TENSOR} {operand})) (({IS_TENSOR} result)) :ruleset laws)"
        known = " ".join(f"({IS_CONSTANT} {operand})" for operand in operands)
        yield f"(rule ({result} {known}) (({IS_CONSTANT} result)) :ruleset laws)"


def _sign_rules() -> Iterator[str]:
    for text in SIGN_LAWS:
        (law,) = read_laws(text)
        relation, term = _relation(read_term(law.sides[0]))
        facts = list(_facts(read_term(law.condition) if law.condition else None))
        if isinstance(term, Operation):
            facts = [f"(= result {_term_text(term)})", *facts]
        result = "result" if isinstance(term, Operation) else _term_text(term)
        yield f"(rule ({' '.join(facts)}) (({relation} {result})) :ruleset laws)"


def _facts(condition: Term | None, numbers: str = "") -> Iterator[str]:
    """The facts that a condition consists of."""
    if isinstance(condition, Operation) and condition.operator == "And":
        for part in condition.operands:
            yield from _facts(part, numbers)
    elif isinstance(condition, Operation) and _unequal_variables(condition):
        yield f"(!= {' '.join(map(_term_text, _unequal_variables(condition)))})"
    elif condition is not None:
        relation, term = _relation(condition)
        yield f"({relation} {_term_text(term, numbers)})"


def _unequal_variables(condition: Operation) -> tuple[Term, ...]:
    """The two variables that a condition says are unequal; () for another condition."""
    match condition:
        case Operation("Not", (Operation("Equal", (Variable(_) as one, Variable(_) as other)),)):
            return one, other
    return ()


def _relation(condition: Term) -> tuple[str, Term]:
    """The relation and the term of a comparison with 0."""
    match condition:
        case Operation("Not", (Operation("Equal", (term, Number(0))),)):
            return "Nonzero", term
        case Operation(operator, (term, Number(0))) if operator in _RELATIONS:
            return _RELATIONS[operator], term
    raise ValueError(f"'{condition}' is not a comparison with 0")


def _term_text(term: Term, numbers: str = "") -> str:
    match term:
        case Variable(name):
            return f"(Num {name})" if name in numbers else name
        case Number(value):
            return f'(Num "{as_number(value)}")'
        case Operation(operator, operands):
            return f"({operator} {' '.join(_term_text(operand, numbers) for operand in operands)})"
    raise ValueError(f"'{term}' is not a term of an equation")
