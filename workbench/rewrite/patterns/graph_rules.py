"""Rules that are small graphs: the graph before is matched, the graph after replaces it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from workbench.ir import Graph, Node
from workbench.rewrite.core.counterexamples import Counterexample, WrongLaw
from workbench.rewrite.core.exactness import Exactness
from workbench.rewrite.core.rule import Example, FindRewrite, NoMatch, Refusal, Rewrite, Rule
from workbench.rewrite.patterns.building import any_may_match, rewrite_by_first_match
from workbench.rewrite.patterns.conditions import NamedFunction, WhereClause, by_name, refuse_unknown_names
from workbench.rewrite.patterns.graph_patterns import GraphText, read_after, read_before
from workbench.rewrite.patterns.matching import Pattern
from workbench.rewrite.patterns.terms import OneOf, Operation, Result, Term, operators_of, terms_of


def graph_rule(
    name: str,
    before: str,
    after: str,
    sentence: str,
    example: Example,
    refusals: tuple[Refusal, ...] = (),
    *,
    exactness: Exactness,
    further: Sequence[tuple[str, str]] = (),
    constants: Sequence[str] = (),
    numbers: Sequence[str] = (),
    operators: Mapping[str, Sequence[str]] | None = None,
    where: Sequence[WhereClause] = (),
    computed: Mapping[str, NamedFunction] | None = None,
    shared: bool = False,
    at_outputs: bool = False,
    law: str = "",
    counterexample: Counterexample | None = None,
    wrong_laws: tuple[WrongLaw, ...] = (),
) -> Rule:
    """The rule that replaces one graph by another; see `workbench.rewrite.patterns.graph_patterns` for the notation.

    A name that both graphs define is a result and may have other users; other removed values may not.
    If the last nodes are optional, the longest match is rewritten.

    sentence:  for the user; in braces it may use {root}, {nodes[0]}, names of the pattern, {new}, the operator that
               comes last, {count}, the number of matched nodes, and {fewer}, how many nodes are saved.
    further:   pairs like `before` and `after` for other forms; the first pair that matches is taken.
    constants: names of values that must be constants.
    numbers:   names of scalar constants.
    operators: names of operators, each with those for which it may stand.
    where:     conditions: functions of the match that raise NoMatch with a sentence, or pairs of a function that holds
               and the sentence of the refusal. Functions name what they read by their parameters; see
               `workbench.rewrite.patterns.conditions`.
    computed:  names that are functions of the match, for the graph after, conditions and sentences. They return an
               attribute, or for an operand an array, the name of a value, or None for an omitted one, and may raise
               NoMatch.
    shared:    matched nodes may have other users, for which they stay. If the graph after is a value, not only the last
               node goes, but all that nothing else reads.
    at_outputs: if the graph after is a value, it may also replace an output of the graph, by an Identity if need be.
    law, counterexample, wrong_laws: see `Rule`.

    Raises ValueError if the pattern is not valid.
    """
    functions = {key: by_name(function) for key, function in (computed or {}).items()}
    form = Pattern((), None, frozenset(constants), shared, "the pattern", computed=functions, at_outputs=at_outputs)
    patterns = [
        _pattern(*pair, frozenset(numbers), chosen, form)
        for pair in ((before, after), *further)
        for chosen in _choices(pair[0], operators or {})
    ]
    known = {name for pattern in patterns for name in pattern.known}
    unused = next((name for name in operators or {} if name not in known), None)
    if unused is not None:
        raise ValueError(f"'{unused}' does not occur in '{inspect.cleandoc(before)}'")
    refuse_unknown_names((*where, *(computed or {}).values()), known, inspect.cleandoc(before))
    roots = tuple(dict.fromkeys(operator for pattern in patterns for operator in pattern.operators))
    match = rewrite_by_first_match(patterns, tuple(where), sentence)
    if any(isinstance(end, Operation | OneOf) for pattern in patterns for end in _ends(pattern.left)):
        match = _longest(match, frozenset(roots))
    return Rule(
        name,
        roots,
        match,
        example,
        refusals,
        may_match=any_may_match(patterns),
        exactness=exactness,
        law=law,
        counterexample=counterexample,
        wrong_laws=wrong_laws,
    )


def _choices(before: str, operators: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
    """Each way to let the names of operators in the graph stand for one."""
    named = [
        [(name, operator) for operator in operators[name]] for name in operators if re.search(rf"\b{name}\(", before)
    ]
    return map(dict, product(*named))


def _pattern(before: str, after: str, numbers: frozenset[str], operators: Mapping[str, str], form: Pattern) -> Pattern:
    """operators: what each name of operators stands for. form: what all patterns of the rule share."""
    left = read_before(before, numbers, operators)
    known = left.data | set(form.computed)
    right = read_after(after, left, known, operators)
    both = left.variables & left.data
    if both:
        raise ValueError(f"'{min(both)}' of '{left.text}' stands for a value and for an attribute")
    missing = (form.constants - left.variables) | (numbers - left.data)
    if missing:
        raise ValueError(f"'{min(missing)}' does not occur in '{left.text}'")
    unknown = (right.variables - left.variables) | (right.data - known)
    if unknown:
        raise ValueError(f"'{min(unknown)}' of '{right.text}' does not occur in '{left.text}'")
    results = _results(left, right)
    names = frozenset(left.variables | known | set(left.names) | set(operators))
    return replace(form, results=results, names=left.names, operators_named=operators, known=names)


def _results(left: GraphText, right: GraphText) -> tuple[tuple[Term, Term], ...]:
    """Pairs of replaced and replacing terms, the last term first, further results of operators at the end.

    Raises ValueError if the graphs do not fit together.
    """
    results = [(left.names[name], right.names[name]) for name in left.names if name in right.names]
    if not results:
        raise ValueError(f"'{right.text}' names no result of '{left.text}'")
    replaced = {term for term, _ in results}
    reached = {part for term in replaced for part in terms_of(term)}
    lost = next((name for name, term in left.names.items() if term not in reached), None)
    if lost is not None:
        raise ValueError(f"'{lost}' of '{left.text}' is unused, and '{right.text}' does not replace it")
    for name, term in left.names.items():
        if term in replaced and not operators_of(term):
            raise ValueError(f"'{name}' of '{left.text}' is not the result of an operator")
        if term in replaced and any(term in terms_of(replacing) for _, replacing in results):
            raise ValueError(f"'{right.text}' reads '{name}', which it replaces")
    if len(results) > 1 and not all(isinstance(replacing, Operation | Result) for _, replacing in results):
        raise ValueError(f"'{right.text}' replaces one of several results by a value that is not new")
    last_first = results[::-1]
    return tuple(sorted(last_first, key=lambda pair: isinstance(pair[0], Result)))


def _ends(term: Term) -> tuple[Term, ...]:
    """The alternatives of the last node that are operands of other alternatives, and so possible last nodes."""
    if not isinstance(term, OneOf):
        return ()
    return tuple(one for one in term.terms if any(one in terms_of(other) for other in term.terms if other != one))


def _longest(match: FindRewrite, operators: frozenset[str]) -> Callable[[Graph, Node, Any], Rewrite]:
    """The match function, which refuses a match whose only user would be matched with it."""

    def longest(graph: Graph, node: Node, pass_: Any) -> Rewrite:
        rewrite = match(graph, node, pass_)
        readers = graph.users(node.outputs[0])
        if len(readers) == 1 and readers[0].op in operators and _includes(match, graph, readers[0], node, pass_):
            raise NoMatch(f"{readers[0]} after {node} matches with it")
        return rewrite

    return longest


def _includes(match: FindRewrite, graph: Graph, reader: Node, node: Node, pass_: Any) -> bool:
    try:
        return node.name in match(graph, reader, pass_).nodes
    except NoMatch:
        return False
