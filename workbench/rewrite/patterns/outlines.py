"""Outlines of patterns: what a node must have before it, by operators and constants alone.

Most nodes match no pattern. An outline tells that without a search: each operand that a pattern names an operator for
must be among the results of such operators, whatever the order of operands, which operand is which, and what they hold.
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
    needed_by,
    operators_of,
)


@dataclass(frozen=True)
class Outline:
    """What may match at the result of a node.

    operators: one of which the node has.
    constant:  whether an operand is a constant.
    operands:  of each operand that is the result of an operator, the alternatives.
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
    """The alternatives of a term; empty if it may be the result of no operator. constants: names of such variables."""
    match term:
        case Result(call, _):
            return outlines_of(call, constants)
        case Operation(operator, operands):
            constant = any(_is_constant(operand, constants) for operand in operands)
            before = tuple(outlines for operand in operands if (outlines := outlines_of(operand, constants)))
            return (Outline((operator,), constant, before),)
        case Either(terms):
            results = [outlines_of(one, constants) for one in terms]
            return tuple(outline for outlines in results for outline in outlines) if all(results) else ()
        case Product() if needed_by(term):
            return (Outline(operators_of(term), False, ()),)
    return ()


def _is_constant(term: Term, constants: frozenset[str]) -> bool:
    return isinstance(term, Number | Datum) or (isinstance(term, Variable) and term.name in constants)
