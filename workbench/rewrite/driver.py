"""Runs one pass over a graph and keeps what it did."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

from workbench.errors import UserError
from workbench.ir import Graph, check
from workbench.layout.sizes import infer_sizes
from workbench.metrics import Measurements, measurements_of
from workbench.rewrite.history import PassFacts, Step
from workbench.rewrite.pass_context import PassContext
from workbench.rewrite.passes import Pass
from workbench.rewrite.rule import AppliedRewrite, Rewrite

OnRewrite = Callable[[AppliedRewrite], None]


def run_pass(
    pass_: Pass,
    graph: Graph,
    context: PassContext,
    *,
    before: Measurements | None = None,
    check_each: bool = False,
    on_rewrite: OnRewrite | None = None,
    leave_out: Collection[str] = (),
) -> Step:
    """Run the pass to its end, as far as the context's mode lets it; `graph` is changed.

    The graph is checked after the pass, in tests after each rewrite.

    `on_rewrite` hears of each rewrite and may raise to stop; the graph then stands as of that rewrite.

    leave_out: sentences of rewrites that are not to be done. Rules go on without them; a pass that has none,
    whose rewrites build on each other, ends before the first of them.
    """
    if pass_.is_layout and infer_sizes(graph):
        before = None
    before = before or measurements_of(graph)
    started = time.perf_counter()
    rewrites: list[AppliedRewrite] = []
    since = started
    facts: list[PassFacts] = []
    for found in _told_apart(pass_, graph, _noting(pass_.run(graph, context, leave_out), facts)):
        if found.sentence in leave_out:
            break
        inverse = graph.apply(found.edit)
        now = time.perf_counter()
        rewrites.append(
            AppliedRewrite(pass_.name, found.sentence, found.case, found.nodes, found.edit, inverse, now - since)
        )
        since = now
        if check_each:
            check(graph)
        if on_rewrite is not None:
            on_rewrite(rewrites[-1])
    seconds = time.perf_counter() - started
    if rewrites:
        check(graph)
    after = measurements_of(graph) if rewrites else before
    said = facts[0] if facts else None
    return Step(pass_.name, pass_.title, pass_.options(), tuple(rewrites), before, after, seconds, said)


class BrokenPassError(UserError):
    """A pass ended in an exception, which is a fault of the pass."""


def _told_apart(pass_: Pass, graph: Graph, rewrites: Iterator[Rewrite]) -> Iterator[Rewrite]:
    """The rewrites; an exception of the pass itself becomes a sentence that names it and the model."""
    try:
        yield from rewrites
    except (UserError, MemoryError):
        raise
    except Exception as error:
        words = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise BrokenPassError(
            f"pass {pass_.name} broke off on model '{graph.name}' ({words}); "
            "leave that pass out, and report the model to the developers"
        ) from error


def _noting(rewrites: Iterator[Rewrite], facts: list[PassFacts]) -> Iterator[Rewrite]:
    """The rewrites; what the pass returns behind the last, if anything, goes into `facts`."""
    said: Any = yield from rewrites  # type: ignore[func-returns-value]
    if said is not None:
        facts.append(said)
