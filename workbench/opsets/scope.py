"""What a downgrade may ask about the values around a call, and where it puts new constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from workbench.ir import Constant, Graph, TensorType, constant, constant_type
from workbench.ir.types import Shape, ValueType


class NoOlderForm(Exception):
    """The call means nothing, or something else, before its operator's present form."""


@dataclass
class Names:
    """Names of values and nodes that are taken, in the whole model."""

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

    file_opset: of the file from which the model was read, if any.
    outside:    the scope of the graph around it.
    types, constants: of values that the graph does not have yet.
    """

    graph: Graph
    names: Names
    file_opset: int | None = None
    outside: Scope | None = None
    types: Mapping[str, ValueType | None] = field(default_factory=dict)
    constants: dict[str, Constant | None] = field(default_factory=dict)

    def known(self, value: str) -> np.ndarray | None:
        """The elements of a constant; None if they are computed."""
        own = self.constants.get(value) or self.graph.constant(value)
        if own is not None:
            return own.numpy()
        return None if self.outside is None or self.graph.has_value(value) else self.outside.known(value)

    def array(self, value: str) -> np.ndarray:
        """The elements of a constant. Raises NoOlderForm if they are computed."""
        result = self.known(value)
        if result is None:
            raise NoOlderForm
        return result

    def type(self, value: str) -> TensorType | None:
        """The tensor's type, as far as known."""
        made = self.constants.get(value)
        message = self.types.get(value) if made is None else constant_type(made)
        if message is not None:
            return message if isinstance(message, TensorType) else None
        if self.outside is None or self.graph.has_value(value):
            return self.graph.tensor_type(value)
        return self.outside.type(value)

    def shape(self, value: str) -> Shape:
        """The tensor's shape, as far as known."""
        result = self.type(value)
        return None if result is None else result.shape

    def rank(self, value: str) -> int:
        """Raises NoOlderForm if it is not known."""
        result = self.shape(value)
        if result is None:
            raise NoOlderForm
        return len(result)

    def new_constant(self, base: str, array: np.ndarray) -> str:
        name = self.names.fresh(base)
        self.constants[name] = constant(array, name)
        return name
