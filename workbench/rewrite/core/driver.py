"""Runs one pass over a graph and records what it did."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

from workbench.analysis.metrics import Measurements, measurements_of
from workbench.errors import UserError
from workbench.ir import Graph, check
from workbench.rewrite.core.exclusion import ExcludedRewrites
from workbench.rewrite.core.history import PassFacts, Step
from workbench.rewrite.core.identity import RewriteId
from workbench.rewrite.core.pass_context import PassContext
from workbench.rewrite.core.passes import Pass
from workbench.rewrite.core.rule import AppliedRewrite, Rewrite

OnRewrite = Callable[[AppliedRewrite], None]


def run_pass(
    pass_: Pass,
    graph: Graph,
    context: PassContext,
    *,
    before: Measurements | None = None,
    check_each: bool = False,
    on_rewrite: OnRewrite | None = None,
    exclude: Collection[RewriteId] = (),
) -> Step:
    """Run the pass with the rewrites that the context's mode allows; `graph` is changed in place.

    The graph is checked after the pass, and with `check_each` after each rewrite.

    on_rewrite: is called with each rewrite and may raise to stop; the graph is then as after that rewrite.
    exclude: rewrites to leave out. Rules continue without them; a pass without rules, whose rewrites build on
    each other, ends before the first of them.
    """
    if pass_.prepare(graph):
        before = None
    before = before or measurements_of(graph)
    started = time.perf_counter()
    rewrites: list[AppliedRewrite] = []
    previous = started
    facts: list[PassFacts] = []
    excluded = ExcludedRewrites(exclude)
    for proposed in _with_named_faults(pass_, graph, _with_facts(pass_.run(graph, context, excluded), facts)):
        if proposed in excluded:
            break
        inverse = graph.apply(proposed.edit)
        now = time.perf_counter()
        rewrites.append(
            AppliedRewrite(
                pass_.name,
                proposed.sentence,
                proposed.case,
                proposed.nodes,
                proposed.edit,
                inverse,
                now - previous,
                proposed.by,
                proposed.exactness or pass_.exactness,
                excluded.add_done(proposed),
            )
        )
        previous = now
        if check_each:
            check(graph)
        if on_rewrite is not None:
            on_rewrite(rewrites[-1])
    seconds = time.perf_counter() - started
    if rewrites:
        check(graph)
    after = measurements_of(graph) if rewrites else before
    options = pass_.options()
    return Step(
        pass_.name,
        pass_.title,
        options,
        tuple(rewrites),
        before,
        after,
        seconds,
        facts[0] if facts else None,
        pass_=pass_,
        excluded=tuple(exclude),
    )


class BrokenPassError(UserError):
    """A pass raised an exception, which is a bug of the pass."""


def _with_named_faults(pass_: Pass, graph: Graph, rewrites: Iterator[Rewrite]) -> Iterator[Rewrite]:
    """The rewrites; an exception raised by the pass becomes a sentence that names the pass and the model."""
    try:
        yield from rewrites
    except (UserError, MemoryError):
        raise
    except Exception as error:
        message = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise BrokenPassError(
            f"pass {pass_.name} failed on model '{graph.name}' ({message}); "
            "leave that pass out, and report the model to the developers"
        ) from error


def _with_facts(rewrites: Iterator[Rewrite], facts: list[PassFacts]) -> Iterator[Rewrite]:
    """The rewrites; what the pass returns after the last one, if anything, is stored in `facts`."""
    result: Any = yield from rewrites  # type: ignore[func-returns-value]
    if result is not None:
        facts.append(result)
