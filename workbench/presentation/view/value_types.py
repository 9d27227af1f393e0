"""The element types of a picture's values: whether its edges name each, and which types are narrower than float32."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from workbench.ir import DataType, Graph
from workbench.ir.types import numpy_name
from workbench.planning.layout.infer import TENSOR
from workbench.planning.layout.profile import Profile
from workbench.presentation.view.node_style import box_kind_of, is_always_named, value_text
from workbench.presentation.view.quantization import quantization_of_value


@dataclass(frozen=True)
class ValueLabel:
    """The label of a value at a moment.

    text:   its shape, layout, and its element type where that is always named.
    kind:   kind of layout. dtype: its element type, None if unknown.
    counts: whether the type is one in which a model computes: a float, or an integer with a scale.
    """

    text: str
    kind: int
    dtype: DataType | None
    counts: bool

    @property
    def type_name(self) -> str:
        return "" if self.dtype is None else numpy_name(self.dtype)

    @property
    def text_with_type(self) -> str:
        name = "" if is_always_named(self.type_name) else self.type_name
        return " ".join(filter(None, (self.text, name)))


LabelSpan = tuple[int, int, ValueLabel]  # first moment, moment after the last, label


@dataclass(frozen=True)
class EdgeInterval:
    """The time for which a value flows along an edge, and the edge's label and kind of layout in that time.

    type: the name of its element type if the picture has several, else "". is_narrow: whether that is a narrower one.
    """

    born: int
    dies: int
    label: str
    kind: int
    type: str
    is_narrow: bool


@dataclass(frozen=True)
class TypeWidths:
    """The types in which a model computes, the widest first; empty if there are fewer than two.

    If there are more, edges name every value's type, and those of narrower types have a sign of their own.
    """

    dtypes: tuple[DataType, ...] = ()

    def text(self, label: ValueLabel) -> str:
        """The label's text in this picture."""
        return label.text_with_type if self.dtypes else label.text

    def is_narrow(self, label: ValueLabel) -> bool:
        """Whether the value is of one of the narrower types."""
        return label.counts and label.dtype in self.narrower

    def intervals(self, spans: Iterable[LabelSpan]) -> list[EdgeInterval]:
        """The intervals of an edge. spans: in order; those between which nothing changes that is shown are joined."""
        joined: list[EdgeInterval] = []
        for born, dies, label in spans:
            type_ = label.type_name if self.dtypes else ""
            found = EdgeInterval(born, dies, self.text(label), label.kind, type_, self.is_narrow(label))
            if joined and replace(joined[-1], born=born, dies=dies) == found and joined[-1].dies == born:
                found = replace(found, born=joined.pop().born)
            joined.append(found)
        return joined

    @property
    def usual(self) -> DataType:
        """The type with which narrower ones are compared: float32, else the widest."""
        return DataType.FLOAT if DataType.FLOAT in self.dtypes else self.dtypes[0]

    @property
    def narrower(self) -> tuple[DataType, ...]:
        """The types with fewer bits than the usual one."""
        return tuple(dtype for dtype in self.dtypes if dtype.bitwidth < self.usual.bitwidth)

    @property
    def names(self) -> list[str]:
        """The name of the usual type and of each narrower one; empty if there is no narrower one."""
        return [numpy_name(dtype) for dtype in (self.usual, *self.narrower)] if self.narrower else []


def value_label(graph: Graph, value: str, layouts: Mapping[str, str], target: Profile) -> ValueLabel:
    """The label of a value of the graph. layouts: by value."""
    type_ = graph.tensor_type(value)
    dtype = None if type_ is None or type_.dtype == DataType.UNDEFINED else type_.dtype
    kind = box_kind_of(layouts.get(value, TENSOR), target)
    counts = dtype is not None and (
        dtype.is_floating_point()
        or (is_always_named(numpy_name(dtype)) and quantization_of_value(graph, value) is not None)
    )
    return ValueLabel(value_text(graph, value, layouts), kind, dtype, counts)


def widths_of(labels: Iterable[ValueLabel]) -> TypeWidths:
    """The types of a picture with these values."""
    dtypes = {label.dtype for label in labels if label.counts and label.dtype is not None}
    ordered = sorted(dtypes, key=lambda dtype: (-dtype.bitwidth, dtype.name))
    return TypeWidths(tuple(ordered) if len(ordered) > 1 else ())
