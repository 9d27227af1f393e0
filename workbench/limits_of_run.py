"""What rules must not do in a run, as users say it."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.errors import UserError
from workbench.ir import Graph
from workbench.opsets.written import Opset, kept_opset
from workbench.rewrite.limits import GROW, RuleLimits, largest_constants


class LimitError(UserError):
    """A limit that fits no graph, or not this one."""


def limits_of(graph: Graph, opset: Opset = None, grow: float = GROW, keep: Sequence[str] = ()) -> RuleLimits:
    """The limits for rules on this graph.

    opset: "keep" or a number: they write nothing that cannot be written at the file's opset, or at this one.
    grow:  they make the file at most this many times larger.
    keep:  names of nodes that they do not remove, and of weights that they leave where they are read.
    Raises OpsetError or LimitError with one sentence.
    """
    if grow < 1:
        raise LimitError(f"a file cannot be held to {grow:g} times its size; name a factor from 1 up")
    unknown = next((name for name in keep if name not in graph and not graph.has_value(name)), None)
    if unknown is not None:
        raise LimitError(f"there is no node or weight '{unknown}' to keep; `inspect` and the graph view have the names")
    return RuleLimits(kept_opset(graph, opset), largest_constants(graph, grow), frozenset(keep))
