"""Terms of laws and patterns: expressions of ONNX operators, as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Any

COMMUTATIVE = frozenset(
    {"Add", "Mul", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Min", "Max", "Equal"}
)


@dataclass(frozen=True)
class Variable:
    """Any value."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Number:
    """A constant with this number as its one element.

    near: whether a value that differs by the rounding of one or two float32 operations matches too.
    """

    value: float
    near: bool = False

    def __str__(self) -> str:
        return f"{self.value:g}"


@dataclass(frozen=True)
class AttributeVariable:
    """Named data of a match: the number of a constant, an attribute, or the result of a function."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Absent:
    """An omitted optional operand."""

    def __str__(self) -> str:
        return "None"


class _Compound:
    """A compound term; terms may be deeply nested, so the hash is computed once."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((type(self), *(getattr(self, field.name) for field in fields(self))))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Operation(_Compound):
    """The first result of an ONNX operator.

    attributes: values to match or to build: plain data, an AttributeVariable, or an expression of those. Attributes
                that are neither listed nor bound to `rest` must have ONNX's default.
    rest:       the name to which all other attributes are bound; "" if there must be no others.
    further:    the name to which all further operands are bound; "" if there must be none.
    """

    operator: str
    operands: tuple[Term, ...]
    attributes: tuple[tuple[str, Any], ...] = ()
    rest: str = ""
    further: str = ""

    __hash__ = _Compound.__hash__

    def __str__(self) -> str:
        further = [f"*{self.further}"] if self.further else []
        attributes = [f"{key}={value}" for key, value in self.attributes]
        return f"{self.operator}({', '.join([*map(str, self.operands), *further, *attributes])})"


@dataclass(frozen=True)
class Result(_Compound):
    """A further result of an operator. index: from 1."""

    call: Operation
    index: int

    __hash__ = _Compound.__hash__

    def __str__(self) -> str:
        return f"result {self.index} of {self.call}"


@dataclass(frozen=True)
class Product(_Compound):
    """A number times values, by Mul and Div in any order and grouping."""

    number: Number | AttributeVariable
    factors: tuple[Term, ...]

    __hash__ = _Compound.__hash__

    def __str__(self) -> str:
        one = isinstance(self.number, Number) and self.number.value == 1
        return " * ".join(map(str, self.factors if one else (self.number, *self.factors)))


@dataclass(frozen=True)
class OneOf(_Compound):
    """The first of several terms that matches."""

    terms: tuple[Term, ...]

    __hash__ = _Compound.__hash__

    def __str__(self) -> str:
        return f"({' | '.join(map(str, self.terms))})"


Term = Variable | Number | AttributeVariable | Absent | Operation | Result | Product | OneOf


def parts_of(term: Term) -> tuple[Term, ...]:
    """The direct subterms."""
    match term:
        case Operation(_, operands):
            return operands
        case Result(call, _):
            return (call,)
        case Product(_, factors):
            return factors
        case OneOf(terms):
            return terms
    return ()


def terms_of(*terms: Term) -> Iterator[Term]:
    """The terms and all subterms, operands first, each once."""
    seen: set[int] = set()

    def walk(part: Term) -> Iterator[Term]:
        if id(part) in seen:
            return
        seen.add(id(part))
        for inner in parts_of(part):
            yield from walk(inner)
        yield part

    for term in terms:
        yield from walk(term)


@cache
def operators_of(term: Term) -> tuple[str, ...]:
    """The operators of possible producers; empty if the term is not the result of a node."""
    match term:
        case Operation(operator, _):
            results = [operator]
        case Result(call, _):
            results = [call.operator]
        case Product(_, factors):
            results = ["Mul", "Div", *(operators_of(factors[0]) if len(factors) == 1 else ())]
        case OneOf(terms):
            results = [operator for one in terms for operator in operators_of(one)]
        case _:
            results = []
    return tuple(dict.fromkeys(results))


def required_producers(term: Term) -> tuple[str, ...]:
    """Operators, one of which must produce the term; empty if a value without producer may match."""
    if isinstance(term, OneOf) and not all(map(required_producers, term.terms)):
        return ()
    if isinstance(term, Product) and len(term.factors) == 1 and not required_producers(term.factors[0]):
        return ()
    return operators_of(term)
