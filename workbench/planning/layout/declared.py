"""Layouts of inputs that the user declares, since the graph does not determine them; kept as metadata of the graph.

An input that only a Reshape uses may be an image or not; a weight that is an input may be stored in any order.
The metadata is exported with the model.
"""

from __future__ import annotations

from collections.abc import Iterable

from workbench.errors import UserError
from workbench.ir import Graph
from workbench.ops.channels_last import LAYOUT_NAMES

DECLARED = "workbench.layout."  # prefix of the metadata key, before the input's name; the value: "NHWC"
WEIGHT_LAYOUTS = ("OIHW", "OHWI", "HWIO", "HWOI")


def layouts_of_rank(rank: int | None) -> tuple[str, ...]:
    """The layouts that an input of that rank may be declared to have."""
    return (*LAYOUT_NAMES.get(rank or 0, ()), *(WEIGHT_LAYOUTS if rank == 4 else ()))


def declared_layouts(graph: Graph) -> dict[str, str]:
    """The declared layouts by input; entries that do not fit their input are ignored."""
    declared = ((value, graph.metadata.get(DECLARED + value, "")) for value in graph.inputs)
    return {value: layout for value, layout in declared if layout in layouts_of_rank(graph.rank_of(value))}


def parse_layouts(entries: Iterable[str]) -> dict[str, str]:
    """Parse layouts as on the command line, "x=NHWC". Raises UserError at the first that is not valid."""
    results = {}
    for entry in entries:
        value, equals, layout = entry.rpartition("=")
        if not equals or not value:
            raise UserError(f"--input-layout takes input=LAYOUT such as x=NHWC, not '{entry}'")
        if value in results:
            raise UserError(f"the layout of input '{value}' is given twice; give it once")
        results[value] = layout
    return results
