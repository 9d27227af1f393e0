"""What the checker compares: nodes, constants, bodies, functions, as plain values.

Names of nodes, documentation and metadata compute nothing and are left out. A Constant node is read as a constant, and
omitted names at the end of a node's operands and results are cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from onnx import ModelProto

from workbench.checker.outcome import DoesNotHold, escaped, in_quotes
from workbench.checker.types import PlainType, is_tensor, symbol_of


@dataclass(frozen=True)
class PlainConstant:
    """dtype: ONNX's number of the element type. sha256: of the elements' bytes (little endian, as in raw_data; a text
    is its length in 8 bytes and its bytes). data: these bytes, if they are few and not texts."""

    dtype: int
    shape: tuple[int, ...]
    sha256: str
    data: bytes | None = field(default=None, compare=False)


WORKBENCH_DOMAIN = "workbench"  # of the engine's functions, which a file may call without having their bodies


def kernel_name(domain: str, op_type: str) -> str:
    """The operator, without what tells its functions apart if it is the engine's: "Conv_NHWC" of "Conv_NHWC__pads"."""
    return op_type.partition("__")[0] if domain == WORKBENCH_DOMAIN else op_type


@dataclass(frozen=True)
class PlainNode:
    """A node. attributes: kind and value of each; a value may be `PlainConstant`, a `PlainGraph` or a tuple of them."""

    domain: str
    op_type: str
    overload: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, tuple[str, Any]] = field(default_factory=dict)

    @property
    def operator(self) -> str:
        """Domain and type, for sentences."""
        return escaped(f"{self.domain}.{self.op_type}" if self.domain else self.op_type)

    @property
    def key(self) -> str:
        """Its first result, which identifies it; "" if it has none."""
        return next(filter(None, self.outputs), "")

    @property
    def bodies(self) -> Iterator[PlainGraph]:
        for _, value in self.attributes.values():
            if isinstance(value, PlainGraph):
                yield value
            elif isinstance(value, tuple):
                yield from (item for item in value if isinstance(item, PlainGraph))

    @cached_property
    def reads(self) -> frozenset[str]:
        """The values that it reads, with those that its bodies capture."""
        return frozenset(filter(None, self.inputs)).union(*(body.captured for body in self.bodies))

    @cached_property
    def size(self) -> int:
        """The number of names in it and its bodies, as a measure of work."""
        return 1 + len(self.inputs) + len(self.outputs) + sum(body.size for body in self.bodies)

    def __str__(self) -> str:
        return f"{self.operator} that computes {in_quotes(self.key)}"


