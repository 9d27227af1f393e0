"""Follows the log: begins with the model's nodes and applies each edit, which must fit."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from workbench.checker.certificate_nodes import (
    written_constants,
    written_function,
    written_node,
    written_opsets,
    written_type,
)
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

MAX_VISITS = 5_000_000  # the most names of values that a log may visit; the log of a UNet of 4,545 nodes takes 372,000
VISITS_PER_NAME = 100  # further visits that are allowed for each name in the model


@dataclass(frozen=True)
class LoggedEdit:
    """inside: pairs of a node's key and edits of its bodies by attribute ("branches[0]" in a list). drop: constants
    that are removed. types: new types of inputs and outputs. opsets: all of them if one changes, else None."""

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
        tuple(_inner_edits(entry) for entry in record.records("inside", "node with bodies")),
        written_constants(record, "drop"),
        written_constants(record, "constants"),
        {name: written_type(entry, f"{record.where}, type of {in_quotes(name)}") for name, entry in types.items()},
        dict(written_function(function) for function in record.records("functions", "function")),
        written_opsets(record) if record.has("opsets") else None,
    )


def _inner_edits(record: Fields) -> tuple[str, tuple[tuple[str, LoggedEdit], ...]]:
    edits = ((entry.text("body"), logged_edit(entry.record("edit"))) for entry in record.records("bodies", "body"))
    return record.text("node"), tuple(edits)


def with_functions(
    functions: Mapping[FunctionKey, PlainFunction], edit: LoggedEdit
) -> Mapping[FunctionKey, PlainFunction]:
    """The functions after an edit, as another mapping."""
    return {key: function for key, function in {**functions, **edit.functions}.items() if function is not None}


class Replay:
    """The graph at one moment of the log: every value has one producer, every operand is defined, nothing is in a
    cycle. The cost of an edit depends on its size, unless it reverses the order of nodes."""

    def __init__(self, model: PlainModel) -> None:
        """Raises DoesNotHold if the model itself is not such a graph."""
        self._visits = 0
        self._max_visits = MAX_VISITS + VISITS_PER_NAME * model.graph.size
        self.inputs = model.graph.inputs
        self.outputs = model.graph.outputs
        self._input_names, self._output_names = frozenset(self.inputs), frozenset(self.outputs)
        self.nodes = dict(model.graph.nodes)
        self.constants = dict(model.graph.constants)
        self.types = dict(model.types)
        self.functions: Mapping[FunctionKey, PlainFunction] = model.functions
        self.opsets = dict(model.opsets)
        self.first_functions = frozenset(model.functions)
        self.feed_inputs, self.defaults, self.silent = model.feed_inputs, model.defaults, model.silent
        self._producer = {value: key for key, call in self.nodes.items() for value in call.outputs if value}
        self._users: dict[str, set[str]] = {}
        self._rank: dict[str, float] = {}
        for key, call in self.nodes.items():
            for value in call.reads:
                self._users.setdefault(value, set()).add(key)
        self._check_defined(self.nodes.values(), "the model")
        self._sort("the model")

    def spend(self, visits: int) -> None:
        """Count visits of names of values, so that no certificate takes forever. Raises Unreadable."""
        self._visits += visits
        if self._visits > self._max_visits:
            raise Unreadable(f"following it takes more than {self._max_visits:,} visits of names of values")

    def readers(self, value: str) -> list[PlainNode]:
        """The nodes that read a value, themselves or in their bodies."""
        return [self.nodes[key] for key in sorted(self._users.get(value, ()))]

    def is_output(self, value: str) -> bool:
        return value in self._output_names

    def producer(self, value: str) -> PlainNode | None:
        """The node that computes a value; None for an input or a constant."""
        key = self._producer.get(value)
        return None if key is None else self.nodes[key]

    def apply(self, edit: LoggedEdit, where: str) -> None:
        """Apply the edit. where: the rewrite, for sentences. Raises DoesNotHold if a part of the edit does not fit."""
        removed: set[str] = set()
        self.spend(sum(call.size for call in (*edit.remove, *edit.insert)))
        changed = [self._changed_inside(key, edits, where) for key, edits in edit.inside]
        insert = [*edit.insert, *(new for _, new in changed)]
        for call in (*edit.remove, *(old for old, _ in changed)):
            present = self.nodes.get(call.key)
            if present is None:
                raise DoesNotHold(f"{where} removes the {call}, which the graph does not have")
            if present != call:
                raise DoesNotHold(f"{where} removes the {call}, and in the graph {first_difference(present, call)}")
            removed.update(self._unlink(self.nodes.pop(call.key)))
        for name, contents in edit.drop.items():
            if name not in self.constants:
                raise DoesNotHold(f"{where} removes the constant {in_quotes(name)}, which the graph does not have")
            if self.constants.pop(name) != contents:
                raise DoesNotHold(
                    f"{where} removes the constant {in_quotes(name)}, which has other elements in the graph"
                )
            removed.add(name)
        for name, contents in edit.constants.items():
            if name in self._producer or name in self._input_names:
                raise DoesNotHold(f"in {where}, {in_quotes(name)} has two producers, one of them a constant")
            if name in self.constants:
                raise DoesNotHold(f"{where} replaces the constant {in_quotes(name)} without removing it")
            self.constants[name] = contents
        for call in insert:
            self._link(call, where)
        self._check_defined(insert, where)
        self._check_still_defined(removed, where)
        if not all(self._rank_between(call) for call in insert):
            self._sort(where)
        for name, type_ in edit.types.items():
            if name not in self.types:
                raise DoesNotHold(f"{where} types {in_quotes(name)}, which is no input or output")
            self.types[name] = type_
        if edit.functions:
            self.functions = with_functions(self.functions, edit)
        if edit.opsets is not None:
            self.opsets = dict(edit.opsets)

    def difference(self, written: PlainModel) -> str:
        """The first thing in which the written model differs from this graph, as a sentence; "" if they are equal."""
        written_graph = written.graph
        for key in (*self.nodes, *written_graph.nodes):
            logged, in_file = self.nodes.get(key), written_graph.nodes.get(key)
            if in_file is None:
                what = logged.operator if logged else ""
                return f"after the log {in_quotes(key)} is computed by {what}, in the output by nothing"
            if logged is None:
                return f"in the output {in_quotes(key)} is computed by {in_file.operator}, after the log by nothing"
            if logged != in_file:
                return f"of the {logged}, after the log {first_difference(logged, in_file)} as in the output"
        used_in_file = written_graph.used_constants
        for name in (*self._used_constants(), *used_in_file):
            constant, constant_in_file = self.constants.get(name), used_in_file.get(name)
            if constant != constant_in_file:
                return f"constant {in_quotes(name)} {_constant_difference(constant, constant_in_file)}"
        for what, one, other in (
            ("inputs", self.inputs, written_graph.inputs),
            ("outputs", self.outputs, written_graph.outputs),
        ):
            if one != other:
                return f"after the log the {what} are {listed(one)}, in the output {listed(other)}"
        for name in self.types:
            output_constant = self.constants.get(name)  # a constant that is an output, which has its own type
            type_ = self.types[name] if output_constant is None else (output_constant.dtype, output_constant.shape)
            if type_ != written.types.get(name):
                sentence = f"{in_words(type_)} after the log, and {in_words(written.types.get(name))} in the output"
                return f"{in_quotes(name)} has another type or shape: {sentence}"
        for function in {**self.functions, **written.functions}:
            if self.functions.get(function) != written.functions.get(function):
                name = in_quotes(".".join(filter(None, function)))
                return f"the function {name} differs between the output and the log"
        if self.opsets != written.opsets:
            return f"the opsets are {_opsets(written.opsets)} in the output, and {_opsets(self.opsets)} after the log"
        return self._interface_difference(written)

    def _interface_difference(self, written: PlainModel) -> str:
        """The first difference in functions, nodes without results or inputs with a default, as a sentence; or ""."""
        missing = self.first_functions - written.functions.keys()
        graphs = (written.proto.graph, *written.proto.functions) if missing else ()
        lost = next(
            (node for graph in graphs for node in nodes_within(graph) if called_operator(node) in missing), None
        )
        if lost is not None:
            return f"the output calls {in_quotes(lost.op_type)}, which is a function in the model, without its body"
        added = next((call for call in written.silent if call not in self.silent), None)
        if added is not None:
            return f"the output has a {added.operator} without a result, and the model does not have it"
        feed_inputs = {
            name: type_
            for name, type_ in self.feed_inputs.items()
            if name in written.feed_inputs or name not in self.defaults
        }
        if tuple(feed_inputs) != tuple(written.feed_inputs):
            feeds = f"{listed(written.feed_inputs)} to the output, and after the log {listed(feed_inputs)}"
            return f"a caller may feed {feeds}"
        for name in self.defaults & written.feed_inputs.keys():
            if name not in written.defaults:
                return f"the input {in_quotes(name)} has a default in the model, and none in the output"
            if feed_inputs[name] != written.feed_inputs[name]:
                return f"the input {in_quotes(name)} has another type or shape in the output than in the model"
        return ""

    # ---- the parts of an edit ----------------------------------------------------------------

    def _changed_inside(
        self, key: str, edits: Iterable[tuple[str, LoggedEdit]], where: str
    ) -> tuple[PlainNode, PlainNode]:
        """The node with the key, and the same node with its bodies edited."""
        call = self.nodes.get(key)
        self.spend(0 if call is None else call.size)
        if call is None:
            raise DoesNotHold(
                f"{where} changes a body of the node that computes {in_quotes(key)}, which the graph does not have"
            )
        attributes = dict(call.attributes)
        for name, edit in edits:
            attribute, _, index = name.rstrip("]").partition("[")
            kind, value = attributes.get(attribute, ("", ()))
            bodies = [value] if kind == "graph" else list(value) if kind == "graphs" else []
            number = int(index) if index.isdecimal() and len(index) < 9 else 0
            if number >= len(bodies):
                raise DoesNotHold(f"{where} changes the body {in_quotes(name)} of the {call}, which has no such body")
            self.spend(bodies[number].size)
            bodies[number] = _edited_body(bodies[number], edit, where)
            attributes[attribute] = (kind, bodies[0] if kind == "graph" else tuple(bodies))
        return call, replace(call, attributes=attributes)

    def _unlink(self, call: PlainNode) -> Iterable[str]:
        del self._rank[call.key]
        for value in call.reads:
            self._users[value].discard(call.key)
        results = [value for value in call.outputs if value]
        for value in results:
            del self._producer[value]
        return results

    def _link(self, call: PlainNode, where: str) -> None:
        if not call.key:
            raise DoesNotHold(f"{where} inserts a {call.operator} without a result")
        for value in filter(None, call.outputs):
            if value in self._producer or value in self.constants or value in self._input_names:
                raise DoesNotHold(
                    f"in {where}, {in_quotes(value)} has two producers, one of them a new {call.operator}"
                )
            self._producer[value] = call.key
        self.nodes[call.key] = call
        for value in call.reads:
            self._users.setdefault(value, set()).add(call.key)

    def _defined(self, value: str) -> bool:
        return value in self._producer or value in self.constants or value in self._input_names

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
            if value in self._output_names:
                raise DoesNotHold(f"{where} removes {in_quotes(value)}, which is an output of the graph")

    def _rank_between(self, call: PlainNode) -> bool:
        """Give the node a rank between its producers and its readers; False if there is none."""
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
        missing = {key: len(sources) for key, sources in producers.items()}
        readers: dict[str, list[str]] = {}
        for key, sources in producers.items():
            for producer in sources:
                readers.setdefault(producer, []).append(key)
        ready = deque(key for key, count in missing.items() if not count)
        order = []
        while ready:
            order.append(ready.popleft())
            for reader in readers.get(order[-1], ()):
                missing[reader] -= 1
                if not missing[reader]:
                    ready.append(reader)
        if len(order) < len(self.nodes):
            blocked = next(key for key, count in missing.items() if count)
            raise DoesNotHold(f"in {where}, {in_quotes(blocked)} is in a cycle or depends on one")
        self._rank = {key: float(position) for position, key in enumerate(order)}

    def _used_constants(self) -> list[str]:
        return [name for name in self.constants if self._users.get(name) or name in self._output_names]


def _edited_body(body: PlainGraph, edit: LoggedEdit, where: str) -> PlainGraph:
    """The body after the edit. Values that it captures are checked in the graph around it."""
    if edit.opsets is not None or edit.types or edit.functions:
        raise DoesNotHold(f"{where} changes types, functions or opsets in a body, which has none")
    reads = frozenset(body.captured).union(*(call.reads for call in edit.insert))
    defined = {*body.constants, *edit.constants, *(v for c in (*body.nodes.values(), *edit.insert) for v in c.outputs)}
    outside = sorted(reads - defined - set(body.inputs))
    inner = Replay(PlainModel(replace(body, inputs=(*body.inputs, *outside)), {}, {}, {}))
    inner.apply(edit, where)
    graph = PlainGraph(body.inputs, body.outputs, inner.nodes, inner.constants)
    return replace(graph, constants=graph.used_constants)


def _opsets(opsets: Mapping[str, int]) -> str:
    return ", ".join(f"{in_quotes(domain or 'ai.onnx')} {version}" for domain, version in sorted(opsets.items()))


def _constant_difference(logged: PlainConstant | None, written: PlainConstant | None) -> str:
    if written is None:
        return "is in the graph after the log, and not in the output"
    if logged is None:
        return "is in the output, and not in the graph after the log"
    if (logged.dtype, logged.shape) != (written.dtype, written.shape):
        has = f"shape {list(written.shape)} and type {written.dtype}"
        return f"has {has} in the output, not {list(logged.shape)} and {logged.dtype}"
    return "has other elements in the output than after the log (their SHA-256 differ)"
