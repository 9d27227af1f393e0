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
OF_WEIGHTS = ("OIHW", "OHWI", "HWIO", "HWOI")


def layouts_of_rank(rank: int | None) -> tuple[str, ...]:
    """The layouts that an input of that rank may be declared to have."""
    return (*LAYOUT_NAMES.get(rank or 0, ()), *(OF_WEIGHTS if rank == 4 else ()))


def declared_layouts(graph: Graph) -> dict[str, str]:
    """The declared layouts by input; entries that do not fit their input are ignored."""
    result = ((value, graph.metadata.get(DECLARED + value, "")) for value in graph.inputs)
    return {value: layout for value, layout in result if layout in layouts_of_rank(graph.rank_of(value))}


def parse_layouts(words: Iterable[str]) -> dict[str, str]:
    """Parse layouts as on the command line, "x=NHWC". Raises UserError with the first word that is not valid."""
    results = {}
    for word in words:
        value, equals, layout = word.rpartition("=")
        if not equals or not value:
            raise UserError(f"--input-layout takes input=LAYOUT such as x=NHWC, not '{word}'")
        if value in results:
            raise UserError(f"the layout of input '{value}' is given twice; give it one")
        results[value] = layout
    return results
