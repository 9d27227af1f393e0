"""A node: one operator call. Nodes are immutable; a changed node is a new object with the same name."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from workbench.ir.attribute_defaults import default_of
from workbench.ir.types import Constant, TensorType

ONNX_DOMAINS = ("", "ai.onnx")


class Body(ABC):
    """The interface of a graph in an attribute of a node, which only `Graph` implements.

    Graphs contain nodes and nodes may contain graphs; this interface breaks the import cycle between their modules.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    opset_imports: dict[str, int]

    @property
    @abstractmethod
    def nodes(self) -> tuple[Node, ...]: ...

    @property
    @abstractmethod
    def constants(self) -> Mapping[str, Constant]: ...

    @property
    @abstractmethod
    def captured(self) -> tuple[str, ...]: ...

    @abstractmethod
    def values(self) -> Iterator[str]: ...

    @abstractmethod
    def producer(self, value: str) -> Node | None: ...

    @abstractmethod
    def tensor_type(self, value: str) -> TensorType | None: ...

    @abstractmethod
    def with_captures_renamed(self, names: Mapping[str, str]) -> Body: ...


@dataclass(frozen=True)
class AttrRef:
    """Inside a function: the value of the function's attribute `name`; `type` is ONNX's AttributeType."""

    name: str
    type: int


_NOTHING: Mapping[str, Any] = MappingProxyType({})
_PLAIN = (int, float, str)  # types of most attributes; isinstance with an abstract class is slower


@dataclass(frozen=True, eq=False)
class Node:
    """One operator call.

    `inputs` and `outputs` are value names, "" for an omitted optional one.
    Attribute values are plain: int, float, str, tuples of them, an
    `onnx_ir` tensor, a `Graph` (the body of If, Loop, Scan) or an `AttrRef`.
    `metadata` has the exporter's notes on the node and the reasons of rewrites.
    """

    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    domain: str = ""
    overload: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)

    # Computed once, as plain fields: a cached property would cost 400 bytes for each instance.
    op: str = field(init=False, repr=False)  # the operator with its domain: "Conv", "com.microsoft.FusedConv"
    bodies: Mapping[str, Any] = field(init=False, repr=False)  # graphs in the attributes, by name ("name[0]" in lists)
    operands: tuple[str, ...] = field(init=False, repr=False)  # inputs and what bodies capture, without duplicates

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "inputs", tuple(self.inputs))
        set_(self, "outputs", tuple(self.outputs))
        set_(self, "domain", "" if self.domain == "ai.onnx" else self.domain)
        set_(self, "attributes", MappingProxyType(dict(self.attributes)) if self.attributes else _NOTHING)
        set_(self, "metadata", MappingProxyType(dict(self.metadata)) if self.metadata else _NOTHING)
        set_(self, "op", f"{self.domain}.{self.op_type}" if self.domain else self.op_type)
        set_(self, "bodies", _bodies(self.attributes) or _NOTHING)
        set_(self, "operands", _operands(self.inputs, self.bodies))

    def attr(self, name: str, default: Any = None) -> Any:
        """The attribute; if it is omitted, `default` or else ONNX's default.

        default: for operators and attributes without a default in ONNX.
        """
        value = self.attributes.get(name, default)
        return default_of(self.op, name) if value is None else value

    @cached_property
    def inner_values(self) -> frozenset[str]:
        """Names of values in the bodies, at any depth; ONNX requires them to differ from those outside."""
        values = {value for body in self.bodies.values() for value in body.values()}
        return frozenset(
            values.union(*(n.inner_values for body in self.bodies.values() for n in body.nodes if n.bodies))
        )

    def replace(self, **changes: Any) -> Node:
        return Node(**{name: getattr(self, name) for name in _INIT_FIELDS} | changes)

    def with_values_renamed(self, names: Mapping[str, str]) -> Node:
        """The node with each operand v replaced by `names[v]`, in its bodies too."""
        if names.keys().isdisjoint(self.operands):
            return self
        inputs = tuple(names.get(v, v) for v in self.inputs)
        if not self.bodies:
            return self.replace(inputs=inputs)
        attributes = {key: _rename_in_body(value, names) for key, value in self.attributes.items()}
        return self.replace(inputs=inputs, attributes=attributes)

    def with_bodies(self, bodies: Mapping[str, Any]) -> Node:
        """The node with other bodies, by name as in `bodies`."""
        attributes = dict(self.attributes)
        for key, value in self.attributes.items():
            if isinstance(value, Body):
                attributes[key] = bodies[key]
            elif isinstance(value, tuple) and value and isinstance(value[0], Body):
                attributes[key] = tuple(bodies[f"{key}[{index}]"] for index in range(len(value)))
        return self.replace(attributes=attributes)

    def __str__(self) -> str:
        return f"{self.op} '{self.name}'"


_INIT_FIELDS = [field.name for field in dataclasses.fields(Node) if field.init]


def _bodies(attributes: Mapping[str, Any]) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for key, value in attributes.items():
        if type(value) in _PLAIN:
            continue
        if isinstance(value, Body):
            results[key] = value
        elif isinstance(value, tuple) and value and isinstance(value[0], Body):
            results.update({f"{key}[{i}]": body for i, body in enumerate(value)})
    return results


def _operands(inputs: tuple[str, ...], bodies: Mapping[str, Any]) -> tuple[str, ...]:
    names = dict.fromkeys(name for name in inputs if name)
    for body in bodies.values():
        names.update(dict.fromkeys(body.captured))
    return inputs if len(names) == len(inputs) and not bodies else tuple(names)


def _rename_in_body(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, Body):
        return value.with_captures_renamed(names)
    if isinstance(value, tuple) and value and isinstance(value[0], Body):
        return tuple(body.with_captures_renamed(names) for body in value)
    return value


@dataclass(frozen=True, eq=False)
class Function:
    """A model-local function: a named graph with attribute parameters.

    `graph` is a `Graph`; `attributes` maps a parameter to its default, or to None if it has none.
    """

    name: str
    domain: str
    graph: Any
    attributes: Mapping[str, Any] = field(default_factory=dict)
    overload: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.domain, self.name, self.overload)


def without_trailing(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of outputs without omitted ones at the end; at least one is kept."""
    while len(names) > 1 and not names[-1]:
        names = names[:-1]
    return names
