"""The laws of rules, and their proofs by z3.

`workbench.rewrite.patterns.laws` says how a law is written.

The kinds are integers, signed integers, booleans, floats, sizes and reals. Where a law names none, it holds for
integers, booleans and floats where its rule is exact to the last bit, and else for reals; each as far as there
are its operators. Integers wrap around, of 8 and of 64 bits, with and without a sign; a law whose left side has
Neg or Relu says nothing of those without one, which they do not take. Floats are
those of 16 bits, rounded to nearest even; NaN equals NaN, and 0.0 does not equal -0.0. Which of two
zeros min and max give is not known, only that it is the same one every time. Sizes of axes, and places
along them, are whole numbers from 0 that never overflow. Variables named p, q and r are booleans in
any kind. `minus_zero(a, b)` says that one of them is -0.0; `widen` casts to twice the bits, `narrow`
to half of them. Of exp is known that it is positive, never takes the same value twice and turns a
difference into a quotient, a sum into a product and a change of sign into a reciprocal; of log, that it undoes exp.
Numbers with which z3 finds such a law wrong are computed before that is believed.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache

import z3

from workbench.evidence.verification.pass_files.proof_numbers import NUMBER_KINDS, Booleans, NoProof, NumberKind
from workbench.evidence.verification.pass_files.sampled_laws import differs_with, kinds_asked
from workbench.rewrite import Exactness
from workbench.rewrite.patterns.laws import KINDS, Law, read_laws

_SECONDS = 120  # of one proof; most take less than one
_VAGUE = ("exp", "log", "sqrt")  # functions of which z3 knows little, so that it takes them for what they are not
_MAX_MODELS = 3  # with such functions, that are computed
_TRUTHS = frozenset("pqr")
_ARITHMETIC = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.RShift: ">>",
}


# ---- text to values ----------------------------------------------------------------


def _value(tree: ast.AST, numbers: NumberKind) -> z3.ExprRef:
    match tree:
        case ast.Expression(body):
            return _value(body, numbers)
        case ast.Name(name):
            return z3.Bool(name) if name in _TRUTHS else numbers.variable(name)
        case ast.Constant(bool() as truth):
            return z3.BoolVal(truth)
        case ast.Constant(int() | float() as number):
            return numbers.literal(number)
        case ast.UnaryOp(ast.Not(), inner):
            return z3.Not(_truth(inner, numbers))
        case ast.UnaryOp(ast.USub(), inner):
            return _computed("neg", [_value(inner, numbers)], numbers)
        case ast.UnaryOp(ast.Invert(), inner):
            return _computed("~", [_value(inner, numbers)], numbers)
        case ast.BoolOp(joined, parts):
            return (z3.And if isinstance(joined, ast.And) else z3.Or)(*[_truth(part, numbers) for part in parts])
        case ast.BinOp(left, op, right):
            name = _ARITHMETIC.get(type(op), type(op).__name__)
            return _computed(name, [_value(left, numbers), _value(right, numbers)], numbers)
        case ast.Compare(left, [op], [right]):
            return _compared(op, _alike([_value(left, numbers), _value(right, numbers)]), numbers)
        case ast.Call(ast.Name("where"), [chosen, left, right]):
            return z3.If(_truth(chosen, numbers), *_alike([_value(left, numbers), _value(right, numbers)]))
        case ast.Call(ast.Name("xor"), [left, right]):
            return z3.Xor(_truth(left, numbers), _truth(right, numbers))
        case ast.Call(ast.Name(name), arguments):
            return _computed(name, [_value(argument, numbers) for argument in arguments], numbers)
    raise NoProof(ast.unparse(tree))


def _computed(name: str, operands: list[z3.ExprRef], numbers: NumberKind) -> z3.ExprRef:
    if name not in numbers.operations:
        raise NoProof(name)
    if any(z3.is_bool(operand) for operand in operands):
        raise NoProof(f"{name} of truth values")
    return numbers.operations[name](*operands)


def _truth(tree: ast.AST, numbers: NumberKind) -> z3.BoolRef:
    value = _value(tree, numbers)
    if not z3.is_bool(value):
        raise NoProof(f"{ast.unparse(tree)} is no truth value")
    return value


def _alike(values: list[z3.ExprRef]) -> list[z3.ExprRef]:
    if len({value.sort() for value in values}) > 1:
        raise NoProof("numbers and truth values together")
    return values


def _compared(op: ast.cmpop, operands: list[z3.ExprRef], numbers: NumberKind) -> z3.BoolRef:
    left, right = operands
    if isinstance(op, ast.Eq | ast.NotEq):
        equal = z3.fpEQ(left, right) if z3.is_fp(left) else left == right
        return equal if isinstance(op, ast.Eq) else z3.Not(equal)
    smaller, larger = (left, right) if isinstance(op, ast.Lt | ast.LtE) else (right, left)
    return _computed("<" if isinstance(op, ast.Lt | ast.Gt) else "<=", [smaller, larger], numbers)


# ---- proofs ------------------------------------------------------------------------


class _Undecided(Exception):
    """z3 has no answer that can be believed; the message is the beginning of a sentence."""


@dataclass(frozen=True)
class Proof:
    """proved: the kinds of numbers for which it holds. wrong: a sentence, or "". missing: why there is no proof."""

    proved: tuple[str, ...] = ()
    wrong: str = ""
    missing: str = ""


@cache
def prove(text: str, exactness: Exactness) -> Proof:
    """The law for every kind of numbers that it speaks of, or that its rule's exactness asks for."""
    proofs = [_proof(law, exactness) for law in read_laws(text)]
    wrong = next((f"{text} {proof.wrong}" for proof in proofs if proof.wrong), "")
    if wrong:
        return Proof(wrong=wrong)
    missing = next((proof.missing for proof in proofs if proof.missing), "")
    proved = {kind for proof in proofs for kind in proof.proved}
    return Proof(() if missing else tuple(kind for kind in KINDS if kind in proved), missing=missing)


