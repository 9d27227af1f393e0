"""Backtracking search for the terms of a pattern in a graph, and the reason why it fails."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, NamedTuple

from workbench.ir import Graph, Node, constant_shape
from workbench.ir.attribute_defaults import defaults_at
from workbench.ir.permutation import perm_of
from workbench.rewrite.core.guards import one_of
from workbench.rewrite.patterns.products import Reading, is_near, number_of, readings
from workbench.rewrite.patterns.schemas import operand_names, opset_of_node
from workbench.rewrite.patterns.terms import (
    COMMUTATIVE,
    Absent,
    AttributeVariable,
    Number,
    OneOf,
    Operation,
    Product,
    Result,
    Term,
    Variable,
    operators_of,
    parts_of,
)

_COMPOUND = (Operation, Result, OneOf, Product)  # terms that operators compute
_MAX_USERS = 64  # the most users of a value that are tried for a further result


class State(NamedTuple):
    """A partial match: the value of each term, data by name, and matched nodes by name."""

    values: Mapping[Term, str]
    data: Mapping[str, Any]
    nodes: Mapping[str, Node]

    @property
    def depth(self) -> int:
        """How many terms and nodes are matched."""
        return len(self.values) + len(self.nodes)

    def with_value(self, term: Term, value: str) -> State:
        return State({**self.values, term: value}, self.data, self.nodes)

    def with_datum(self, name: str, datum: Any) -> State:
        return State(self.values, {**self.data, name: datum}, self.nodes)

    def with_nodes(self, *nodes: Node) -> State:
        matched = dict(self.nodes)
        for node in nodes:
            matched[node.name] = node
        return State(self.values, self.data, matched)


@dataclass
class MatchDiagnostics:
    """Why a pattern does not match: the reason of the attempt that matched most."""

    reason: object = ""
    depth: float = -1
    reader: Node | None = None
    operators: list[str] = field(default_factory=list)

    def note(self, depth: float, reason: object) -> None:
        """Note the reason, which is made a text when it is shown."""
        if depth > self.depth:
            self.reason, self.depth, self.reader, self.operators = reason, depth, None, []

    def note_operators(self, depth: float, reader: Node, operators: Sequence[str]) -> None:
        """Note that the node follows none of these operators, any of which would match; patterns add theirs."""
        if depth > self.depth:
            self.reason, self.depth, self.reader, self.operators = "", depth, reader, list(dict.fromkeys(operators))
        elif depth == self.depth and self.reader is reader:
            self.operators += [operator for operator in operators if operator not in self.operators]

    def __str__(self) -> str:
        return f"{self.reader} does not follow {one_of(self.operators)}" if self.operators else str(self.reason)


@dataclass(frozen=True)
class Search:
    """The search.

    constants: variables that must be constants.
    text:      the text of the pattern, for sentences.
    misses:    gets the reason of each failed attempt.
    """

    graph: Graph
    constants: frozenset[str]
    text: str
    misses: MatchDiagnostics

    def all_of(self, results: Sequence[Term], root: Node) -> Iterator[State]:
        """Each way to match the first term at the root, and the others near it."""
        first, *others = results
        for state in self._at_node(first, root, State({}, {}, {})):
            yield from self._other_results(others, root, state)

    def _other_results(self, results: Sequence[Term], root: Node, state: State) -> Iterator[State]:
        """Match the remaining results, whose producers are users of matched values."""
        if not results:
            yield state
        elif results[0] in state.values:
            yield from self._other_results(results[1:], root, state)
        else:
            for node in self._producers(results[0], state):
                for result in self._at_node(results[0], node, state):
                    yield from self._other_results(results[1:], root, result)
            self.misses.note(state.depth, f"there is no {results[0]} beside {root}")

    def _producers(self, term: Term, state: State) -> list[Node]:
        """The possible producers of a further result: the matched node, or readers of a matched value."""
        first_result = state.values.get(term.call) if isinstance(term, Result) else None
        node = self.graph.producer(first_result) if first_result else None
        return self._users(term, state) if node is None else [node]

    def _users(self, term: Term, state: State) -> list[Node]:
        """The possible producers of a term, one of whose operands is matched."""
        for part in parts_of(term.call if isinstance(term, Result) else term):
            value = state.values.get(part)
            if value and self.graph.count_users(value) <= _MAX_USERS:
                operators = operators_of(term)
                users = self.graph.users(value)
                return [user for user in users if user.op in operators and user.name not in state.nodes]
        return []

    def _at_node(self, term: Term, node: Node, state: State) -> Iterator[State]:
        """Each way to match the term with a result of the node."""
        if isinstance(term, OneOf):
            for alternative in term.terms:
                if node.op in operators_of(alternative):
                    for result in self._at_node(alternative, node, state):
                        yield result.with_value(term, node.outputs[0])
        elif isinstance(term, Product):
            yield from self._product(term, node.outputs[0], node, state)
        else:
            index = term.index if isinstance(term, Result) else 0
            if index < len(node.outputs) and node.outputs[index]:
                yield from self._term(term, node.outputs[index], node, state)
            else:
                self.misses.note(state.depth, f"{node} has no result number {index + 1}")

    def _call(self, call: Operation, node: Node, state: State) -> Iterator[State]:
        """Each way to match the call's operands with the node's."""
        if node.name in state.nodes:
            self.misses.note(state.depth, f"{node} would match twice in {self.text}")
            return
        known = self._attributes(call, node, state.with_nodes(node))
        if known is None:
            return
        operands, count = self._operands_without(call, node), len(call.operands)
        if call.further:
            known = known.with_datum(call.further, operands[count:])
            operands = operands[:count]
        elif len(operands) > count:
            sizes = f"{len(operands)} operands, not {count}"
            self.misses.note(known.depth, f"{node} has {sizes}")
            return
        operands = (*operands, *[""] * (count - len(operands)))
        is_ordered = call.further or call.operator not in COMMUTATIVE
        orders = (operands,) if is_ordered else dict.fromkeys(permutations(operands))
        for order in orders:
            for result in self._operands(call.operands, order, node, known):
                yield result.with_value(call, node.outputs[0])

    def _operands(self, terms: Sequence[Term], operands: Sequence[str], node: Node, state: State) -> Iterator[State]:
        for index, (term, value) in enumerate(zip(terms, operands, strict=True)):
            if isinstance(term, _COMPOUND) and term not in state.values:
                for result in self._compound(term, value, node, state):
                    yield from self._operands(terms[index + 1 :], operands[index + 1 :], node, result)
                return
            next_state = self._leaf(term, value, node, state)
            if next_state is None:
                return
            state = next_state
        yield state

    def _term(self, term: Term, value: str, reader: Node, state: State) -> Iterator[State]:
        """Each way to match the term with `value`, an operand of `reader`."""
        return self._operands((term,), (value,), reader, state)

    def _compound(
        self, term: Operation | Result | OneOf | Product, value: str, reader: Node, state: State
    ) -> Iterator[State]:
        if isinstance(term, OneOf):
            results = (result for one in term.terms for result in self._term(one, value, reader, state))
            return (result.with_value(term, value) for result in results)
        if isinstance(term, Product):
            return self._product(term, value, reader, state)
        return self._node(term, value, reader, state)

    def _node(self, term: Operation | Result, value: str, reader: Node, state: State) -> Iterator[State]:
        call, index = (term.call, term.index) if isinstance(term, Result) else (term, 0)
        producer = self.graph.producer(value) if value else None
        if producer is None or producer.op != call.operator:
            self.misses.note_operators(state.depth, reader, (call.operator,))
        elif index >= len(producer.outputs) or producer.outputs[index] != value:
            self.misses.note(state.depth, f"'{value}' is another result of {producer} than in {self.text}")
        elif value in state.values.values():
            self.misses.note(state.depth, f"{reader} reads '{value}' twice")
        elif call in state.values:  # another result of it is matched
            if self.graph.producer(state.values[call]) is producer:
                yield state.with_value(term, value)
        else:
            for result in self._call(call, producer, state):
                yield result.with_value(term, value) if index else result

    def _leaf(self, term: Term, value: str, reader: Node, state: State) -> State | None:
        """The state after matching a bound term, or a term without operators; None if the value does not match."""
        known = state.values.get(term)
        if known is not None:
            if known == value:
                return state
            reason = f"{self.text} needs '{known}' where {reader} reads '{value}'"
        elif isinstance(term, Variable) and value and term.name not in self.constants:
            reason = ""
        else:
            reason = self._why_not(term, value, reader, state)
        if reason:
            self.misses.note(state.depth, reason)
            return None
        if isinstance(term, AttributeVariable):
            return state.with_datum(term.name, number_of(self.graph, value))
        if isinstance(term, Number):
            return state  # several constants may hold one number
        return state.with_value(term, value)

    def _why_not(self, term: Term, value: str, reader: Node, state: State) -> str:
        """Why the value does not match a term without operators; "" if it does."""
        if isinstance(term, Absent) or not value:
            if isinstance(term, Absent) and not value:
                return ""
            return f"{reader} has the operand '{value}'" if value else f"{reader} has no operand for {term}"
        tensor = self.graph.constant(value)
        if isinstance(term, Variable):
            constant = term.name not in self.constants or tensor is not None
            return "" if constant else f"'{value}', an operand of {reader}, is not a constant"
        if tensor is None:
            return f"'{value}', an operand of {reader}, is not a constant"
        if isinstance(term, AttributeVariable):
            number = number_of(self.graph, value)
            fits = number is not None and state.data.get(term.name, number) == number
            return "" if fits else f"'{value}' of {reader} is not the one number {term}"
        if not isinstance(term, Number):
            return f"{reader} reads '{value}' for {term}"
        shape = constant_shape(tensor)
        ranks = [self.graph.rank_of(other) or 0 for other in reader.inputs if other != value]
        if math.prod(shape) != 1 or len(shape) > max(ranks, default=0):
            return f"'{value}' of {reader} is not one number for all"
        number = tensor.numpy().item()
        same = number == term.value and math.copysign(1, number) == math.copysign(1, term.value)
        if same or (term.near and number != 0 and is_near(number, term.value)):  # a zero has its sign
            return ""
        written = f"{number:g}" if f"{number:g}" != str(term) else f"{number:.9g}"
        return f"'{value}' of {reader} is {written}, not {term}"

    # ---- attributes ----------------------------------------------------------------------

    def _attributes(self, call: Operation, node: Node, state: State) -> State | None:
        """The state with the node's attributes bound; None if they do not match the call's."""
        if not call.attributes and not call.rest and not node.attributes:
            return state
        expected = dict(call.attributes)
        for key, value in expected.items():
            has = self._attribute(node, key)
            if has is None:
                self.misses.note(state.depth, _unknown(node, key))
                return None
            if isinstance(value, AttributeVariable) and value.name not in state.data:
                state = state.with_datum(value.name, has)
                continue
            value = (
                state.data[value.name] if isinstance(value, AttributeVariable) else self._normalized(node, key, value)
            )
            if not _is_same(has, value):
                self.misses.note(state.depth, f"{node} has {key}={_formatted(has)}, not {_formatted(value)}")
                return None
        others = {key: value for key, value in node.attributes.items() if key not in expected}
        if call.rest:
            return state.with_datum(call.rest, others)
        defaults = defaults_at(node.op_type, opset_of_node(self.graph, node), node.domain) if others else {}
        unexpected = next((key for key, value in others.items() if key not in defaults or defaults[key] != value), None)
        if unexpected is None:
            return state
        instead = f"not {_formatted(defaults[unexpected])}" if unexpected in defaults else "and nothing was looked for"
        self.misses.note(state.depth, f"{node} has {unexpected}={_formatted(others[unexpected])}, {instead}")
        return None

    def _attribute(self, node: Node, key: str) -> Any:
        """The attribute, else the constant operand of that name, else ONNX's default; None if there is none."""
        if key == "perm" and node.op == "Transpose":
            return perm_of(self.graph, node)
        if key in node.attributes:
            return self._normalized(node, key, node.attributes[key])
        opset = opset_of_node(self.graph, node)
        names = operand_names(node.op_type, opset, node.domain)
        if key not in names:
            return self._normalized(node, key, defaults_at(node.op_type, opset, node.domain).get(key))
        index = names.index(key)
        tensor = self.graph.constant(node.inputs[index]) if index < len(node.inputs) else None
        if tensor is None:
            return None
        data = tensor.numpy().tolist()
        return self._normalized(node, key, tuple(data) if isinstance(data, list) else data)

    def _normalized(self, node: Node, key: str, value: Any) -> Any:
        """The value; axes are made nonnegative and sorted if the rank is known."""
        rank = self.graph.rank_of(node.inputs[0]) if key in ("axis", "axes") else None
        if not rank or value is None:
            return value
        return tuple(sorted(axis % rank for axis in value)) if isinstance(value, tuple) else value % rank

    def _operands_without(self, call: Operation, node: Node) -> tuple[str, ...]:
        """The node's operands, without those that the call names as attributes and omitted ones at the end."""
        if not call.attributes and all(node.inputs):
            return node.inputs
        names = operand_names(node.op_type, opset_of_node(self.graph, node), node.domain)
        named = {names.index(key) for key, _ in call.attributes if key in names}
        operands = [value for index, value in enumerate(node.inputs) if index not in named]
        while operands and not operands[-1]:
            operands.pop()
        return tuple(operands)

    # ---- products ------------------------------------------------------------------------

    def _product(self, product: Product, value: str, reader: Node, state: State) -> Iterator[State]:
        for reading in readings(self.graph, value):
            if any(node.name in state.nodes for node in reading.nodes):
                continue
            if len(reading.factors) != len(product.factors):
                self._note_product(product, reading, reader, state)
                continue
            result = self._with_number(product, reading, reader, state.with_nodes(*reading.nodes))
            if result is not None:
                producer = reading.nodes[0] if reading.nodes else reader
                for matched in self._factors(product.factors, reading.factors, producer, result):
                    yield matched.with_value(product, value)

    def _note_product(self, product: Product, reading: Reading, reader: Node, state: State) -> None:
        if reading.nodes:
            sentence = f"{reading.nodes[0]} is a product of {_counted(reading.factors)}, not of {len(product.factors)}"
            self.misses.note(state.depth, sentence)
        else:
            self.misses.note_operators(state.depth, reader, ("Mul", "Div"))

    def _with_number(self, product: Product, reading: Reading, reader: Node, state: State) -> State | None:
        if isinstance(product.number, AttributeVariable):
            if is_near(reading.number, state.data.get(product.number.name, reading.number)):
                return state.with_datum(product.number.name, reading.number)
        elif is_near(reading.number, product.number.value):
            return state
        producer = reading.nodes[0] if reading.nodes else reader
        sentence = f"{producer} multiplies by {reading.number:g} in all, not by {product.number}"
        self.misses.note(state.depth, sentence)
        return None

    def _factors(self, terms: Sequence[Term], values: Sequence[str], reader: Node, state: State) -> Iterator[State]:
        if not terms:
            yield state
            return
        for index, value in enumerate(values):
            if value in values[:index]:
                continue
            rest = [*values[:index], *values[index + 1 :]]
            for result in self._term(terms[0], value, reader, state):
                yield from self._factors(terms[1:], rest, reader, result)


def _unknown(node: Node, key: str) -> str:
    if key == "perm":
        return f"{node} reverses the axes of a value whose rank is not known"
    return f"{node} has no {key} that is known"


def _counted(values: Sequence[str]) -> str:
    return f"{len(values)} value{'s' * (len(values) != 1)}"


def _is_same(has: Any, want: Any) -> bool:
    if isinstance(has, float) and isinstance(want, float | int):
        return has == want or is_near(has, want)
    return bool(has == want)


def _formatted(value: Any) -> str:
    return str(list(value)) if isinstance(value, tuple) else f"{value:g}" if isinstance(value, float) else str(value)
