"""Finds the left side of an equation in a graph.

Variables stand for values, numbers for constants that hold them, operators
for nodes; operands of commutative operators match in both orders, and two
operators of a pattern never stand for one node.

The search is depth-first with backtracking over the orders of operands, as in
e-matching (de Moura, Bjorner, "Efficient E-Matching for SMT Solvers", CADE
2007) on a graph without equivalences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations

import numpy as np

from workbench.ir import Graph, Node, constant_shape
from workbench.rewrite.guards import one_of, refuse_other_readers
from workbench.rewrite.laws import COMMUTATIVE, Number, Operation, Term, Variable, terms_of
from workbench.rewrite.rule import NoMatch

_ON_CONSTANTS: dict[str, Callable[..., np.ndarray]] = {
    "Abs": np.abs,
    "Add": np.add,
    "And": np.logical_and,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseNot": np.bitwise_not,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "Div": np.divide,
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Max": np.maximum,
    "Min": np.minimum,
    "Mul": np.multiply,
    "Neg": np.negative,
    "Not": np.logical_not,
    "Or": np.logical_or,
    "Reciprocal": np.reciprocal,
    "Sub": np.subtract,
    "Xor": np.logical_xor,
}
_OF_FLOATS = ("Div", "Reciprocal")  # on integers they round

Values = dict[Term, str]


@dataclass(frozen=True)
class Pattern:
    """One equation as it is matched and built.

    left, right: its sides.
    condition:   on constants alone; None for none.
    constants:   variables that must be constants.
    shared:      may matched nodes be read elsewhere? They then stay.
    text:        the left side as it is written.
    """

    left: Operation
    right: Term
    condition: Term | None
    constants: frozenset[str]
    shared: bool
    text: str

    @cached_property
    def kept(self) -> frozenset[Term]:
        """Calls of the left side that stand on the right side too: their nodes stay, whoever else reads them."""
        left = frozenset(term for term in terms_of(self.left) if isinstance(term, Operation))
        return left & frozenset(terms_of(self.right))


@dataclass(frozen=True)
class Match:
    """Where a pattern was found.

    values: the value that each term of the left side stands for.
    nodes:  those matched, operands first, `root` last.
    gone:   those of them that nothing needs behind the rewrite.
    """

    graph: Graph
    root: Node
    pattern: Pattern
    values: Mapping[Term, str]
    nodes: tuple[Node, ...]
    gone: tuple[Node, ...]

    def __getitem__(self, variable: str) -> str:
        """The value that a variable stands for."""
        return self.values[Variable(variable)]

    def array(self, term: Term) -> np.ndarray | float | None:
        """What the term is where it hangs on constants alone, floats in double precision; None else."""
        if isinstance(term, Number):
            return term.value
        if term in self.values:
            tensor = self.graph.constant(self.values[term])
            if tensor is None:
                return None
            return tensor.numpy().astype(np.float64) if tensor.dtype.is_floating_point() else tensor.numpy()
        if isinstance(term, Variable) or term.operator not in _ON_CONSTANTS:
            return None
        operands = [self.array(operand) for operand in term.operands]
        if any(operand is None for operand in operands):
            return None
        if term.operator in _OF_FLOATS and all(np.asarray(operand).dtype.kind != "f" for operand in operands):
            return None
        with np.errstate(all="ignore"):
            return _ON_CONSTANTS[term.operator](*operands)

    @cached_property
    def combined(self) -> np.ndarray | None:
        """What the right side computes of constants, as `array` does; None where it computes nothing of them."""
        return self._combined(self.pattern.right)

    def _combined(self, term: Term) -> np.ndarray | None:
        if not isinstance(term, Operation) or term in self.values:
            return None
        array = self.array(term)
        if array is not None:
            return np.asarray(array)
        found = (self._combined(operand) for operand in term.operands)
        return next((array for array in found if array is not None), None)


@dataclass
class Misses:
    """Why a pattern was not found: of all tries, the reason of the one that came farthest."""

    reason: str = ""
    depth: float = -1
    reader: Node | None = None
    operators: list[str] = field(default_factory=list)

    def note(self, depth: float, reason: str) -> None:
        if depth > self.depth:
            self.reason, self.depth, self.reader, self.operators = reason, depth, None, []

    def note_operator(self, depth: float, reader: Node, operator: str) -> None:
        """The reader does not follow this operator; of several patterns, any of theirs would have done."""
        if depth > self.depth:
            self.reason, self.depth, self.reader, self.operators = "", depth, reader, [operator]
        elif depth == self.depth and self.reader is reader and operator not in self.operators:
            self.operators.append(operator)

    @property
    def sentence(self) -> str:
        return f"{self.reader} does not follow {one_of(self.operators)}" if self.operators else self.reason


def matches(pattern: Pattern, graph: Graph, root: Node, misses: Misses) -> Iterator[Match]:
    """Each way in which the left side stands for the node; `misses` hears where it does not."""
    search = _Search(pattern, graph, misses)
    for values in search.call(pattern.left, root, {}):
        inner = [term for term in terms_of(pattern.left) if isinstance(term, Operation)][:-1]
        makers = {values[term]: graph.producer(values[term]) for term in inner}
        nodes = [node for node in makers.values() if node is not None]
        try:
            gone = [node for node in nodes if _goes(pattern, graph, values, node, (*nodes, root))]
        except NoMatch as no:
            misses.note(len(values), str(no))
            continue
        yield Match(graph, root, pattern, values, (*nodes, root), (*gone, root))


def _goes(pattern: Pattern, graph: Graph, values: Values, node: Node, matched: tuple[Node, ...]) -> bool:
    """Does nothing need the node behind the rewrite? Raises NoMatch where it would stay, and may not."""
    if pattern.right in values or any(values[term] == node.outputs[0] for term in pattern.kept):
        return False  # where nothing new comes, what the last node read is not asked for its readers
    try:
        refuse_other_readers(graph, node, matched)
    except NoMatch:
        if pattern.shared:
            return False
        raise
    return True


@dataclass(frozen=True)
class _Search:
    pattern: Pattern
    graph: Graph
    misses: Misses

    def call(self, call: Operation, node: Node, values: Values) -> Iterator[Values]:
        """Each way in which the node's operands stand for the call's."""
        if len(node.inputs) != len(call.operands):
            self.misses.note(len(values), f"{node} has {len(node.inputs)} operands, not {len(call.operands)}")
            return
        orders = permutations(node.inputs) if call.operator in COMMUTATIVE else (node.inputs,)
        for order in dict.fromkeys(orders):
            yield from self._operands(call.operands, order, node, values)

    def _operands(
        self, terms: tuple[Term, ...], operands: tuple[str, ...], node: Node, values: Values
    ) -> Iterator[Values]:
        if not terms:
            yield values
            return
        for found in self._term(terms[0], operands[0], node, values):
            yield from self._operands(terms[1:], operands[1:], node, found)

    def _term(self, term: Term, value: str, reader: Node, values: Values) -> Iterator[Values]:
        """Each way in which `value`, an operand of `reader`, stands for the term."""
        made = self.graph.producer(value) if isinstance(term, Operation) else None
        if isinstance(term, Operation) and (made is None or made.op != term.operator):
            self.misses.note_operator(len(values), reader, term.operator)
            return
        reason = self._why_not(term, value, reader, values)
        if reason:
            self.misses.note(len(values), reason)
        elif isinstance(term, Operation) and made is not None and term not in values:
            for found in self.call(term, made, values):
                yield found | {term: value}
        else:  # a number is not bound: two constants may hold it
            yield values if isinstance(term, Number) else values | {term: value}

    def _why_not(self, term: Term, value: str, reader: Node, values: Values) -> str:
        """Why the value, of the right operator, cannot stand for the term; "" where it may."""
        if term in values:
            same = values[term] == value
            return "" if same else f"'{value}' of {reader} is not '{values[term]}', as {self.pattern.text} has it"
        if isinstance(term, Operation):
            return f"{reader} reads '{value}' twice" if value in values.values() else ""
        if isinstance(term, Variable) and term.name not in self.pattern.constants:
            return ""
        tensor = self.graph.constant(value)
        if tensor is None:
            return f"'{value}', an operand of {reader}, is not a constant"
        if isinstance(term, Variable):
            return ""
        shape = constant_shape(tensor)
        ranks = [self.graph.rank_of(other) or 0 for other in reader.inputs if other != value]
        if math.prod(shape) != 1 or len(shape) > max(ranks, default=0):
            return f"'{value}' of {reader} is not one number for all"
        number = tensor.numpy().item()
        same = number == term.value and math.copysign(1, number) == math.copysign(1, term.value)
        return "" if same else f"'{value}' of {reader} is {number:g}, not {term}"
