"""Graphs as patterns: assignments in Python's syntax, read as data.

    d = Sub(x, ReduceMean(x, axes=axes))
    v = ReduceMean(Mul(d, d) | Pow(d, 2), axes=axes)
    y = Div(d, Sqrt(Add(v, epsilon)))

Each line names the result of a node, or its results: `b, c = Split(x, axis=axis)`. A name that no line defines is any
value; the same name is the same value. `a | b` is an alternative: the first that matches is taken. `None` is an
omitted operand: `Conv(x, w, bias | None)`. Keywords are attributes, and constant operands by their ONNX names; a name
as their value is bound to the node's. Attributes that are not written must have ONNX's default, unless `**others` binds
them; `*others` binds further operands. A name of `operators` is one of several operators: `y = op(x)`. On the left, `*`
and `/` are products: a number times values, by Mul and Div in any order and grouping. An integer is compared exactly, a
number with a point or in a product within the rounding of float32.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from workbench.rewrite.patterns.terms import (
    Absent,
    AttributeVariable,
    Number,
    OneOf,
    Operation,
    Product,
    Result,
    Term,
    Variable,
    terms_of,
)

_CONSTANTS = {"pi": math.pi}
_ARITHMETIC: dict[type[ast.AST], str] = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.Div: "Div"}
_NUMBERS = {"Add": float.__add__, "Sub": float.__sub__, "Mul": float.__mul__, "Div": float.__truediv__}


@dataclass(frozen=True)
class GraphText:
    """One of the two graphs of a rule. names: the named terms, in order."""

    text: str
    names: Mapping[str, Term] = field(default_factory=dict)

    @cached_property
    def variables(self) -> set[str]:
        return {part.name for part in self.parts if isinstance(part, Variable)}

    @cached_property
    def parts(self) -> tuple[Term, ...]:
        """The terms and all their subterms, each once."""
        return tuple(terms_of(*self.names.values()))

    @cached_property
    def data(self) -> set[str]:
        """Names of numbers and attributes."""
        results = {part.name for part in self.parts if isinstance(part, AttributeVariable)}
        products = (part.number for part in self.parts if isinstance(part, Product))
        results |= {number.name for number in products if isinstance(number, AttributeVariable)}
        for call in (part for part in self.parts if isinstance(part, Operation)):
            results |= {call.rest, call.further} - {""}
            for _, value in call.attributes:
                results |= {part.name for part in terms_of(value) if isinstance(part, AttributeVariable)}
        return results


def read_before(text: str, numbers: Collection[str], operators: Mapping[str, str] | None = None) -> GraphText:
    """Parse the graph to match. numbers: names of scalar constants. operators: what names of operators stand for.

    Raises ValueError, with the line, if it is not valid.
    """
    return _Reader(text, numbers, {}, operators or {}, products=True).graph()


def read_after(
    text: str, before: GraphText, data: Collection[str], operators: Mapping[str, str] | None = None
) -> GraphText:
    """Parse the replacement, which uses names of the graph to match. data: names that are not values.

    Raises ValueError, with the line, if it is not valid.
    """
    return _Reader(text, data, before.names, operators or {}, products=False).graph()


@dataclass
class _Reader:
    """Parser of one graph.

    data:      names that are not values.
    known:     named terms of the graph to match.
    operators: what names of operators stand for.
    products:  whether `*` and `/` are products in any grouping, as in a graph to match.
    """

    text: str
    data: Collection[str]
    known: Mapping[str, Term]
    operators: Mapping[str, str]
    products: bool

    def graph(self) -> GraphText:
        source = inspect.cleandoc(self.text)
        try:
            lines = ast.parse(source).body
        except SyntaxError as error:
            raise ValueError(f"line {error.lineno} of the graph '{source}' is not an assignment: {error.msg}") from None
        if not lines:
            raise ValueError("a pattern has at least one line such as 'y = Add(x, z)'")
        names: dict[str, Term] = {}
        for line in lines:
            if not isinstance(line, ast.Assign) or len(line.targets) != 1:
                raise ValueError(f"'{ast.unparse(line)}' is not written as 'y = Add(x, z)'")
            self._assign(line.targets[0], self._term(line.value, names), names)
        return GraphText(source, names)

    def _assign(self, target: ast.expr, term: Term, names: dict[str, Term]) -> None:
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        targets_text = ", ".join(ast.unparse(target) for target in targets)
        for index, target in enumerate(targets):
            if not isinstance(target, ast.Name):
                raise ValueError(f"'{targets_text}' is not the name of a result")
            if target.id in names or target.id in self.data:
                raise ValueError(f"'{target.id}' is named twice")
            if index and not isinstance(term, Operation):
                raise ValueError(f"'{targets_text}' are several results, and {term} is not an operator")
            names[target.id] = Result(term, index) if index and isinstance(term, Operation) else term

    def _term(self, tree: ast.expr, names: Mapping[str, Term]) -> Term:
        number = _number(tree)
        if number is not None:
            return Number(number, near=not _is_whole(tree))
        match tree:
            case ast.Name(name):
                if name in self.data:
                    return AttributeVariable(name)
                return names.get(name) or self.known.get(name) or Variable(name)
            case ast.Constant(None):
                return Absent()
            case ast.BinOp(left, ast.BitOr(), right):
                first = self._term(left, names)
                others = first.terms if isinstance(first, OneOf) and isinstance(left, ast.BinOp) else (first,)
                return OneOf((*others, self._term(right, names)))
            case ast.BinOp(_, ast.Mult() | ast.Div(), _) if self.products:
                return self._product(tree, names)
            case ast.BinOp(left, operator, right) if type(operator) in _ARITHMETIC:
                return Operation(_ARITHMETIC[type(operator)], (self._term(left, names), self._term(right, names)))
            case ast.Call(ast.Name() | ast.Attribute() as operator, operands, keywords):
                written = ast.unparse(operator)
                return self._call(self.operators.get(written, written), operands, keywords, names)
        raise ValueError(f"'{ast.unparse(tree)}' is not an expression of a graph")

    def _call(
        self, operator: str, operands: list[ast.expr], keywords: list[ast.keyword], names: Mapping[str, Term]
    ) -> Operation:
        if "." not in operator and not operator[0].isupper():
            raise ValueError(f"'{operator}' is not an operator; operators are written as in ONNX, such as ReduceMean")
        rest = [keyword.value.id for keyword in keywords if keyword.arg is None and isinstance(keyword.value, ast.Name)]
        attributes = tuple((keyword.arg, self._attribute(keyword.value)) for keyword in keywords if keyword.arg)
        further = ""
        match operands:
            case [*first, ast.Starred(ast.Name(name))]:
                operands, further = first, name
        terms = tuple(self._term(operand, names) for operand in operands)
        return Operation(operator, terms, attributes, rest[0] if rest else "", further)

    def _attribute(self, tree: ast.expr) -> Any:
        number = _number(tree)
        match tree:
            case ast.Constant(str() | int() as value):
                return value
            case ast.UnaryOp() if number is not None and number == int(number):
                return int(number)
            case ast.List(items) | ast.Tuple(items):
                return tuple(self._attribute(item) for item in items)
            case ast.Name(name) if number is None:
                return AttributeVariable(name)
            case ast.BinOp(left, operator, right) if number is None and type(operator) in _ARITHMETIC:
                sides = (self._attribute(side) for side in (left, right))
                terms = (side if isinstance(side, AttributeVariable | Operation) else Number(side) for side in sides)
                return Operation(_ARITHMETIC[type(operator)], tuple(terms))
        if number is None:
            raise ValueError(f"'{ast.unparse(tree)}' is not an attribute, which is a number, a text, a list or a name")
        return number

    def _product(self, tree: ast.expr, names: Mapping[str, Term]) -> Product:
        product = self._factors(tree, names)
        calls_first = sorted(product.factors, key=lambda factor: isinstance(factor, Variable))
        if not product.factors:
            raise ValueError(f"'{ast.unparse(tree)}' multiplies no value")
        return Product(product.number, tuple(calls_first))

    def _factors(self, tree: ast.expr, names: Mapping[str, Term]) -> Product:
        match tree:
            case ast.BinOp(left, ast.Mult(), right):
                return _multiplied(self._factors(left, names), self._factors(right, names), tree)
            case ast.BinOp(left, ast.Div(), right) if _number(tree) is None:
                divisor = _number(right)
                if not divisor:
                    raise ValueError(f"'{ast.unparse(tree)}' divides by a value; write Div for it")
                return _multiplied(self._factors(left, names), Product(Number(1 / divisor), ()), tree)
        term = self._term(tree, names)
        if isinstance(term, Product):
            return term
        if isinstance(term, Number | AttributeVariable):
            return Product(Number(term.value) if isinstance(term, Number) else term, ())
        return Product(Number(1), (term,))


def _multiplied(first: Product, second: Product, tree: ast.expr) -> Product:
    factors = (*first.factors, *second.factors)
    if isinstance(first.number, Number) and isinstance(second.number, Number):
        return Product(Number(first.number.value * second.number.value), factors)
    named = [number for number in (first.number, second.number) if isinstance(number, AttributeVariable)]
    if len(named) == 2 or Number(1) not in (first.number, second.number):
        raise ValueError(f"'{ast.unparse(tree)}' multiplies a named number by another number")
    return Product(named[0], factors)


def _is_whole(tree: ast.expr) -> bool:
    """Whether it is written as an integer."""
    operand = tree.operand if isinstance(tree, ast.UnaryOp) else tree
    return isinstance(operand, ast.Constant) and isinstance(operand.value, int)


def _number(tree: ast.expr) -> float | None:
    """The value of an expression of numbers; None for anything else."""
    match tree:
        case ast.Constant(int() | float() as number) if not isinstance(number, bool):
            return float(number)
        case ast.Name(name):
            return _CONSTANTS.get(name)
        case ast.UnaryOp(ast.USub(), operand):
            negated = _number(operand)
            return None if negated is None else -negated
        case ast.Call(ast.Name("sqrt"), [operand]):
            squared = _number(operand)
            return None if squared is None else math.sqrt(squared)
        case ast.BinOp(left, operator, right) if type(operator) in _ARITHMETIC:
            sides = (_number(left), _number(right))
            if sides[0] is None or sides[1] is None:
                return None
            return _NUMBERS[_ARITHMETIC[type(operator)]](sides[0], sides[1])
    return None
