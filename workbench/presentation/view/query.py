"""Queries over nodes: `op:Transpose scope:attn2 shape:4096 layout:NHWC name:to_q`, and plain words.

A query is a list of terms, all of which must hold; case is ignored. A term is `key:value` or a plain word. Text in
double quotes is one word, with its colons and blanks:

    op:      the complete operator; * stands for any characters: Conv does not find ConvTranspose, Conv* does
    scope:   a part of the path of scopes, such as attn2 or layer1/conv
    name:    a part of the node's name
    shape:   consecutive sizes of a result: 4096, 1x64x56x56 or 64x*x56, with * for any size
    module:  a torch module, or an outer part of its path: encoder.layer.0 is not encoder.layer.01
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
    """A query that cannot be read."""


@dataclass(frozen=True)
class NodeFacts:
    """The properties of a node at a moment, to which a query applies.

    op:     with its domain, if that is not ONNX's: "workbench.Conv_NHWC".
    scopes: paths with slashes, outermost scope first.
    shapes: of its results, such as "1x64x56x56". layouts: of its results and weights.
    modules: paths of torch modules with dots, such as "encoder.0.attention".
    """

    op: str
    name: str
    scopes: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Condition:
    """A term of a query. key: "" for a plain word. value: in lower case."""

    key: str
    value: str

    def holds(self, node: NodeFacts) -> bool:
        return _PREDICATES[self.key](node, self.value)


@dataclass(frozen=True)
class Query:
    terms: tuple[Condition, ...]

    def holds(self, node: NodeFacts) -> bool:
        return all(term.holds(node) for term in self.terms)

    def rank(self, node: NodeFacts) -> int:
        """The rank of a hit: 0 if a plain word is its operator or name, 1 if it is a part of its operator, else 2."""
        op = _without_domain(node)
        words = [term.value for term in self.terms if not term.key]
        return 0 if op in words or node.name.casefold() in words else 1 if any(word in op for word in words) else 2


def parse_query(text: str) -> Query:
    """The query in a text; an empty text has no terms. Raises QueryError."""
    terms, end = [], 0
    text = text.strip()
    while end < len(text):
        match = _WORD.match(text, end)
        if match is None:
            raise QueryError(f"a double quote is not closed in {text[end:]}; write a second one after the text")
        terms.append(_condition(match[1]))
        end = match.end()
    return Query(tuple(terms))


def _condition(term: str) -> Condition:
    word = term.replace('"', "")
    match = _KEY.fullmatch(term)
    if match is None or term.startswith('"'):
        return Condition("", word.casefold())
    key, value = match[1].lower(), match[2].replace('"', "").casefold()
    if key not in _PREDICATES:
        raise QueryError(
            f"there is no key '{match[1]}'; the keys are {', '.join(filter(None, _PREDICATES))}, "
            f'and a word with a colon is written in double quotes, "{word}"'
        )
    if not value:
        raise QueryError(f"'{key}:' has no value; write it without a blank after the colon, such as {_EXAMPLES[key]}")
    if key == "shape" and not _SHAPE.fullmatch(value):
        raise QueryError(
            f"'{value}' is not a shape; write one size or several with x between them, such as 4096 or 1x64x*x56, "
            "where * is any size"
        )
    if key == "layout" and not _LAYOUT.fullmatch(value):
        raise QueryError(
            f"'{match[2]}' is not a layout; write Tensor, or an order of axes such as NCHW, NHWC, HWIO or NCHW8c"
        )
    return Condition(key, value)


def _is_op(node: NodeFacts, value: str) -> bool:
    return fnmatchcase(_without_domain(node), value) or fnmatchcase(node.op.casefold(), value)


def _is_in_scope(node: NodeFacts, value: str) -> bool:
    return any(value in scope.casefold() for scope in node.scopes)


def _has_shape(node: NodeFacts, value: str) -> bool:
    pattern = value.split("x")
    return any(_has_sizes(shape.split("x"), pattern) for shape in node.shapes if shape)


def _has_sizes(sizes: list[str], pattern: list[str]) -> bool:
    starts = range(len(sizes) - len(pattern) + 1)
    return any(all(p in ("*", size) for size, p in zip(sizes[start:], pattern, strict=False)) for start in starts)


def _is_in_module(node: NodeFacts, value: str) -> bool:
    """Whether the value is a part of the path of one of its modules, from dot to dot."""
    return any(f".{value}." in f".{module.casefold()}." for module in node.modules)


def _has_layout(node: NodeFacts, value: str) -> bool:
    return any(value == layout.casefold() for layout in node.layouts)


def _has_word(node: NodeFacts, value: str) -> bool:
    texts = (node.op, node.name, *node.scopes, *node.modules, *node.shapes, *node.layouts)
    return any(value in text.casefold() for text in texts)


def _without_domain(node: NodeFacts) -> str:
    return node.op.rpartition(".")[2].casefold()


_PREDICATES: dict[str, Callable[[NodeFacts, str], bool]] = {
    "op": _is_op,
    "scope": _is_in_scope,
    "module": _is_in_module,
    "name": lambda node, value: value in node.name.casefold(),
    "shape": _has_shape,
    "layout": _has_layout,
    "": _has_word,
}
_EXAMPLES = {
    "op": "op:Transpose",
    "scope": "scope:attn2",
    "module": "module:encoder.0",
    "name": "name:to_q",
    "shape": "shape:4096",
    "layout": "layout:NHWC",
}
