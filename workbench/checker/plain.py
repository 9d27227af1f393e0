"""What the checker compares: nodes, constants, bodies, functions, as plain values.

Names of nodes, documentation, metadata and types of inner values compute nothing and are not here. A Constant node is
the constant that it holds, and the optional names at the end of a node's operands and results are cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from workbench.checker.outcome import DoesNotHold


@dataclass(frozen=True)
class PlainConstant:
    """Of a constant: the number of its element type in ONNX, its shape, the SHA-256 of its elements' bytes (little
    endian, as in raw_data; a text is its length in 8 bytes and its bytes)."""

    dtype: int
    shape: tuple[int, ...]
    sha256: str


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
        return f"{self.domain}.{self.op_type}" if self.domain else self.op_type

    @property
    def key(self) -> str:
        """Its first result, by which it is known; "" if it has none."""
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
        """The values that it reads, with those that its bodies take from outside."""
        return frozenset(filter(None, self.inputs)).union(*(body.captured for body in self.bodies))

    def __str__(self) -> str:
        return f"{self.operator} that computes '{self.key}'"


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

    @property
    def captured(self) -> frozenset[str]:
        """Values of the graphs around it."""
        own = {*self.inputs, *self.constants, *(v for call in self.nodes.values() for v in call.outputs)}
        return frozenset(self.outputs).union(*(call.reads for call in self.nodes.values())) - own


@dataclass(frozen=True)
class PlainFunction:
    """A function of the model. parameters: of attributes without default. defaults: of the others."""

    graph: PlainGraph
    opsets: Mapping[str, int]
    parameters: frozenset[str]
    defaults: Mapping[str, tuple[str, Any]]


FunctionKey = tuple[str, str, str]  # domain, name, overload


@dataclass
class PlainModel:
    """order: keys of the nodes as the file lists them. types: of inputs and outputs. inner_types: of other values, as
    far as they are declared. defaults: inputs that have a default, which count as constants. beside: the files with
    its weights, by location."""

    graph: PlainGraph
    types: dict[str, Any]
    functions: dict[FunctionKey, PlainFunction]
    opsets: dict[str, int]
    order: tuple[str, ...] = ()
    inner_types: dict[str, Any] = field(default_factory=dict)
    defaults: tuple[str, ...] = ()
    beside: dict[str, Path] = field(default_factory=dict)

    def bind(self, dims: Mapping[str, int]) -> None:
        """Put numbers in place of symbols in the declared types, for sizes; a negative number is an unknown one."""
        for value, type_ in self.inner_types.items():
            if type_ is not None and len(type_) == 2 and type_[1] is not None:
                sizes = (dims.get(dim, dim) for dim in type_[1])
                known = tuple(None if isinstance(size, int) and size < 0 else size for size in sizes)
                self.inner_types[value] = (type_[0], known)


def graph_from(
    inputs: Iterable[str],
    outputs: Iterable[str],
    calls: Iterable[PlainNode],
    constants: Mapping[str, PlainConstant],
    where: str,
    keep: bool = False,
) -> PlainGraph:
    """A graph whose values have one producer each; raises DoesNotHold otherwise. Nodes without results are left out,
    and, unless `keep`, constants that nothing reads."""
    calls = [call for call in calls if call.key]
    inputs, outputs = tuple(inputs), tuple(outputs)
    made = Counter([*inputs, *constants, *(v for call in calls for v in call.outputs if v)])
    twice = next((value for value, count in made.items() if count > 1), None)
    if twice is not None:
        raise DoesNotHold(f"in {where}, '{twice}' has two producers")
    graph = PlainGraph(inputs, outputs, {call.key: call for call in calls}, constants)
    return graph if keep else replace(graph, constants=graph.used_constants)


# ---- differences in words ------------------------------------------------------------------------


def first_difference(one: PlainNode, other: PlainNode) -> str:
    """The first difference of two nodes that compute the same value; "" if there is none."""
    if one.operator != other.operator or one.overload != other.overload:
        return f"the operator is {one.operator}, not {other.operator}"
    if one.inputs != other.inputs:
        return f"it reads {_listed(one.inputs)}, not {_listed(other.inputs)}"
    if one.outputs != other.outputs:
        return f"it computes {_listed(one.outputs)}, not {_listed(other.outputs)}"
    for name in sorted({*one.attributes, *other.attributes}):
        mine, theirs = one.attributes.get(name), other.attributes.get(name)
        if mine != theirs:
            return f"its attribute '{name}' is {_shown(mine)}, not {_shown(theirs)}{_inside(mine, theirs)}"
    return ""


def _inside(mine: tuple[str, Any] | None, theirs: tuple[str, Any] | None) -> str:
    """Where two bodies differ."""
    one, other = (None if told is None else told[1] for told in (mine, theirs))
    if not (isinstance(one, PlainGraph) and isinstance(other, PlainGraph)):
        return ""
    for key in [*one.nodes, *other.nodes]:
        a, b = one.nodes.get(key), other.nodes.get(key)
        if a is None or b is None:
            return f": in one of them nothing computes '{key}'"
        if a != b:
            return f": of the {a} there, {first_difference(a, b)}"
    return ": their constants, inputs or outputs differ"


def _listed(names: tuple[str, ...]) -> str:
    return f"({', '.join(names)[:200]})"


def _shown(told: tuple[str, Any] | None) -> str:
    if told is None:
        return "absent"
    kind, value = told
    if kind in ("graph", "graphs"):
        return "one body"
    return f"{kind} {str(list(value) if isinstance(value, tuple) else value)[:80]}"
