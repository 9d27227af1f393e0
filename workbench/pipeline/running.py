"""Runs a pipeline on a copy of a graph, pass by pass, and records the history."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from workbench.analysis.metrics import measurements_of
from workbench.ir import Graph
from workbench.pipeline.pipeline import Part, Pipeline, Planned
from workbench.pipeline.repeat import Repeat
from workbench.planning.layout.profile import Profile
from workbench.rewrite.core.driver import run_pass
from workbench.rewrite.core.exactness import DEFAULT_MODE
from workbench.rewrite.core.history import Excluded, History, Step
from workbench.rewrite.core.identity import ANY_ORDINAL, RewriteId
from workbench.rewrite.core.pass_context import PassContext
from workbench.rewrite.core.passes import Pass
from workbench.rewrite.core.provenance import update_provenance, written_provenance
from workbench.rewrite.core.rule import AppliedRewrite

LOADED = "as loaded"


@dataclass(frozen=True)
class Progress:
    """The progress of a pipeline: pass `index` of `count`, its name, title and summary, and its rewrites so far."""

    index: int
    count: int
    pass_name: str
    title: str
    about: str
    rewrites: int

    @property
    def text(self) -> str:
        done = f", {self.rewrites:,} rewrites" if self.rewrites else ""
        return f"pass {self.index + 1} of {self.count}: {self.title}{done}"

    @property
    def share(self) -> float:
        """The share of passes that are done, from 0 to 1."""
        return self.index / self.count


OnProgress = Callable[[Progress], None]
AfterStep = Callable[[History], None]


def run_pipeline(
    graph: Graph,
    pipeline: Pipeline | Sequence[Part],
    context: PassContext,
    *,
    after_step: AfterStep | None = None,
    on_progress: OnProgress | None = None,
    check_each: bool = False,
    excluded: Sequence[Excluded] = (),
) -> History:
    """Run the passes of the pipeline, with the rewrites that the context's mode allows; `graph` is not changed.

    `after_step` is called after each step, with the history that includes it.
    `on_progress` is called after each rewrite, and may raise to cancel.
    `excluded` holds rewrites to leave out.
    """
    history = start(graph, context.get(Profile), context.mode)
    history.excluded, history.limits = list(excluded), context.limits
    planned = without(pipeline if isinstance(pipeline, Pipeline) else Pipeline(pipeline), excluded)
    for index, one in enumerate(planned):
        on_rewrite = reporter(on_progress, index, len(planned), one.pass_)
        extend(history, one.pass_, context, on_rewrite, check_each, excluded_of(one, excluded), one.label)
        if after_step is not None:
            after_step(history)
    return history


def without(pipeline: Pipeline, excluded: Sequence[Excluded]) -> list[Planned]:
    """The passes of the pipeline except those that are left out as a whole, which do not run in any position."""
    names = {_pass_of(out) for out in excluded if out.rewrite is None}
    remaining = [planned for planned in pipeline.planned if planned.pass_.name not in names]
    return [Planned(label, _without_rounds(pass_, names)) for label, pass_ in remaining]


def _pass_of(out: Excluded) -> str:
    """The name of the pass: the label of the step without its number."""
    return out.step.partition("#")[0]


def _without_rounds(pass_: Pass, names: Collection[str]) -> Pass:
    if not isinstance(pass_, Repeat):
        return pass_
    return dataclasses.replace(pass_, passes=tuple(one for one in pass_.passes if one.name not in names))


def excluded_of(planned: Planned, excluded: Sequence[Excluded]) -> list[RewriteId]:
    """The rewrites that the step leaves out: its own, and with any ordinal those of other runs of its pass.

    Otherwise another run of the pass, or a round of a fixpoint, would make the rewrite that one run leaves out.
    """
    label, pass_ = planned
    repeated = {inner.name for inner in pass_.passes} if isinstance(pass_, Repeat) else set()
    ids = []
    for out in excluded:
        if out.rewrite is None:
            continue
        if out.step == label:
            ids.append(out.rewrite)
        elif _pass_of(out) == pass_.name:
            ids.append(out.rewrite._replace(ordinal=ANY_ORDINAL))
        elif _pass_of(out) in repeated:
            rule = ".".join(filter(None, (_pass_of(out), out.rewrite.rule)))
            ids.append(RewriteId(rule, out.rewrite.node, ANY_ORDINAL))
    return ids


def start(graph: Graph, target: Profile, mode: str = DEFAULT_MODE) -> History:
    """A history with step 0 only: the graph as loaded."""
    measured = measurements_of(graph)
    first = Step(LOADED, "As loaded", {}, (), measured, measured, 0.0)
    history = History(graph.copy(), graph.copy(), target.name, [first], mode)
    history.graph.provenance = {**written_provenance(graph), **graph.provenance}
    return history


def branch(history: History) -> History:
    """A copy of the history, which can be continued independently."""
    return dataclasses.replace(
        history, graph=history.graph.copy(), steps=list(history.steps), excluded=list(history.excluded)
    )


def extend(
    history: History,
    pass_: Pass,
    context: PassContext,
    on_rewrite: Callable[[AppliedRewrite], None] | None = None,
    check_each: bool = False,
    exclude: Collection[RewriteId] = (),
    label: str = "",
) -> Step:
    """Run one more pass and add its step to the history. label: the pass's name if empty."""
    new = pass_.new_dims(history.graph)
    for graph in (history.initial, history.graph) if new else ():
        graph.dims = {**graph.dims, **new}
    step = run_pass(
        pass_,
        history.graph,
        context,
        before=history.steps[-1].after,
        check_each=check_each,
        on_rewrite=on_rewrite,
        exclude=exclude,
    )
    step.label = label or step.label
    update_provenance(history.graph.provenance, step.rewrites)
    history.steps.append(step)
    return step


def reporter(
    on_progress: OnProgress | None, index: int, count: int, pass_: Pass
) -> Callable[[AppliedRewrite], None] | None:
    """Report the progress before pass `index` of `count`; return a callback that reports it after each rewrite."""
    if on_progress is None:
        return None
    about, done = type(pass_).summary(), 0

    def report(rewrite: AppliedRewrite) -> None:
        nonlocal done
        done += 1
        on_progress(Progress(index, count, pass_.name, pass_.title, about, done))

    on_progress(Progress(index, count, pass_.name, pass_.title, about, 0))
    return report
