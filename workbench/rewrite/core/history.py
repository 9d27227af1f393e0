"""The history: every step, every rewrite, and the graph at any moment.

A step is one run of a pass; step 0 is the graph as loaded. The graph at any
moment is the first graph with the edits up to there applied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from workbench.analysis.metrics import Measurements
from workbench.analysis.metrics.nodes import count_nodes
from workbench.errors import counted
from workbench.ir import Graph
from workbench.ir.display import notebook_html
from workbench.rewrite.core.exactness import CHANGES_TYPES, DEFAULT_MODE, EXACT, Exactness
from workbench.rewrite.core.identity import RewriteId
from workbench.rewrite.core.limits import NO_LIMITS, RuleLimits
from workbench.rewrite.core.passes import Pass
from workbench.rewrite.core.rule import AppliedRewrite

MAX_LEFT_OUT = 3  # rewrites of one pass; then the whole pass is left out


class StepVerdict(Protocol):
    """The result of verifying a step; `ok` is None if it could not be verified."""

    ok: bool | None
    max_abs_error: float | None
    max_rel_error: float | None
    bit_equal: bool
    sentence: str

    @property
    def is_close(self) -> bool:
        """Whether the results are right and not equal, since values were quantized on purpose."""


class PassFacts(Protocol):
    """What a pass found about the whole run, besides its rewrites; each kind of pass has its own."""

    @property
    def sentence(self) -> str:
        """The facts as a sentence; "" if there is nothing to say."""


@dataclass(repr=False)
class Step:
    """One run of a pass: what it did, what the graph measured before and after, the verdict, the time in seconds.

    facts:     what the pass found about the whole run, such as a lower bound.
    broken_by: if verification failed, the index of the rewrite that broke it.
    pass_:     the pass that ran; None for the graph as loaded.
    label:     the pass's name, with a number where it stands more than once in the pipeline: "fold_pad#2".
    excluded:  the rewrites that the step was asked to leave out.
    """

    pass_name: str
    title: str
    options: Mapping[str, Any]
    rewrites: tuple[AppliedRewrite, ...]
    before: Measurements
    after: Measurements
    seconds: float
    facts: PassFacts | None = None
    verdict: StepVerdict | None = None
    broken_by: int | None = None
    pass_: Pass | None = None
    label: str = ""
    excluded: tuple[RewriteId, ...] = ()

    def __post_init__(self) -> None:
        self.label = self.label or self.pass_name

    def __repr__(self) -> str:
        nodes = f"{self.before['nodes']} nodes to {self.after['nodes']}"
        verdict = "" if self.verdict is None else f"; {self.verdict.sentence}"
        return f"<Step {self.pass_name}: {counted(len(self.rewrites), 'rewrite')}, {nodes}{verdict}>"

    @property
    def changed(self) -> bool:
        return bool(self.rewrites)

    @property
    def conclusion(self) -> str:
        """What the pass found about the whole run, as a sentence; "" if nothing."""
        return "" if self.facts is None else self.facts.sentence


@dataclass(frozen=True)
class Excluded:
    """A rewrite that was left out because verification found that it changes results.

    step:     the label of the step, "fold_pad", "fold_pad#2" where the pass stands twice.
    rewrite:  which rewrite of the step; None if the whole pass was left out.
    sentence: the sentence of the rewrite; "" if only its identity is known.
    why:      the sentence of the verdict; "" if it is not known.
    """

    step: str
    rewrite: RewriteId | None
    sentence: str = field(default="", compare=False)
    why: str = field(default="", compare=False)

    @property
    def what(self) -> str:
        """The rewrite, or "all of it" for a whole pass."""
        if self.rewrite is None:
            return "all of it"
        by, node = self.rewrite.rule or "a rewrite", self.rewrite.node
        return f"'{self.sentence}'" if self.sentence else f"{by} at '{node}'"

    def __str__(self) -> str:
        why = f", since with it {self.why[:1].lower()}{self.why[1:]}" if self.why else ""
        return f"left out of {self.step}: {self.what}{why}"


@dataclass
class History:
    """The steps from `initial` to `graph`; `history[0]` is the graph as loaded.

    mode:     how exact the steps are (MODES).
    excluded: rewrites that were left out because verification failed with them.
    limits:   what rules must not do.
    """

    initial: Graph
    graph: Graph
    target: str
    steps: list[Step] = field(default_factory=list)
    mode: str = DEFAULT_MODE
    excluded: list[Excluded] = field(default_factory=list)
    limits: RuleLimits = NO_LIMITS

    def __getitem__(self, index: int) -> Step:
        return self.steps[index]

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        rewrites = sum(len(step.rewrites) for step in self.steps)
        sizes = f"{count_nodes(self.initial):,} nodes to {count_nodes(self.graph):,}"
        return f"<History of '{self.initial.name}': {len(self)} steps, {rewrites:,} rewrites, {sizes}>"

    _repr_html_ = notebook_html

    def at(self, step: int, rewrites: int | None = None) -> Graph:
        """The graph after `rewrites` rewrites of `step` (None: after all of them)."""
        graph = self.initial.copy()
        for earlier in self.steps[:step]:
            _replay(graph, earlier.rewrites)
        _replay(graph, self.steps[step].rewrites[:rewrites])
        return graph

    def before(self, step: int) -> Graph:
        """The graph before the step; for step 0, the graph as loaded."""
        return self.at(max(step - 1, 0))

    @property
    def is_exact(self) -> bool:
        """Whether a result that is not bit-equal is a failure."""
        return self.mode == EXACT

    def is_narrowed(self, step: int | None = None) -> bool:
        """Whether a pass up to this step, or any, changed element types on purpose, to narrower ones or back."""
        return any(exactness in CHANGES_TYPES for exactness in self._exactnesses(step))

    def is_for_numbers_only(self, step: int | None = None) -> bool:
        """Whether a rewrite up to this step, or any, need not keep infinities and NaN."""
        return Exactness.FAST_MATH in self._exactnesses(step)

    def _exactnesses(self, step: int | None) -> set[Exactness]:
        steps = self.steps if step is None else self.steps[: step + 1]
        return {rewrite.exactness for one in steps for rewrite in one.rewrites}

    @property
    def failed(self) -> Step | None:
        """The first step whose verification failed."""
        return next((s for s in self.steps if s.verdict is not None and s.verdict.ok is False), None)

    @property
    def culprit(self) -> Excluded | None:
        """What the next run must leave out: the rewrite that broke the first failing step.

        It is the whole pass if MAX_LEFT_OUT of its rewrites were left out already, and None if no rewrite broke it.
        """
        step = self.failed
        if step is None or step.verdict is None or step.broken_by is None:
            return None
        rewrite = step.rewrites[step.broken_by]
        if sum(out.step == step.label for out in self.excluded) >= MAX_LEFT_OUT:
            return Excluded(step.label, None, "", step.verdict.sentence)
        return Excluded(step.label, rewrite.id, rewrite.sentence, step.verdict.sentence)

    @property
    def unverified(self) -> Step | None:
        """The first step that could not be verified, with the reason in its verdict."""
        return next((s for s in self.steps if s.verdict is not None and s.verdict.ok is None), None)


def _replay(graph: Graph, rewrites: Sequence[AppliedRewrite]) -> None:
    for rewrite in rewrites:
        graph.apply(rewrite.edit)
