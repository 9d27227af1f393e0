"""Outlines of patterns: necessary conditions of a match, on operators and constants alone.

Most nodes match no pattern. An prefilter rules them out without a search: for each operand that is the result of an
operator in the pattern, some operand of the node must be such a result. The order of operands does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Graph, Node
from workbench.rewrite.patterns.terms import (
    AttributeVariable,
    Number,
    OneOf,
    Operation,
    Product,
    Result,
    Term,
    Variable,
    operators_of,
    required_producers,
)


@dataclass(frozen=True)
class Prefilter:
    """What may match at the result of a node.

    operators: the node has one of them.
    constant:  whether an operand must be a constant.
    operands:  for each operand that is the result of an operator, its alternatives.
    """

    operators: tuple[str, ...]
    constant: bool
    operands: tuple[tuple[Prefilter, ...], ...]

    def fits(self, graph: Graph, node: Node) -> bool:
        """Whether the node, which has one of the operators, has such operands."""
        if self.constant and graph.constants.keys().isdisjoint(node.inputs):
            return False
        if not self.operands:
            return True
        producers = [producer for value in node.inputs if (producer := graph.producer(value)) is not None]
        return all(_has_one(graph, producers, prefilters) for prefilters in self.operands)


def _has_one(graph: Graph, producers: list[Node], prefilters: tuple[Prefilter, ...]) -> bool:
    for prefilter in prefilters:
        for producer in producers:
            if producer.op in prefilter.operators and prefilter.fits(graph, producer):
                return True
    return False


def prefilters_of(term: Term, constants: frozenset[str]) -> tuple[Prefilter, ...]:
    """The alternatives of a term; empty if it need not be the result of an operator.

    constants: names of variables that must be constants.
    """
    match term:
        case Result(call, _):
            return prefilters_of(call, constants)
        case Operation(operator, operands):
            constant = any(_is_constant(operand, constants) for operand in operands)
            before = tuple(prefilters for operand in operands if (prefilters := prefilters_of(operand, constants)))
            return (Prefilter((operator,), constant, before),)
        case OneOf(terms):
            results = [prefilters_of(alternative, constants) for alternative in terms]
            return tuple(prefilter for prefilters in results for prefilter in prefilters) if all(results) else ()
        case Product() if required_producers(term):
            return (Prefilter(operators_of(term), False, ()),)
    return ()


def _is_constant(term: Term, constants: frozenset[str]) -> bool:
    return isinstance(term, Number | AttributeVariable) or (isinstance(term, Variable) and term.name in constants)
