"""Follows the log: begins with the model's own nodes and makes each edit, which must fit."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from workbench.checker.inference import called_operator, nodes_within
from workbench.checker.outcome import DoesNotHold, Unreadable, in_quotes, listed
from workbench.checker.plain import (
    FunctionKey,
    PlainConstant,
    PlainFunction,
    PlainGraph,
    PlainModel,
    PlainNode,
    first_difference,
)
from workbench.checker.records import Fields
from workbench.checker.types import in_words
from workbench.checker.written import (
    written_constants,
    written_function,
    written_node,
    written_opsets,
    written_type,
)

MOST_VISITS = 5_000_000  # of names of values, in all of a log; that of a UNet of 4,545 nodes takes 372,000
FOR_EACH_NAME = 100  # more of them for each that the model itself has


@dataclass(frozen=True)
class LoggedEdit:
    """inside: key of a node, and edits of its bodies by attribute ("branches[0]" in a list). drop: constants that are
    removed. types: of inputs and outputs, those that change. opsets: all, if they
    change; only loading and exporting change them."""

    remove: tuple[PlainNode, ...]
    insert: tuple[PlainNode, ...]
    inside: tuple[tuple[str, tuple[tuple[str, LoggedEdit], ...]], ...]
    drop: Mapping[str, PlainConstant]
    constants: Mapping[str, PlainConstant]
    types: Mapping[str, Any]
    functions: Mapping[FunctionKey, PlainFunction | None]
    opsets: Mapping[str, int] | None


def logged_edit(record: Fields) -> LoggedEdit:
    types = record.named("types")
    return LoggedEdit(
        tuple(written_node(node) for node in record.records("remove", "removed node")),
        tuple(written_node(node) for node in record.records("insert", "new node")),
        tuple(_inner_edits(message) for message in record.records("inside", "node with bodies")),
        written_constants(record, "drop"),
        written_constants(record, "constants"),
        {name: written_type(message, f"{record.where}, type of {in_quotes(name)}") for name, message in types.items()},
        dict(written_function(function) for function in record.records("functions", "function")),
        written_opsets(record) if record.has("opsets") else None,
    )


def _inner_edits(record: Fields) -> tuple[str, tuple[tuple[str, LoggedEdit], ...]]:
    edits = (
        (message.text("body"), logged_edit(message.record("edit"))) for message in record.records("bodies", "body")
    )
    return record.text("node"), tuple(edits)


class Replay:
    """The graph at one moment of the log: every value has one producer, every operand is defined, nothing is in a
    cycle. What an edit costs depends on its size, unless it turns the order of nodes around."""

    def __init__(self, model: PlainModel) -> None:
        """Raises DoesNotHold if the model itself is no such graph."""
        self._visits = 0
        self._most = MOST_VISITS + FOR_EACH_NAME * model.graph.size
        self.inputs = model.graph.inputs
        self.outputs = model.graph.outputs
        self._ends = frozenset(self.inputs), frozenset(self.outputs)
        self.nodes = dict(model.graph.nodes)
        self.constants = dict(model.graph.constants)
        self.types = dict(model.types)
        self.functions = dict(model.functions)
        self.opsets = dict(model.opsets)
        self.began_with = frozenset(model.functions)
        self.given, self.defaults, self.silent = model.given, model.defaults, model.silent
        self._producer = {value: key for key, call in self.nodes.items() for value in call.outputs if value}
        self._users: dict[str, set[str]] = {}
        self._rank: dict[str, float] = {}
        for key, call in self.nodes.items():
            for value in call.reads:
                self._users.setdefault(value, set()).add(key)
        self._check_defined(self.nodes.values(), "the model")
        self._sort("the model")

    def spend(self, visits: int) -> None:
        """Count names of values that are looked at, so that no certificate takes without end. Raises Unreadable."""
        self._visits += visits
        if self._visits > self._most:
            raise Unreadable(f"following it takes more than {self._most:,} looks at names of values")

    def as_model(self) -> PlainModel:
        """The graph at this moment."""
        self.spend(len(self.nodes))
        nodes = {key: self.nodes[key] for key in sorted(self.nodes, key=self._rank.__getitem__)}
        graph = PlainGraph(self.inputs, self.outputs, nodes, dict(self.constants))
        return PlainModel(graph, dict(self.types), dict(self.functions), dict(self.opsets), tuple(nodes), self.given)

    def maker(self, value: str) -> PlainNode | None:
        """The node that computes a value."""
        key = self._producer.get(value)
        return None if key is None else self.nodes[key]

    def apply(self, edit: LoggedEdit, where: str) -> None:
        """Make the edit. where: the rewrite, in words. Raises DoesNotHold with the first thing that does not fit."""
        removed: set[str] = set()
        self.spend(sum(call.size for call in (*edit.remove, *edit.insert)))
        changed = [self._changed_inside(key, edits, where) for key, edits in edit.inside]
        insert = [*edit.insert, *(new for _, new in changed)]
        for call in (*edit.remove, *(old for old, _ in changed)):
            result = self.nodes.get(call.key)
            if result is None:
                raise DoesNotHold(f"{where} removes the {call}, which the graph has not")
            if result != call:
                raise DoesNotHold(f"{where} removes the {call}, and in the graph {first_difference(result, call)}")
            removed.update(self._unlink(self.nodes.pop(call.key)))
        for name, contents in edit.drop.items():
            if name not in self.constants:
                raise DoesNotHold(f"{where} removes the constant {in_quotes(name)}, which the graph has not")
            if self.constants.pop(name) != contents:
                raise DoesNotHold(f"{where} removes the constant {in_quotes(name)}, and the graph's is another")
            removed.add(name)
        for name, contents in edit.constants.items():
            if name in self._producer or name in self._ends[0]:
                raise DoesNotHold(f"in {where}, {in_quotes(name)} has two producers, one of them a constant")
            if name in self.constants:
                raise DoesNotHold(f"{where} writes over the constant {in_quotes(name)} without removing it")
            self.constants[name] = contents
        for call in insert:
            self._link(call, where)
        self._check_defined(insert, where)
        self._check_still_defined(removed, where)
        if not all(self._placed(call) for call in insert):
            self._sort(where)
        for name, type_ in edit.types.items():
            if name not in self.types:
                raise DoesNotHold(f"{where} types {in_quotes(name)}, which is no input or output")
            self.types[name] = type_
        for named, function in edit.functions.items():
            if function is None:
                self.functions.pop(named, None)
            else:
                self.functions[named] = function
        if edit.opsets is not None:
            self.opsets = dict(edit.opsets)

    def difference(self, written: PlainModel) -> str:
        """The first thing in which the written model differs from this graph, as a sentence; "" if they are equal."""
        result = written.graph
        for key in (*self.nodes, *result.nodes):
            mine, theirs = self.nodes.get(key), result.nodes.get(key)
            if theirs is None:
                what = mine.operator if mine else ""
                return f"after the log {in_quotes(key)} is computed by {what}, in the output by nothing"
            if mine is None:
                return f"in the output {in_quotes(key)} is computed by {theirs.operator}, after the log by nothing"
            if mine != theirs:
                return f"of the {mine}, after the log {first_difference(mine, theirs)} as in the output"
        theirs_used = result.used_constants
        for name in (*self._used_constants(), *theirs_used):
            ours, own = self.constants.get(name), theirs_used.get(name)
            if ours != own:
                return f"constant {in_quotes(name)} {_contents_differ(ours, own)}"
        for what, one, other in (
            ("inputs", self.inputs, result.inputs),
            ("outputs", self.outputs, result.outputs),
        ):
            if one != other:
                return f"after the log the {what} are {listed(one)}, in the output {listed(other)}"
        for name in self.types:
            held = self.constants.get(name)  # of an output that is a constant, which has its own type
            type_ = self.types[name] if held is None else (held.dtype, held.shape)
            if type_ != written.types.get(name):
                sentence = f"{in_words(type_)} after the log, and {in_words(written.types.get(name))} in the output"
                return f"{in_quotes(name)} is of another type or shape: {sentence}"
        for named in {**self.functions, **written.functions}:
            if self.functions.get(named) != written.functions.get(named):
                name = in_quotes(".".join(filter(None, named)))
                return f"the function {name} is another in the output than after the log"
        if self.opsets != written.opsets:
            return f"the opsets are {_opsets(written.opsets)} in the output, and {_opsets(self.opsets)} after the log"
        return self._other_ends(written)

    def _other_ends(self, written: PlainModel) -> str:
        """What differs in inputs with a default, and in nodes without results."""
        without = self.began_with - written.functions.keys()
        graphs = (written.proto.graph, *written.proto.functions) if without else ()
        lost = next(
            (node for graph in graphs for node in nodes_within(graph) if called_operator(node) in without), None
        )
        if lost is not None:
            return f"the output calls {in_quotes(lost.op_type)}, which is a function in the model, and has not its body"
        odd = next((call for call in written.silent if call not in self.silent), None)
        if odd is not None:
            return f"the output has a {odd.operator} without a result, and the model has none like it"
        ours = {name: type_ for name, type_ in self.given.items() if name in written.given or name not in self.defaults}
        if tuple(ours) != tuple(written.given):
            return f"a caller may give {listed(written.given)} to the output, and after the log {listed(ours)}"
        for name in self.defaults & written.given.keys():
            if name not in written.defaults:
                return f"the input {in_quotes(name)} has a default in the model, and none in the output"
            if ours[name] != written.given[name]:
                return f"the input {in_quotes(name)} is of another type or shape in the output than in the model"
        return ""

    # ---- the parts of an edit ----------------------------------------------------------------

    def _changed_inside(
        self, key: str, edits: Iterable[tuple[str, LoggedEdit]], where: str
    ) -> tuple[PlainNode, PlainNode]:
        """The node of that key, and the same node with its bodies edited."""
        call = self.nodes.get(key)
        self.spend(0 if call is None else call.size)
        if call is None:
            raise DoesNotHold(
                f"{where} changes a body of the node that computes {in_quotes(key)}, which the graph has not"
            )
        attributes = dict(call.attributes)
        for name, edit in edits:
            message, _, place = name.rstrip("]").partition("[")
            kind, held = attributes.get(message, ("", ()))
            bodies = [held] if kind == "graph" else list(held) if kind == "graphs" else []
            number = int(place) if place.isdecimal() and len(place) < 9 else 0
            if number >= len(bodies):
                raise DoesNotHold(
                    f"{where} changes the body {in_quotes(name)} of the {call}, which has none of that name"
                )
            self.spend(bodies[number].size)
            bodies[number] = _edited_body(bodies[number], edit, where)
            attributes[message] = (kind, bodies[0] if kind == "graph" else tuple(bodies))
        return call, replace(call, attributes=attributes)

    def _unlink(self, call: PlainNode) -> Iterable[str]:
        del self._rank[call.key]
        for value in call.reads:
            self._users[value].discard(call.key)
        made = [value for value in call.outputs if value]
        for value in made:
            del self._producer[value]
        return made

    def _link(self, call: PlainNode, where: str) -> None:
        if not call.key:
            raise DoesNotHold(f"{where} inserts a {call.operator} without a result")
        for value in filter(None, call.outputs):
            if value in self._producer or value in self.constants or value in self._ends[0]:
                raise DoesNotHold(
                    f"in {where}, {in_quotes(value)} has two producers, one of them a new {call.operator}"
                )
            self._producer[value] = call.key
        self.nodes[call.key] = call
        for value in call.reads:
            self._users.setdefault(value, set()).add(call.key)

    def _defined(self, value: str) -> bool:
        return value in self._producer or value in self.constants or value in self._ends[0]

    def _check_defined(self, calls: Iterable[PlainNode], where: str) -> None:
        for call in calls:
            for value in call.reads:
                if not self._defined(value):
                    raise DoesNotHold(f"in {where}, the {call} reads {in_quotes(value)}, which nothing computes")

    def _check_still_defined(self, removed: Iterable[str], where: str) -> None:
        for value in removed:
            if self._defined(value):
                continue
            if self._users.get(value):
                reader = self.nodes[min(self._users[value])]
                raise DoesNotHold(f"{where} removes {in_quotes(value)}, and the {reader} still reads it")
            if value in self._ends[1]:
                raise DoesNotHold(f"{where} removes {in_quotes(value)}, which is an output of the graph")

    def _placed(self, call: PlainNode) -> bool:
        """Give the node a place between its producers and its readers; False if there is none."""
        producers = (self._producer.get(value) for value in call.reads)
        low = max((self._rank[key] for key in producers if key in self._rank), default=-math.inf)
        readers = [key for value in call.outputs for key in self._users.get(value, ())]
        self.spend(len(call.reads) + len(readers))
        high = min((self._rank[key] for key in readers if key in self._rank), default=math.inf)
        if low == -math.inf:
            low = high - 2 if high < math.inf else -1.0
        if high == math.inf:
            high = low + 2
        self._rank[call.key] = (low + high) / 2
        return low < self._rank[call.key] < high

    def _sort(self, where: str) -> None:
        """Number all nodes in topological order. Raises DoesNotHold if some are in a cycle."""
        self.spend(sum(call.size for call in self.nodes.values()))
        producers = {
            key: {self._producer[value] for value in call.reads if value in self._producer}
            for key, call in self.nodes.items()
        }
        waits = {key: len(result) for key, result in producers.items()}
        readers: dict[str, list[str]] = {}
        for key, result in producers.items():
            for producer in result:
                readers.setdefault(producer, []).append(key)
        ready = deque(key for key, count in waits.items() if not count)
        order = []
        while ready:
            order.append(ready.popleft())
            for reader in readers.get(order[-1], ()):
                waits[reader] -= 1
                if not waits[reader]:
                    ready.append(reader)
        if len(order) < len(self.nodes):
            left = next(key for key, count in waits.items() if count)
            raise DoesNotHold(f"in {where}, {in_quotes(left)} is in or behind a cycle")
        self._rank = {key: float(place) for place, key in enumerate(order)}

    def _used_constants(self) -> list[str]:
        return [name for name in self.constants if self._users.get(name) or name in self._ends[1]]


def _edited_body(body: PlainGraph, edit: LoggedEdit, where: str) -> PlainGraph:
    """The body after the edit; the node that holds it is checked for what it takes from outside."""
    if edit.opsets is not None or edit.types or edit.functions:
        raise DoesNotHold(f"{where} changes types, functions or opsets in a body, which has none of its own")
    reads = frozenset(body.captured).union(*(call.reads for call in edit.insert))
    own = {*body.constants, *edit.constants, *(v for c in (*body.nodes.values(), *edit.insert) for v in c.outputs)}
    outside = sorted(reads - own - set(body.inputs))
    inner = Replay(PlainModel(replace(body, inputs=(*body.inputs, *outside)), {}, {}, {}))
    inner.apply(edit, where)
    plain_graph = PlainGraph(body.inputs, body.outputs, inner.nodes, inner.constants)
    return replace(plain_graph, constants=plain_graph.used_constants)


def _opsets(opsets: Mapping[str, int]) -> str:
    return ", ".join(f"{in_quotes(domain or 'ai.onnx')} {version}" for domain, version in sorted(opsets.items()))


def _contents_differ(ours: PlainConstant | None, own: PlainConstant | None) -> str:
    if own is None:
        return "is in the graph after the log, and not in the output"
    if ours is None:
        return "is in the output, and not in the graph after the log"
    if (ours.dtype, ours.shape) != (own.dtype, own.shape):
        return f"is of shape {list(own.shape)} and type {own.dtype} in the output, not {list(ours.shape)}, {ours.dtype}"
    return "has other elements in the output than after the log (their SHA-256 differ)"
