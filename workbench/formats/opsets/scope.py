"""The values that a downgrade of a call may read, and its new constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from workbench.ir import Constant, Graph, TensorType, constant, constant_type
from workbench.ir.node import AttrRef
from workbench.ir.types import Shape, ValueType


class NoOlderForm(Exception):
    """The operator's older form cannot express the call."""


@dataclass
class Names:
    """The names of values and nodes in the whole model."""

    taken: set[str]

    def fresh(self, base: str) -> str:
        name, number = base, 0
        while name in self.taken:
            number += 1
            name = f"{base}_{number}"
        self.taken.add(name)
        return name


@dataclass
class Scope:
    """The values that calls of one graph may read.

    file_opset: the opset of the file from which the model was read, if any.
    outside:    the scope of the graph around it.
    types, constants: of values that are not yet in the graph.
    """

    graph: Graph
    names: Names
    file_opset: int | None = None
    outside: Scope | None = None
    types: Mapping[str, ValueType | None] = field(default_factory=dict)
    constants: dict[str, Constant | None] = field(default_factory=dict)

    def known(self, value: str) -> np.ndarray | None:
        """The elements of a constant; None if they are computed."""
        tensor = self.constants.get(value) or self.graph.constant(value)
        if tensor is not None:
            return tensor.numpy()
        return None if self.outside is None or self.graph.has_value(value) else self.outside.known(value)

    def array(self, value: str) -> np.ndarray:
        """The elements of a constant. Raises NoOlderForm if they are computed."""
        result = self.known(value)
        if result is None:
            raise NoOlderForm
        return result

    def reference(self, value: str, kind: int) -> AttrRef | None:
        """The attribute of the function that a value holds, if it is of this type of attributes; else None."""
        producer = self.graph.producer(value)
        if producer is None or producer.op != "Constant":
            return None
        (held,) = producer.attributes.values()
        return held if isinstance(held, AttrRef) and held.type == kind else None

    def type(self, value: str) -> TensorType | None:
        """The tensor's type, as far as known."""
        tensor = self.constants.get(value)
        type_ = self.types.get(value) if tensor is None else constant_type(tensor)
        if type_ is not None:
            return type_ if isinstance(type_, TensorType) else None
        if self.outside is None or self.graph.has_value(value):
            return self.graph.tensor_type(value)
        return self.outside.type(value)

    def shape(self, value: str) -> Shape:
        """The tensor's shape, as far as known."""
        result = self.type(value)
        return None if result is None else result.shape

    def rank(self, value: str) -> int:
        """The tensor's rank. Raises NoOlderForm if it is not known."""
        result = self.shape(value)
        if result is None:
            raise NoOlderForm
        return len(result)

    def new_constant(self, base: str, array: np.ndarray) -> str:
        """Add a constant under a fresh name, which is returned."""
        name = self.names.fresh(base)
        self.constants[name] = constant(array, name)
        return name
