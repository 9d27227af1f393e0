"""At which opset and version of the format a graph is written, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import onnx

from workbench.errors import UserError
from workbench.ir import Graph
from workbench.ir.format_version import lowest_ir
from workbench.opsets.lowering import lowered_to, newer_than
from workbench.opsets.versions import OLDEST_OPSET, oldest_onnxruntime

KEEP, NEWEST, INLINE = "keep", "newest", "inline"
Opset = str | int | None  # KEEP, NEWEST or a number; None: the file's, raised as far as an operator needs it
_MOST_NAMED = 3  # operators in a sentence


class Wanted(NamedTuple):
    """What the user chose: the opset, the version of the format (None: the lowest that suffices), and whether calls of
    functions become the functions' bodies (INLINE; None: they stay)."""

    opset: Opset = None
    ir: int | None = None
    functions: str | None = None


AS_NEEDED = Wanted()


class OpsetError(UserError):
    """The graph cannot be written at the wanted opset or version of the format."""


@dataclass(frozen=True)
class Written:
    """The opset and the version of the format that were chosen. before: the file's opset; for: what needs more."""

    opset: int
    ir: int
    before: int
    needed_by: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Why the opset was raised; "" if it was not."""
        if not self.needed_by:
            return ""
        runtime = oldest_onnxruntime(self.opset, self.ir)
        needs = f"needs ONNX Runtime {runtime} or newer" if runtime else "no known ONNX Runtime reads it"
        return f"opset {self.before} to {self.opset}, for {_named(self.needed_by)}; {needs}"


def kept_opset(graph: Graph, wanted: Opset) -> int | None:
    """The newest opset that rules may write for; None if there is none. Raises OpsetError for an impossible one."""
    least = _least(graph.opset_imports.get("", 0), _opset_of_file(graph), wanted)
    return None if wanted in (None, NEWEST) else least


def at_written_opset(graph: Graph, wanted: Opset = None, ir: int | None = None) -> tuple[Graph, Written]:
    """The graph as it is written. ir: None for the lowest that suffices. Raises OpsetError with one sentence."""
    has = graph.opset_imports.get("", 0)
    before = _opset_of_file(graph)
    least = _least(has, before, wanted)
    needed = newer_than(graph, least)
    if needed and wanted is not None:
        raise OpsetError(
            f"opset {least} cannot be written, since {_named(needed)} {'needs' if len(needed) == 1 else 'need'} opset "
            f"{max(needed.values())}; run the passes with the same --opset, or write at opset {max(needed.values())}"
        )
    opset = max([least, *needed.values()])
    result = lowered_to(graph, opset)
    reason = tuple(op for op, since in needed.items() if since == opset)
    return result, Written(opset, _format(result, ir), before, reason)


def _opset_of_file(graph: Graph) -> int:
    return graph.file_opset or graph.opset_imports.get("", 0)


def _least(has: int, before: int, wanted: Opset) -> int:
    if not isinstance(wanted, int):
        return has if wanted == NEWEST else min(before, has)
    if not OLDEST_OPSET <= wanted <= has:
        raise OpsetError(f"opset {wanted} cannot be written; name one from {OLDEST_OPSET} to {has}, keep or newest")
    return wanted


def _format(graph: Graph, ir: int | None) -> int:
    least = lowest_ir(graph)
    if ir is not None and not least <= ir <= onnx.IR_VERSION:
        raise OpsetError(f"IR {ir} cannot be written; this model can be written at IR {least} to {onnx.IR_VERSION}")
    return ir or least


def _named(operators: tuple[str, ...] | dict[str, int]) -> str:
    names = sorted(operators)
    if len(names) > _MOST_NAMED:
        return f"{', '.join(names[:_MOST_NAMED])} and {len(names) - _MOST_NAMED} other operators"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
