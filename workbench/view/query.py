"""Queries over nodes: `op:Transpose scope:attn2 shape:4096 layout:NHWC name:to_q`, and plain words.

A query is a list of terms, all of which must hold; case is ignored. A term is `key:value` or a plain word, and what
stands between double quotes is one word, colons and blanks included:

    op:      the operator, whole; * stands for any characters, so that Conv does not find ConvTranspose, and Conv* does
    scope:   a part of the path of scopes, such as attn2 or layer1/conv
    name:    a part of the node's name
    shape:   sizes in a row, of a result: 4096, 1x64x56x56 or 64x*x56, with * for any size
    layout:  Tensor, or an order of axes, of a result or of the weights: NHWC, HWIO, NCHW8c
    word     a part of the operator, name, scopes, shapes or layouts
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from workbench.errors import UserError

_WORD = re.compile(r'((?:[^\s"]|"[^"]*")+)\s*')
_KEY = re.compile(r"([A-Za-z_]+):(.*)", re.DOTALL)
_SHAPE = re.compile(r"(?:\d+|\*)(?:x(?:\d+|\*))*")
_LAYOUT = re.compile(r"tensor|[ncdhwgoi]+(?:\d+c)?")


class QueryError(UserError):
    """A query that cannot be read; the message is one sentence."""


@dataclass(frozen=True)
class NodeFacts:
    """What a query is asked about: a node as it is at some moment.

    op:      with its domain, if that is not ONNX's: "workbench.Conv_NHWC".
    scopes:  paths with slashes, outermost scope first.
    shapes:  of its results, "1x64x56x56"; layouts: of its results and weights.
    """

    op: str
    name: str
    scopes: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Condition:
    """One condition; key "" is a plain word. The value is in lower case."""

    key: str
    value: str

    def holds(self, node: NodeFacts) -> bool:
        return _HOLDS[self.key](node, self.value)


@dataclass(frozen=True)
class Query:
    terms: tuple[Condition, ...]

    def holds(self, node: NodeFacts) -> bool:
        return all(term.holds(node) for term in self.terms)

    def rank(self, node: NodeFacts) -> int:
        """The place of a hit: 0 if a plain word is its operator or name, 1 if it is a part of its operator, else 2."""
        op = _without_domain(node)
        words = [term.value for term in self.terms if not term.key]
        return 0 if op in words or node.name.casefold() in words else 1 if any(word in op for word in words) else 2


def parse_query(text: str) -> Query:
    """The query that is written there; an empty text has no terms. Raises QueryError with a sentence."""
    terms, end = [], 0
    text = text.strip()
    while end < len(text):
        rewrite = _WORD.match(text, end)
        if rewrite is None:
            raise QueryError(f"a double quote is not closed in {text[end:]}; write a second one after the words")
        terms.append(_condition(rewrite[1]))
        end = rewrite.end()
    return Query(tuple(terms))


def _condition(written: str) -> Condition:
    plain = written.replace('"', "")
    match = _KEY.fullmatch(written)
    if match is None or written.startswith('"'):
        return Condition("", plain.casefold())
    key, value = match[1].lower(), match[2].replace('"', "").casefold()
    if key not in _HOLDS:
        raise QueryError(
            f"there is no key '{match[1]}'; the keys are {', '.join(filter(None, _HOLDS))}, "
            f'and a word with a colon is written in double quotes, "{plain}"'
        )
    if not value:
        raise QueryError(f"'{key}:' has no value; write it without a blank after the colon, such as {_EXAMPLES[key]}")
    if key == "shape" and not _SHAPE.fullmatch(value):
        raise QueryError(
            f"'{value}' is no shape; write one size or several with x between them, such as 4096 or 1x64x*x56, "
            "where * is any size"
        )
    if key == "layout" and not _LAYOUT.fullmatch(value):
        raise QueryError(
            f"'{match[2]}' is no layout; write Tensor, or an order of axes such as NCHW, NHWC, HWIO or NCHW8c"
        )
    return Condition(key, value)


def _is_op(node: NodeFacts, value: str) -> bool:
    return fnmatchcase(_without_domain(node), value) or fnmatchcase(node.op.casefold(), value)


def _is_in_scope(node: NodeFacts, value: str) -> bool:
    return any(value in scope.casefold() for scope in node.scopes)


def _has_shape(node: NodeFacts, value: str) -> bool:
    wanted = value.split("x")
    return any(_has_sizes(shape.split("x"), wanted) for shape in node.shapes if shape)


def _has_sizes(sizes: list[str], wanted: list[str]) -> bool:
    starts = range(len(sizes) - len(wanted) + 1)
    return any(all(w in ("*", size) for size, w in zip(sizes[start:], wanted, strict=False)) for start in starts)


def _has_layout(node: NodeFacts, value: str) -> bool:
    return any(value == layout.casefold() for layout in node.layouts)


def _has_word(node: NodeFacts, value: str) -> bool:
    places = (node.op, node.name, *node.scopes, *node.shapes, *node.layouts)
    return any(value in place.casefold() for place in places)


def _without_domain(node: NodeFacts) -> str:
    return node.op.rpartition(".")[2].casefold()


_HOLDS: dict[str, Callable[[NodeFacts, str], bool]] = {
    "op": _is_op,
    "scope": _is_in_scope,
    "name": lambda node, value: value in node.name.casefold(),
    "shape": _has_shape,
    "layout": _has_layout,
    "": _has_word,
}
_EXAMPLES = {
    "op": "op:Transpose",
    "scope": "scope:attn2",
    "name": "name:to_q",
    "shape": "shape:4096",
    "layout": "layout:NHWC",
}
