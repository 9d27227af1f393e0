"""The opset and the version of the format at which a graph is written, and why."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import onnx

from workbench.errors import UserError
from workbench.formats.opsets.lowering import lowered_to, newer_than
from workbench.formats.opsets.versions import OLDEST_OPSET, oldest_onnxruntime
from workbench.ir import Graph, Node
from workbench.ir.format_version import lowest_ir
from workbench.ir.function_calls import graphs_within
from workbench.ir.versioned import fixed_opset, opset_of_domain

KEEP, NEWEST, INLINE = "keep", "newest", "inline"
IN_MEMORY = "memory"  # calls in their own form stay in their own domain: a file for our executor alone
Opset = str | int | None  # KEEP, NEWEST or a number; None: that of the file, raised if an operator needs it
_MAX_NAMED = 3  # operators named in a sentence


class FileForm(NamedTuple):
    """How the user wants a graph to be written as a file.

    opset:     as `Opset`.
    ir:        the version of the format; None: the lowest that suffices.
    functions: INLINE: calls of functions become the bodies of the functions; None: they stay calls.
    metadata:  whether nodes say in their metadata what made them.
    """

    opset: Opset = None
    ir: int | None = None
    functions: str | None = None
    metadata: bool = True


AS_NEEDED = FileForm()


class OpsetError(UserError):
    """The graph cannot be written at the requested opset or version of the format."""


@dataclass(frozen=True)
class Written:
    """The opset and the version of the format at which a graph was written.

    before:    the opset of the file from which the model was read.
    needed_by: the operators for which the opset was raised.
    foreign:   names of nodes that are in ONNX's domain as they were in the file, and that nothing here knows: calls in
               their own form, and of operators that ONNX does not define.
    """

    opset: int
    ir: int
    before: int
    needed_by: tuple[str, ...] = ()
    foreign: frozenset[str] = frozenset()

    @property
    def sentence(self) -> str:
        """Why the opset was raised; "" if it was not."""
        if not self.needed_by:
            return ""
        runtime = oldest_onnxruntime(self.opset, self.ir)
        needs = f"needs ONNX Runtime {runtime} or newer" if runtime else "no known ONNX Runtime reads it"
        return f"opset {self.before} to {self.opset}, for {_names_text(self.needed_by)}; {needs}"


def opset_limit(graph: Graph, requested: Opset) -> int | None:
    """The newest opset whose operators rules may write; None for no limit. Raises OpsetError for an impossible one."""
    lowest = _lowest_opset(graph, requested)
    return None if requested in (None, NEWEST) else lowest


def at_written_opset(graph: Graph, requested: Opset = None, ir: int | None = None) -> tuple[Graph, Written]:
    """The graph as it is written. ir: None for the lowest that suffices. Raises OpsetError with one sentence."""
    before = _opset_of_file(graph)
    if requested == IN_MEMORY:
        return graph, Written(graph.opset_imports.get("", 0), _format(graph, ir), before)
    lowest = _lowest_opset(graph, requested)
    needed = newer_than(graph, lowest)
    if needed and (requested is not None or fixed_opset(graph.opset_imports) is not None):
        verb, newest = "needs" if len(needed) == 1 else "need", max(needed.values())
        raise OpsetError(
            f"opset {lowest} cannot be written, since {_names_text(needed)} {verb} opset {newest}; run the passes with "
            f"the same --opset, or write at opset {newest}"
        )
    opset = max([lowest, *needed.values()])
    result = lowered_to(graph, opset)
    needed_by = tuple(op for op, since in needed.items() if since == opset)
    return result, Written(opset, _format(result, ir), before, needed_by, _foreign_nodes(graph))


def _foreign_nodes(graph: Graph) -> frozenset[str]:
    nodes = (node for inner in graphs_within(graph, graph.functions) for node in inner.nodes)
    return frozenset(node.name for node in nodes if _is_own(node) or (not node.domain and not _is_known(node.op_type)))


@cache
def _is_known(op_type: str) -> bool:
    return bool(onnx.defs.has(op_type))


def _opset_of_file(graph: Graph) -> int:
    return graph.file_opset or graph.opset_imports.get("", 0)


def _lowest_opset(graph: Graph, requested: Opset) -> int:
    present, fixed = graph.opset_imports.get("", 0), fixed_opset(graph.opset_imports)
    if fixed is not None and requested not in (None, KEEP, NEWEST, fixed):
        call = next(node for inner in graphs_within(graph, graph.functions) for node in inner.nodes if _is_own(node))
        raise OpsetError(
            f"opset {requested} cannot be written, since {call.op_type} '{call.name}' has no form but that of opset "
            f"{fixed}; write at opset {fixed}"
        )
    if fixed is not None:
        return fixed
    if not isinstance(requested, int):
        return present if requested == NEWEST else min(_opset_of_file(graph), present)
    if not OLDEST_OPSET <= requested <= present:
        raise OpsetError(
            f"opset {requested} cannot be written; name one from {OLDEST_OPSET} to {present}, keep or newest"
        )
    return requested


def _is_own(node: Node) -> bool:
    return opset_of_domain(node.domain) is not None


def _format(graph: Graph, ir: int | None) -> int:
    lowest = lowest_ir(graph)
    if ir is not None and not lowest <= ir <= onnx.IR_VERSION:
        raise OpsetError(f"IR {ir} cannot be written; this model can be written at IR {lowest} to {onnx.IR_VERSION}")
    return ir or lowest


def _names_text(operators: tuple[str, ...] | dict[str, int]) -> str:
    names = sorted(operators)
    if len(names) > _MAX_NAMED:
        return f"{', '.join(names[:_MAX_NAMED])} and {len(names) - _MAX_NAMED} other operators"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
