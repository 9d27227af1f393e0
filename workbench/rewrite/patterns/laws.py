"""Laws of rules: equations in Python's syntax, read as data.

A law is one equation, or several separated by semicolons; it may be restricted to kinds of numbers, and an
equation may have a condition:

    -(-x) == x
    for integers: (x * a) * b == x * (a * b)
    for signed integers: x * -1 == -x
    for reals: (x * a) / b == x * (a / b) if b != 0
    x + a == a + x; x * a == a * x

The same text is proved by z3 (`evidence/verification/pass_files/proofs.py`) and, where its sides are expressions of
ONNX operators, matched and rewritten from left to right (`workbench.rewrite.patterns.algebra`).
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from workbench.rewrite.patterns.terms import Number, Operation, Term, Variable

KINDS = ("integers", "signed integers", "booleans", "floats", "sizes", "reals")
_PREFIX = re.compile(r"for ([a-z, ]+): (.*)")
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "Add",
    ast.Sub: "Sub",
    ast.Mult: "Mul",
    ast.Div: "Div",
    ast.Pow: "Pow",
    ast.BitAnd: "BitwiseAnd",
    ast.BitOr: "BitwiseOr",
    ast.BitXor: "BitwiseXor",
    ast.And: "And",
    ast.Or: "Or",
    ast.Not: "Not",
    ast.USub: "Neg",
    ast.Invert: "BitwiseNot",
    ast.Eq: "Equal",
    ast.Lt: "Less",
    ast.LtE: "LessOrEqual",
    ast.Gt: "Greater",
    ast.GtE: "GreaterOrEqual",
}
_FUNCTIONS = {
    "abs": "Abs",
    "ceil": "Ceil",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "log": "Log",
    "matmul": "MatMul",
    "max": "Max",
    "min": "Min",
    "reciprocal": "Reciprocal",
    "relu": "Relu",
    "round": "Round",
    "sign": "Sign",
    "sqrt": "Sqrt",
    "where": "Where",
    "xor": "Xor",
}


@dataclass(frozen=True)
class Law:
    """One equation.

    kinds:     the kinds of numbers for which it holds; empty if it names none.
    sides:     the equal expressions.
    condition: "" if there is none.
    """

    kinds: tuple[str, ...]
    sides: tuple[str, ...]
    condition: str = ""


def read_laws(text: str) -> tuple[Law, ...]:
    """Parse the equations of a law. Raises ValueError if it is not valid."""
    prefix = _PREFIX.fullmatch(text)
    kinds = tuple(re.split(r", | and ", prefix[1])) if prefix else ()
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise ValueError(f"'{unknown[0]}' in the law '{text}' is not a kind of numbers: {', '.join(KINDS)}")
    return tuple(_equation(kinds, part) for part in (prefix[2] if prefix else text).split("; "))


def _equation(kinds: tuple[str, ...], text: str) -> Law:
    equation, _, condition = text.partition(" if ")
    sides = tuple(_split_outside_parentheses(equation))
    if len(sides) < 2:
        raise ValueError(f"a law is an equation with '==', which '{text}' is not")
    return Law(kinds, sides, condition)


def _split_outside_parentheses(equation: str) -> list[str]:
    """Split at each "==" outside parentheses; Python would parse `not a == b` as the negation of an equation."""
    sides, depth = [""], 0
    for part in re.split(r"(==|[()])", equation):
        depth += (part == "(") - (part == ")")
        if part == "==" and not depth:
            sides.append("")
        else:
            sides[-1] += part
    return [side.strip() for side in sides]


def read_term(text: str) -> Term:
    """Parse one side of a law, or its condition, as an expression of ONNX operators; else raise ValueError."""
    return _term(ast.parse(text, mode="eval").body)


def _term(tree: ast.AST) -> Term:
    match tree:
        case ast.Name(name):
            return Variable(name)
        case ast.Constant(int() | float() as number):
            return Number(number)
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as number)):
            return Number(-number)
        case ast.UnaryOp(operator, operand) if type(operator) in _OPERATORS:
            return _call(operator, operand)
        case ast.BinOp(left, operator, right) if type(operator) in _OPERATORS:
            return _call(operator, left, right)
        case ast.BoolOp(operator, [left, right]):
            return _call(operator, left, right)
        case ast.Compare(left, [ast.NotEq()], [right]):
            return Operation("Not", (_call(ast.Eq(), left, right),))
        case ast.Compare(left, [operator], [right]) if type(operator) in _OPERATORS:
            return _call(operator, left, right)
        case ast.Call(ast.Name(name), operands) if name in _FUNCTIONS:
            return Operation(_FUNCTIONS[name], tuple(map(_term, operands)))
        case ast.Call(ast.Name(name)):
            raise ValueError(f"'{name}' is not a function of equations; there are {', '.join(_FUNCTIONS)}")
    raise ValueError(f"'{ast.unparse(tree)}' is not an expression of ONNX operators")


def _call(operator: ast.AST, *operands: ast.AST) -> Operation:
    return Operation(_OPERATORS[type(operator)], tuple(map(_term, operands)))
