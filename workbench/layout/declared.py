"""Layouts that the file does not tell and the user declares: written beside the graph, by input.

An input that only a Reshape reads may be an image or not; a weight that comes from outside may be
stored in any order. The note goes into the exported file's metadata.
"""

from __future__ import annotations

from collections.abc import Iterable

from workbench.errors import UserError
from workbench.ir import Graph
from workbench.ops.channels_last import LAYOUT_NAMES

DECLARED = "workbench.layout."  # key of the note, before the input's name; the value: "NHWC"
OF_WEIGHTS = ("OIHW", "OHWI", "HWIO", "HWOI")


def layouts_of_rank(rank: int | None) -> tuple[str, ...]:
    """The layouts that an input of that rank may be declared to have."""
    return (*LAYOUT_NAMES.get(rank or 0, ()), *(OF_WEIGHTS if rank == 4 else ()))


def declared_layouts(graph: Graph) -> dict[str, str]:
    """By input; a note that does not fit its input was written by somebody else, and says nothing."""
    found = ((value, graph.metadata.get(DECLARED + value, "")) for value in graph.inputs)
    return {value: layout for value, layout in found if layout in layouts_of_rank(graph.rank_of(value))}


def parse_layouts(words: Iterable[str]) -> dict[str, str]:
    """Layouts as the command line writes them, "x=NHWC". Raises UserError with the word that is none."""
    found = {}
    for word in words:
        value, equals, layout = word.rpartition("=")
        if not equals or not value:
            raise UserError(f"--input-layout takes input=LAYOUT such as x=NHWC, not '{word}'")
        if value in found:
            raise UserError(f"the layout of input '{value}' is given twice; give it one")
        found[value] = layout
    return found