@dataclass(frozen=True)
class PlainGraph:
    """A body, or the inside of a function. nodes: by key."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: Mapping[str, PlainNode]
    constants: Mapping[str, PlainConstant]

    @property
    def used_constants(self) -> dict[str, PlainConstant]:
        used = frozenset(self.outputs).union(*(call.reads for call in self.nodes.values()))
        return {name: contents for name, contents in self.constants.items() if name in used}

    @cached_property
    def size(self) -> int:
        return len(self.inputs) + len(self.constants) + sum(call.size for call in self.nodes.values())

    @cached_property
    def producers(self) -> Mapping[str, PlainNode]:
        """For each value that a node computes, the node."""
        return {value: call for call in self.nodes.values() for value in call.outputs if value}

    @cached_property
    def captured(self) -> frozenset[str]:
        """The values that it reads from graphs around it."""
        defined = {*self.inputs, *self.constants, *(v for call in self.nodes.values() for v in call.outputs)}
        return frozenset(self.outputs).union(*(call.reads for call in self.nodes.values())) - defined


@dataclass(frozen=True)
class PlainFunction:
    """A function of the model. parameters: its attributes without default. defaults: the other attributes, by name."""

    graph: PlainGraph
    opsets: Mapping[str, int]
    parameters: frozenset[str]
    defaults: Mapping[str, tuple[str, Any]]


FunctionKey = tuple[str, str, str]  # domain, name, overload
Declared = tuple[str, str, PlainType]  # where, value, type


@dataclass
class PlainModel:
    """steps: the nodes as the file lists them, also those without results. types: of inputs without default and of
    outputs. feed_inputs: the inputs that a caller may feed, with their types, in order; defaults: inputs with a
    default, which the log counts as constants. declared: of inner values. weight_files: the external files, by
    location. proto: the message. folder: of the file."""

    graph: PlainGraph
    types: dict[str, PlainType]
    functions: dict[FunctionKey, PlainFunction]
    opsets: dict[str, int]
    steps: tuple[PlainNode, ...] = ()
    feed_inputs: dict[str, PlainType] = field(default_factory=dict)
    defaults: frozenset[str] = frozenset()
    declared: tuple[Declared, ...] = ()
    weight_files: dict[str, Path] = field(default_factory=dict)
    proto: ModelProto = field(default_factory=ModelProto)
    folder: Path = Path()

    @property
    def silent(self) -> tuple[PlainNode, ...]:
        """The nodes without results."""
        return tuple(step for step in self.steps if not step.key)

    @property
    def overridable(self) -> frozenset[str]:
        """The inputs in place of whose default a caller may give something else."""
        return self.defaults & self.feed_inputs.keys()

    @property
    def symbols(self) -> set[str]:
        """Names of sizes of its inputs."""
        types = ((value, type_) for value, type_ in self.feed_inputs.items() if is_tensor(type_))
        symbols = {symbol_of(value, axis, dim) for value, type_ in types for axis, dim in enumerate(type_[1] or ())}
        return symbols - {""}


def graph_from(
    inputs: Iterable[str],
    outputs: Iterable[str],
    calls: Iterable[PlainNode],
    constants: Mapping[str, PlainConstant],
    where: str,
    keep: bool = False,
) -> PlainGraph:
    """A graph whose values have one producer each; raises DoesNotHold otherwise. Unless `keep`, constants that nothing
    reads are left out, and nodes without results are refused."""
    calls = list(calls)
    silent = next((call for call in calls if not call.key), None)
    if silent is not None and not keep:
        raise DoesNotHold(f"in {where}, a {silent.operator} has no result")
    calls = [call for call in calls if call.key]
    inputs, outputs = tuple(inputs), tuple(outputs)
    counts = Counter([*inputs, *constants, *(v for call in calls for v in call.outputs if v)])
    duplicate = next((value for value, count in counts.items() if count > 1), None)
    if duplicate is not None:
        raise DoesNotHold(f"in {where}, {in_quotes(duplicate)} has two producers")
    graph = PlainGraph(inputs, outputs, {call.key: call for call in calls}, constants)
    if keep:
        return graph
    _check_order(graph, where)
    return replace(graph, constants=graph.used_constants)


def _check_order(graph: PlainGraph, where: str) -> None:
    pending = {value for call in graph.nodes.values() for value in call.outputs if value}
    for call in graph.nodes.values():
        early = call.reads & pending
        if early:
            raise DoesNotHold(f"in {where}, the {call} is before the node that computes {in_quotes(min(early))}")
        pending.difference_update(call.outputs)


# ---- differences in words ------------------------------------------------------------------------


def first_difference(one: PlainNode, other: PlainNode) -> str:
    """The first difference of two nodes that compute the same value; "" if there is none."""
    if one.operator != other.operator or one.overload != other.overload:
        return f"the operator is {one.operator}, not {other.operator}"
    if one.inputs != other.inputs:
        return f"it reads {_names_text(one.inputs)}, not {_names_text(other.inputs)}"
    if one.outputs != other.outputs:
        return f"it computes {_names_text(one.outputs)}, not {_names_text(other.outputs)}"
    for name in sorted({*one.attributes, *other.attributes}):
        value, other_value = one.attributes.get(name), other.attributes.get(name)
        if value != other_value:
            texts = f"{_attribute_text(value)}, not {_attribute_text(other_value)}"
            return f"its attribute {in_quotes(name)} is {texts}{_body_difference(value, other_value)}"
    return ""


def _body_difference(attribute: tuple[str, Any] | None, other_attribute: tuple[str, Any] | None) -> str:
    """Where two bodies differ, as the end of a sentence; "" if the attributes are not bodies."""
    one, other = (None if entry is None else entry[1] for entry in (attribute, other_attribute))
    if not (isinstance(one, PlainGraph) and isinstance(other, PlainGraph)):
        return ""
    for key in [*one.nodes, *other.nodes]:
        a, b = one.nodes.get(key), other.nodes.get(key)
        if a is None or b is None:
            return f": in one of them nothing computes {in_quotes(key)}"
        if a != b:
            return f": of the {a} there, {first_difference(a, b)}"
    return ": their constants, inputs or outputs differ"


def _names_text(names: tuple[str, ...]) -> str:
    return f"({escaped(', '.join(names), 200)})"


def _attribute_text(attribute: tuple[str, Any] | None) -> str:
    if attribute is None:
        return "absent"
    kind, value = attribute
    if kind in ("graph", "graphs"):
        return "one body"
    return f"{kind} {escaped(str(list(value) if isinstance(value, tuple) else value), 80)}"
