"""The boxes of a history's inputs and outputs: their styles over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from workbench.ir import Graph, TensorType
from workbench.planning.layout.infer import TENSOR
from workbench.planning.layout.profile import Profile
from workbench.presentation.view.ids import INPUT_ID, OUTPUT_ID
from workbench.presentation.view.node_style import NO_KIND, OWN, NodeStyle, is_of_weights
from workbench.presentation.view.value_types import TypeWidths, ValueLabel, value_label

FOREVER = 1_000_000_000  # later than any moment: the `dies` of what exists at the end

StyleSpan = tuple[int, int, NodeStyle]  # first moment, moment after the last, style


@dataclass(frozen=True)
class _Noted:
    """What an input or output is from moment `born` on."""

    born: int
    type: TensorType | None
    layout: str
    label: ValueLabel


@dataclass
class BorderStyles:
    """Collects what inputs and outputs are, moment by moment."""

    target: Profile
    noted: dict[str, list[_Noted]] = field(default_factory=dict)  # by "in:..." and "out:..."

    def note(self, graph: Graph, layouts: Mapping[str, str], moment: int) -> None:
        """Record those whose types are new or changed. layouts: by value."""
        for prefix, values in ((INPUT_ID, graph.inputs), (OUTPUT_ID, graph.outputs)):
            for value in values:
                noted = self.noted.setdefault(f"{prefix}{value}", [])
                type_ = graph.tensor_type(value)
                if not noted or noted[-1].type != type_:
                    label = value_label(graph, value, layouts, self.target)
                    noted.append(_Noted(moment if noted else 0, type_, layouts.get(value, TENSOR), label))

    def styles(self, widths: TypeWidths) -> dict[str, list[StyleSpan]]:
        """By "in:..." and "out:...", the styles over time."""
        result = {}
        for id_, noted in self.noted.items():
            ends = [*(later.born for later in noted[1:]), FOREVER]
            result[id_] = [
                (of_moment.born, dies, _style(id_, of_moment, widths))
                for of_moment, dies in zip(noted, ends, strict=True)
            ]
        return result


def _style(id_: str, noted: _Noted, widths: TypeWidths) -> NodeStyle:
    is_input, label = id_.startswith(INPUT_ID), noted.label
    what, value = ("input", id_.removeprefix(INPUT_ID)) if is_input else ("output", id_.removeprefix(OUTPUT_ID))
    # weights that are an input have their layout on every target
    kind = OWN if is_input and is_of_weights(noted.layout) else label.kind
    return NodeStyle(
        what,
        value,
        widths.text(label),
        kind,
        NO_KIND,
        what,
        "",
        result_layout=noted.layout,
        element_type=label.type_name,
    )
