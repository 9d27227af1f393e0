"""The mutants of a file: its syntax tree with one change of logic.

The changes are those of Offutt et al. (1996: conditions, comparisons, connectives, arithmetic, negations), and what is
removed: a statement, an element, a keyword. A change that another one implies is left out: whatever test notices
`a or b` in place of `a and b` notices `a` or `b` alone. Sentences and types are not changed.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
BOUNDS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
COMMUTATIVE = (ast.Add, ast.Mult, ast.BitOr, ast.BitAnd, ast.BitXor)
INVERSES = {ast.Sub: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult}
NAMES = {"all": "any", "any": "all", "min": "max", "max": "min", "startswith": "endswith", "endswith": "startswith"}
CONDITIONAL = (ast.If, ast.IfExp, ast.While)
UNCHANGED = (ast.Assert, ast.Import, ast.ImportFrom, ast.arg)
TYPES = ("annotation", "returns", "decorator_list", "bases", "format_spec")  # fields that say nothing of logic
NO_LOGIC = ("strict", "repr", "encoding", "errors", "stacklevel")  # keywords: what they say is not seen in results
COMMANDS = (ast.AugAssign, ast.Delete, ast.Raise, ast.Break, ast.Continue)


@dataclass(frozen=True)
class Mutant:
    """One change of a file, `after` "" where `before` is removed.

    function: the outermost function that has it, "" at the top of modules and classes. number: among equal changes.
    lines: of the statement that is changed.
    """

    file: str
    function: str
    before: str
    after: str
    number: int
    lines: range

    @property
    def key(self) -> tuple[str, str]:
        return self.file, self.words

    @property
    def words(self) -> str:
        change = f"`{self.before}` -> `{self.after}`" if self.after else f"without `{self.before}`"
        return f"{self.function or 'module'}: {change}" + (f" ({self.number + 1})" if self.number else "")


@dataclass(frozen=True)
class Slot:
    """Where a node is in the tree: a field of its parent, or an item of such a field."""

    parent: ast.AST
    field: str
    index: int | None = None

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


@dataclass(frozen=True)
class Place:
    """The outermost function around a node, the classes around that, and the lines of the innermost statement."""

    function: str = ""
    owner: str = ""
    lines: range = range(0)


Change = tuple[ast.AST, str, str]  # the node in place of another, and the words before and after


def mutants(file: str, text: str) -> Iterator[tuple[Mutant, ast.Module]]:
    """Each mutant with its tree, which is that of the mutant only until the next one is asked for."""
    tree = ast.parse(text)
    seen: Counter[tuple[str, ...]] = Counter()
    for slot, node, place in _nodes(tree, Place()):
        for new, before, after in _changes(slot, node):
            words = (place.function, before, after)
            slot.put(ast.fix_missing_locations(ast.copy_location(new, node)))
            yield Mutant(file, *words, seen[words], place.lines), tree
            slot.put(node)
            seen[words] += 1


def _nodes(parent: ast.AST, place: Place) -> Iterator[tuple[Slot, Any, Place]]:
    """Every node that may be changed, and where it is."""
    for field, value in ast.iter_fields(parent):
        if field in TYPES:
            continue
        for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(node, ast.AST) or _is_unchanged(node):
                continue
            inner = place
            if isinstance(parent, ast.ClassDef):
                inner = replace(inner, owner=f"{place.owner}{parent.name}.")
            if isinstance(parent, ast.FunctionDef) and field == "body":
                inner = replace(inner, function=place.function or f"{place.owner}{parent.name}")
            if isinstance(node, ast.stmt):
                inner = replace(inner, lines=_lines(node))
            yield Slot(parent, field, index), node, inner
            yield from _nodes(node, inner)


def _lines(statement: Any) -> range:
    """Those of the statement, without the statements in it."""
    last = statement.body[0].lineno - 1 if hasattr(statement, "body") else statement.end_lineno
    return range(statement.lineno, max(statement.lineno, last) + 1)


def _is_unchanged(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar"))):
            return True
        case ast.keyword(arg=name) if name in NO_LOGIC:
            return True
    return isinstance(node, UNCHANGED)


def _changes(slot: Slot, node: Any) -> Iterator[Change]:
    for new in _replacements(slot, node):
        yield new, ast.unparse(node), ast.unparse(new)
    for new, removed in _removals(slot, node):
        yield new, ast.unparse(removed), ""


def _replacements(slot: Slot, node: Any) -> Iterator[ast.AST]:
    is_condition = (slot.field == "test" and isinstance(slot.parent, CONDITIONAL)) or slot.field == "ifs"
    if is_condition:
        yield from _fixed(slot, node)
    match node:
        case ast.BoolOp(op, values):
            for index in range(len(values)):
                rest = [*values[:index], *values[index + 1 :]]
                yield ast.BoolOp(op, rest) if len(rest) > 1 else rest[0]
        case ast.Compare(left, ops, comparators):
            for index, op in enumerate(ops):
                if not is_condition or isinstance(op, BOUNDS) or len(ops) > 1:
                    yield ast.Compare(left, [*ops[:index], COMPARISONS[type(op)](), *ops[index + 1 :]], comparators)
        case ast.UnaryOp(ast.Not() | ast.USub() | ast.Invert(), operand) if not is_condition:
            yield operand
        case ast.BinOp(left, op, right):
            yield left
            if isinstance(op, COMMUTATIVE):
                yield right
            elif type(op) in INVERSES:
                yield ast.BinOp(left, INVERSES[type(op)](), right)
        case ast.Constant(value) if not isinstance(slot.parent, ast.JoinedStr):
            yield from map(ast.Constant, _other_values(value))
        case ast.Name(id, ctx) if slot.field == "func" and id in NAMES:
            yield ast.Name(NAMES[id], ctx)
        case ast.Attribute(value, attr, ctx) if slot.field == "func" and attr in NAMES:
            yield ast.Attribute(value, NAMES[attr], ctx)
        case ast.Call(ast.Name("sorted"), [items]):
            yield ast.Call(ast.Name("list", ast.Load()), [items], [])
        case ast.Call(ast.Name("reversed"), [items]):
            yield items


def _fixed(slot: Slot, condition: ast.expr) -> Iterator[ast.AST]:
    """The condition as True and as False, unless a test of its operands implies it, or the loop would never end."""
    if not isinstance(slot.parent, ast.While) and not _joins(condition, ast.And):
        yield ast.Constant(True)
    if not _joins(condition, ast.Or):
        yield ast.Constant(False)


def _joins(condition: ast.expr, op: type[ast.boolop]) -> bool:
    return isinstance(condition, ast.BoolOp) and isinstance(condition.op, op)


def _other_values(value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield value + 1 if abs(value) < 10 else value * 2
    elif isinstance(value, str) and " " not in value:  # with spaces it is a sentence
        yield value + "X"
    elif isinstance(value, bytes):
        yield value + b"X"


def _removals(slot: Slot, node: Any) -> Iterator[tuple[ast.AST, ast.AST]]:
    """The node without a part of it, and that part."""
    match node:
        case ast.Expr() | ast.Assign([ast.Attribute() | ast.Subscript(), *_]):
            yield ast.Pass(), node
        case ast.stmt() if isinstance(node, COMMANDS) and not _is_all_of_an_if(slot, node):
            yield ast.Pass(), node
        case ast.For() if not _is_empty(node.iter):
            yield _copy(node, iter=ast.Tuple([], ast.Load())), node.iter
        case ast.List(elts, ast.Load()) | ast.Set(elts) | ast.Tuple(elts, ast.Load()) if _is_a_table(slot, node):
            for index, item in enumerate(elts):
                yield _copy(node, elts=[*elts[:index], *elts[index + 1 :]]), item
        case ast.Dict(keys, values):
            for index, (key, value) in enumerate(zip(keys, values, strict=True)):
                rest = ast.Dict([*keys[:index], *keys[index + 1 :]], [*values[:index], *values[index + 1 :]])
                yield rest, ast.Dict([key], [value])
        case ast.Call(keywords=keywords):
            for index, keyword in enumerate(keywords):
                if keyword.arg not in NO_LOGIC:
                    yield _copy(node, keywords=[*keywords[:index], *keywords[index + 1 :]]), keyword
        case ast.Slice(lower, upper):
            for name, bound in (("lower", lower), ("upper", upper)):
                if bound is not None:
                    yield _copy(node, **{name: None}), bound


def _is_all_of_an_if(slot: Slot, node: ast.stmt) -> bool:
    """Then the condition as False implies it."""
    return isinstance(slot.parent, ast.If) and slot.parent.body == [node]


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, ast.Tuple) and not node.elts


def _is_a_table(slot: Slot, node: Any) -> bool:
    """Whether it may have fewer elements: not so a tuple of results, or of what a call or an index expects."""
    if not isinstance(node, ast.Tuple):
        return True
    is_operand = isinstance(slot.parent, ast.Compare | ast.For | ast.comprehension | ast.ExceptHandler)
    plain = all(isinstance(item, ast.Constant | ast.Starred) for item in node.elts)
    some_spread = any(isinstance(item, ast.Starred) for item in node.elts)
    named = (
        isinstance(slot.parent, ast.Assign | ast.AnnAssign)
        and slot.field == "value"
        and all(isinstance(target, ast.Name) for target in getattr(slot.parent, "targets", ()))
    )
    return is_operand or plain or some_spread or named


def _copy(node: Any, **changes: Any) -> Any:
    return type(node)(**{field: getattr(node, field, None) for field in node._fields} | changes)
