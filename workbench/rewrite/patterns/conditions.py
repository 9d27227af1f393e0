"""Functions of a match that name what they read: `lambda p, q: compose(p, q)`.

A parameter is a name of the pattern. It stands for an attribute, a number, an operator, further operands, what another
function computes, the array of a value that must be a constant, or the name of any other value, None if it is omitted.
`match`, `graph`, `root` and `nodes` are the match, its graph, the last node, and all nodes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from workbench.errors import counted
from workbench.rewrite.core.rule import NoMatch
from workbench.rewrite.patterns.matching import Match
from workbench.rewrite.patterns.terms import Operation

NamedFunction = Callable[..., Any]  # by the names of its parameters
WhereClause = NamedFunction | tuple[NamedFunction, str]  # raises NoMatch, or holds, with the sentence of the refusal
_OF_ALL = ("match", "graph", "root", "nodes")


def by_name(function: NamedFunction) -> Callable[[Match], Any]:
    """The function of a match that calls this one with what its parameters name."""
    names = tuple(inspect.signature(function).parameters)
    if names == ("match",):
        return function
    return lambda match: function(*(binding_of(match, name) for name in names))


def binding_of(match: Match, name: str) -> Any:
    """What a name of the pattern stands for in this match."""
    if name in _OF_ALL:
        return match if name == "match" else getattr(match, name)
    if name in match.data or name in match.pattern.computed:
        return match.datum(name)
    value = match.get(name)
    return match.graph.constants[value].numpy() if value and name in match.pattern.constants else value


def constraint(condition: WhereClause) -> Callable[[Match], None]:
    """The constraint that refuses with the sentence if the function does not hold; a function alone refuses itself."""
    if not isinstance(condition, tuple):
        return by_name(condition)
    holds, sentence = by_name(condition[0]), condition[1]

    def demand(match: Match) -> None:
        if not holds(match):
            raise NoMatch(Sentence(match, sentence))

    return demand


def refuse_unknown_names(conditions: Iterable[WhereClause], known: Collection[str], text: str) -> None:
    """Raises ValueError if a parameter of a function is none of the known names of the pattern."""
    for condition in conditions:
        function = condition[0] if isinstance(condition, tuple) else condition
        for name in inspect.signature(function).parameters:
            if name not in known and name not in _OF_ALL:
                raise ValueError(f"'{name}', which a function of the rule reads, does not occur in '{text}'")


@dataclass(frozen=True)
class Sentence:
    """A sentence about a match, made when it is shown. fewer: how many nodes are saved."""

    match: Match
    text: str
    fewer: int = 0

    def __str__(self) -> str:
        return self.text.format_map(_Words(self))


class _Words(dict[str, Any]):
    """What the names in a sentence stand for, each computed if it is named."""

    def __init__(self, sentence: Sentence) -> None:
        match = sentence.match
        super().__init__(root=match.root, nodes=match.nodes, count=len(match.nodes))
        self["fewer"] = counted(sentence.fewer, "node")
        right = match.pattern.right
        self["new"] = right.operator if isinstance(right, Operation) else ""
        self.match = match

    def __missing__(self, name: str) -> Any:
        match = self.match
        value = match.get(name)
        if value is not None:
            return value
        if name in match.data or name in match.pattern.computed:
            datum = match.datum(name)
            return list(datum) if isinstance(datum, tuple) else datum
        array = match.combined if name == "constant" else None
        if array is None:
            raise KeyError(name)
        return f"of shape {list(array.shape)}" if array.shape else f"{array:g}"
