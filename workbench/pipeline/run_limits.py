"""What rules must not do in a run, as users say it."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.errors import UserError
from workbench.ir import Graph
from workbench.opsets.written import Opset, kept_opset
from workbench.rewrite.core.exactness import DEFAULT_MODE, EXACT
from workbench.rewrite.core.limits import GROW, RuleLimits, largest_constants

# Operator -> the opset from which ONNX Runtime's kernel sums in another order.
_OTHER_KERNEL = {"AveragePool": 19}


class LimitError(UserError):
    """A limit that fits no graph, or not this one."""


def limits_of(
    graph: Graph, opset: Opset = None, grow: float = GROW, keep: Sequence[str] = (), mode: str = DEFAULT_MODE
) -> RuleLimits:
    """The limits for rules on this graph.

    opset: "keep" or a number: they write nothing that cannot be written at the file's opset, or at this one.
    grow:  they make the file at most this many times larger.
    keep:  names of nodes that they do not remove, and of weights that they leave where they are read.
    mode:  in "exact" they write nothing for which the file's opset is raised to one at which a kernel rounds otherwise.
    Raises OpsetError or LimitError with one sentence.
    """
    if grow < 1:
        raise LimitError(f"a file cannot be held to {grow:g} times its size; name a factor from 1 up")
    unknown = next((name for name in keep if name not in graph and not graph.has_value(name)), None)
    if unknown is not None:
        raise LimitError(f"there is no node or weight '{unknown}' to keep; `inspect` and the graph view have the names")
    newest = [kept_opset(graph, opset), _same_kernels(graph) if mode == EXACT else None]
    known = [number for number in newest if number is not None]
    return RuleLimits(min(known, default=None), largest_constants(graph, grow), frozenset(keep))


def _same_kernels(graph: Graph) -> int | None:
    """The newest opset at which the kernels of the file's opset run; None for any."""
    before = graph.file_opset or graph.opset_imports.get("", 0)
    since = [_OTHER_KERNEL[node.op] for node in graph.nodes if node.op in _OTHER_KERNEL]
    return min((opset - 1 for opset in since if before < opset), default=None)
