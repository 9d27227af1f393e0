"""Turns the limits that users set into limits of rules for a graph."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.errors import UserError
from workbench.formats.opsets.written import Opset, opset_limit
from workbench.ir import Graph
from workbench.rewrite.core.exactness import DEFAULT_MODE, EXACT
from workbench.rewrite.core.limits import GROW, RuleLimits, largest_constants

# Operator -> the opset from which ONNX Runtime's kernel sums in another order.
_OTHER_KERNEL = {"AveragePool": 19}


class LimitError(UserError):
    """A limit that is invalid, or invalid for this graph."""


def limits_of(
    graph: Graph, opset: Opset = None, grow: float = GROW, keep: Sequence[str] = (), mode: str = DEFAULT_MODE
) -> RuleLimits:
    """The limits for rules on this graph.

    opset: "keep" (the opset of the file) or a number: the graph must remain writable at this opset.
    grow:  the file becomes at most this many times larger.
    keep:  names of nodes that are not removed, and of weights that remain operands.
    mode:  in "exact" the opset is not raised to one at which a kernel rounds differently.
    Raises OpsetError or LimitError with one sentence.
    """
    if grow < 1:
        raise LimitError(f"a file cannot be limited to {grow:g} times its size; use a factor of at least 1")
    unknown = next((name for name in keep if name not in graph and not graph.has_value(name)), None)
    if unknown is not None:
        raise LimitError(f"there is no node or weight '{unknown}' to keep; `inspect` and the graph view have the names")
    candidates = [opset_limit(graph, opset), _same_kernels(graph) if mode == EXACT else None]
    limits = [number for number in candidates if number is not None]
    return RuleLimits(min(limits, default=None), largest_constants(graph, grow), frozenset(keep), kernels=True)


def _same_kernels(graph: Graph) -> int | None:
    """The newest opset at which all nodes run with the kernels of the file's opset; None for any opset."""
    before = graph.file_opset or graph.opset_imports.get("", 0)
    new_kernel_opsets = [_OTHER_KERNEL[node.op] for node in graph.nodes if node.op in _OTHER_KERNEL]
    return min((opset - 1 for opset in new_kernel_opsets if before < opset), default=None)
