"""A strategy that chooses again for its own result, until that changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Generator

from workbench.analysis.inference.bound_shapes import infer_sizes
from workbench.ir import Graph
from workbench.planning.layout.layout_facts import LayoutFacts
from workbench.rewrite.core.rule import Rewrite

_MOST = 4  # rounds
Round = Generator[Rewrite, None, LayoutFacts]


def until_nothing_changes(graph: Graph, run_round: Callable[[], Round]) -> Round:
    """The rewrites of each round on the graph, up to the first that has none; the facts are of the last that has some.

    Where a Transpose is gone, the views around it become one Reshape, through which other layouts may pass than before.
    """
    facts = yield from run_round()
    for _ in range(_MOST - 1):
        infer_sizes(graph)  # of values that the last round made, whose costs would be unknown
        changed = False
        rewrites = run_round()
        while True:
            try:
                rewrite = next(rewrites)
            except StopIteration as end:
                if not changed:
                    return facts
                facts = end.value
                break
            changed = True
            yield rewrite
    return facts
