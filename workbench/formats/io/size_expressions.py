"""Checks size expressions of a `.pt2`, which sympy evaluates as Python: what they call and how large numbers get."""

from __future__ import annotations

import ast
import re
import warnings

_LONGEST = 10_000  # characters of an expression
_MAX_BITS = 4096  # the most bits of any number in an expression; a size has 63
_SYMBOL_BITS = 63
_MAX_DEPTH = 100
_FUNCTIONS = frozenset(
    # sympy's, and those of torch.utils._sympy.functions
    "Symbol Integer Rational Float Add Mul Pow Max Min Abs Mod And Or Not Eq Ne Equality Unequality LessThan "  # noqa: SIM905
    "StrictLessThan GreaterThan StrictGreaterThan floor ceiling FloorDiv ModularIndexing Where PythonMod CleanDiv "
    "CeilToInt FloorToInt CeilDiv LShift RShift PowByNatural FloatPow FloatTrueDiv IntTrueDiv TruncToFloat TruncToInt "
    "RoundToInt RoundDecimal ToFloat Identity IsNonOverlappingAndDenseIndicator".split()
)
# The result has the bits of the first operand times, or plus, the second operand.
_POWERS = ("Pow", "PowByNatural", "FloatPow", "LShift")
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv)
_READS_TEXT = ("Symbol", "Integer", "Float")
_TEXT = re.compile(r"[A-Za-z_]\w{0,199}|[+-]?\d{1,40}(\.\d{0,40})?(e[+-]?\d{1,3})?")  # the text of a symbol or a number


def is_of_sizes(expression: str) -> bool:
    """Whether the expression consists of numbers, symbols and known functions, and computes no huge number."""
    if len(expression) > _LONGEST:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of expressions that make no sense
            return _bits(ast.parse(expression, mode="eval").body, 0) <= _MAX_BITS
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two for deep nesting
        return False


def _bits(node: ast.AST, depth: int) -> int:
    """An upper bound of the bits of numbers in it. Raises ValueError for an unknown construct."""
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deep")
    match node:
        case ast.Name():
            return _SYMBOL_BITS
        case ast.Constant(value=bool() | None):
            return 1
        case ast.Constant(value=int(number)):
            return _checked(number.bit_length())
        case ast.Constant(value=float()):
            return 1024
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _bits(operand, depth + 1)
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _OPERATORS):
            return _checked(_bits(left, depth + 1) + _bits(right, depth + 1))
        case ast.Compare(left=left, comparators=others):
            return _checked(sum(_bits(term, depth + 1) for term in (left, *others)))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in _FUNCTIONS:
            return _checked(_bits_of_call(name, args, keywords, depth + 1))
    raise ValueError("not an expression of sizes")


def _bits_of_call(name: str, args: list[ast.expr], keywords: list[ast.keyword], depth: int) -> int:
    for keyword in keywords:  # assumptions of a symbol, the precision of a Float
        if not isinstance(keyword.value, ast.Constant):
            raise ValueError("a keyword is not a constant")
    if name in _READS_TEXT and len(args) == 1 and isinstance(args[0], ast.Constant) and isinstance(args[0].value, str):
        if not _TEXT.fullmatch(args[0].value):
            raise ValueError("neither a symbol nor a number")
        args = []
    bits = [_bits(arg, depth) for arg in (*args, *(keyword.value for keyword in keywords))]
    precisions = [keyword.value.value for keyword in keywords if keyword.arg in ("precision", "dps")]  # type: ignore[attr-defined]
    if any(not isinstance(precision, int) or precision > _MAX_BITS for precision in precisions):
        raise ValueError("a precision is too large")
    if name == "Symbol":
        return _SYMBOL_BITS
    if name == "Float":
        return 1024
    if name not in _POWERS or len(args) != 2:
        return sum(bits) + 1
    exponent = _number(args[1])
    if exponent is None:  # it has a symbol, which is not evaluated
        return bits[0] + _SYMBOL_BITS
    return bits[0] * max(abs(exponent), 1) if name != "LShift" else bits[0] + abs(exponent)


def _number(node: ast.expr) -> int | None:
    """A bound of the magnitude of a constant exponent; None for an exponent with symbols."""
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Call(func=ast.Name(id="Integer"), args=[operand]):
            return _number(operand)
        case ast.UnaryOp(operand=operand):
            return _number(operand)
    if any(isinstance(part, ast.Call) and getattr(part.func, "id", "") == "Symbol" for part in ast.walk(node)):
        return None
    if any(isinstance(part, ast.Name) and part.id not in _FUNCTIONS for part in ast.walk(node)):
        return None
    raise ValueError("an exponent is computed")


def _checked(bits: int) -> int:
    if bits > _MAX_BITS:
        raise ValueError("a number is too large")
    return bits
