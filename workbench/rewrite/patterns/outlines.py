"""Outlines of patterns: necessary conditions of a match, on operators and constants alone.

Most nodes match no pattern. An outline rules them out without a search: for each operand that is the result of an
operator in the pattern, some operand of the node must be such a result. The order of operands does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Graph, Node
from workbench.rewrite.patterns.terms import (
    Datum,
    Either,
    Number,
    Operation,
    Product,
    Result,
    Term,
    Variable,
    operators_of,
    required_producers,
)


@dataclass(frozen=True)
class Outline:
    """What may match at the result of a node.

    operators: the node has one of them.
    constant:  whether an operand must be a constant.
    operands:  for each operand that is the result of an operator, its alternatives.
    """

    operators: tuple[str, ...]
    constant: bool
    operands: tuple[tuple[Outline, ...], ...]

    def fits(self, graph: Graph, node: Node) -> bool:
        """Whether the node, which has one of the operators, has such operands."""
        if self.constant and graph.constants.keys().isdisjoint(node.inputs):
            return False
        if not self.operands:
            return True
        producers = [producer for value in node.inputs if (producer := graph.producer(value)) is not None]
        return all(_has_one(graph, producers, outlines) for outlines in self.operands)


def _has_one(graph: Graph, producers: list[Node], outlines: tuple[Outline, ...]) -> bool:
    for outline in outlines:
        for producer in producers:
            if producer.op in outline.operators and outline.fits(graph, producer):
                return True
    return False


def outlines_of(term: Term, constants: frozenset[str]) -> tuple[Outline, ...]:
    """The alternatives of a term; empty if it need not be the result of an operator.

    constants: names of variables that must be constants.
    """
    match term:
        case Result(call, _):
            return outlines_of(call, constants)
        case Operation(operator, operands):
            constant = any(_is_constant(operand, constants) for operand in operands)
            before = tuple(outlines for operand in operands if (outlines := outlines_of(operand, constants)))
            return (Outline((operator,), constant, before),)
        case Either(terms):
            results = [outlines_of(alternative, constants) for alternative in terms]
            return tuple(outline for outlines in results for outline in outlines) if all(results) else ()
        case Product() if required_producers(term):
            return (Outline(operators_of(term), False, ()),)
    return ()


def _is_constant(term: Term, constants: frozenset[str]) -> bool:
    return isinstance(term, Number | Datum) or (isinstance(term, Variable) and term.name in constants)
