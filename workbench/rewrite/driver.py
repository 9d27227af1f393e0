"""Runs one pass over a graph and keeps what it did."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from workbench.ir import Graph, check
from workbench.layout.cost import Counts, count
from workbench.layout.profile import Profile
from workbench.layout.sizes import infer_sizes
from workbench.rewrite.exactness import DEFAULT_MODE
from workbench.rewrite.history import Step
from workbench.rewrite.passes import Pass
from workbench.rewrite.rule import Found, Rewrite

OnRewrite = Callable[[Rewrite], None]


def run_pass(
    pass_: Pass,
    graph: Graph,
    target: Profile,
    *,
    mode: str = DEFAULT_MODE,
    before: Counts | None = None,
    check_each: bool = False,
    on_rewrite: OnRewrite | None = None,
) -> Step:
    """Run the pass to its end, as far as the mode lets it; `graph` is changed.

    The graph is checked after the pass, in tests after each rewrite.

    `on_rewrite` hears of each rewrite and may raise to stop; the graph then stands as of that rewrite.
    """
    if pass_.is_layout and infer_sizes(graph):
        before = None
    before = before or count(graph)
    started = time.perf_counter()
    rewrites: list[Rewrite] = []
    since = started
    facts: dict[str, Any] = {}
    for found in _noting(pass_.run(graph, target, mode), facts):
        inverse = graph.apply(found.edit)
        now = time.perf_counter()
        rewrites.append(Rewrite(pass_.name, found.sentence, found.case, found.nodes, found.edit, inverse, now - since))
        since = now
        if check_each:
            check(graph)
        if on_rewrite is not None:
            on_rewrite(rewrites[-1])
    seconds = time.perf_counter() - started
    if rewrites:
        check(graph)
    after = count(graph) if rewrites else before
    return Step(pass_.name, pass_.title, pass_.options(), tuple(rewrites), before, after, seconds, facts)


def _noting(rewrites: Iterator[Found], facts: dict[str, Any]) -> Iterator[Found]:
    """The rewrites; what the pass returns behind the last goes into `facts`."""
    said: Any = yield from rewrites  # type: ignore[func-returns-value]
    facts.update(said or {})