def _proof(law: Law, exactness: Exactness) -> Proof:
    proved, missing = [], ""
    for kind in kinds_asked(law, exactness):
        types = [make() for make in NUMBER_KINDS[kind]]
        lacking = ""
        for numbers in types:
            try:
                wrong = _counterexample(law, numbers)
            except NoProof as unknown:
                lacking = f"z3 has no {unknown} for {kind}"
                continue
            except _Undecided as why:
                lacking = f"{why} for {kind}"
                continue
            if wrong:
                return Proof(wrong=f"is wrong for {kind}{f' ({numbers.name})' if numbers.name else ''}: {wrong}")
            if kind not in proved:
                proved.append(kind)
        missing = missing if kind in proved else lacking
    enough = proved and (not law.kinds or len(proved) == len(law.kinds))
    return Proof(tuple(proved), missing="" if enough else missing)


def _require_taken(left: ast.AST, numbers: NumberKind) -> None:
    """Raises NoProof if no graph computes the left side with these numbers: the law says nothing of them then."""
    for part in ast.walk(left):
        match part:
            case ast.UnaryOp(ast.USub(), ast.Constant()):
                continue
            case ast.UnaryOp(ast.USub()):
                name = "neg"
            case ast.Call(ast.Name(called)):
                name = called
            case _:
                continue
        if name in numbers.not_taken:
            raise NoProof(name)


def _counterexample(law: Law, numbers: NumberKind) -> str:
    """Values for which the law is wrong; "" where it is proved. Raises NoProof, or _Undecided."""
    trees = [ast.parse(side, mode="eval") for side in (*law.sides, law.condition or "True")]
    named = {part.id for tree in trees for part in ast.walk(tree) if isinstance(part, ast.Name)}
    if named <= _TRUTHS and not isinstance(numbers, Booleans):
        raise NoProof("number in it")
    _require_taken(trees[0], numbers)
    *sides, condition = [_value(tree, numbers) for tree in trees]
    _alike(sides)
    solver = z3.Solver()
    solver.set("timeout", _SECONDS * 1000)
    solver.add(condition, *numbers.facts)
    solver.add(z3.Or(*[sides[0] != other for other in sides[1:]]))  # of floats too: NaN is NaN, 0.0 is not -0.0
    for _ in range(_MAX_MODELS):
        answer = solver.check()
        if answer == z3.unsat:
            return ""
        if answer != z3.sat:
            raise _Undecided(f"z3 did not decide it in {_SECONDS} seconds")
        model = solver.model()
        found = {name: model[name] for name in model.decls() if name.arity() == 0}
        is_sound = not any(name.arity() and str(name) in _VAGUE for name in model.decls())
        if is_sound or differs_with(law, {str(name): _as_float(value) for name, value in found.items()}):
            values = {str(name): _as_number(value, numbers) for name, value in found.items()}
            return f"with {', '.join(f'{name} = {value}' for name, value in sorted(values.items()))}"
        solver.add(z3.Or(*[name() != value for name, value in found.items()]))
    raise _Undecided("z3 calls it wrong, but not with numbers with which it is")


def _as_float(value: z3.ExprRef) -> float:
    """A real number of a model, rounded."""
    exact = value.approx(20) if isinstance(value, z3.AlgebraicNumRef) else value
    return float(exact.as_fraction())


def _as_number(value: z3.ExprRef, numbers: NumberKind) -> str:
    """A number of a model, as Python writes it."""
    if isinstance(value, z3.BitVecNumRef):
        return str(value.as_signed_long() if numbers.is_signed else value.as_long())
    if not isinstance(value, z3.FPNumRef):
        return str(value)
    if value.isNaN() or value.isInf() or value.isZero():
        sign = "-" if value.isNegative() and not value.isNaN() else ""
        return sign + ("nan" if value.isNaN() else "inf" if value.isInf() else "0.0")
    return str(float(z3.simplify(z3.fpToReal(value)).as_fraction()))
