"""The history: every step, every rewrite, any moment of it.

A step is one run of a pass. Step 0 is the graph as loaded. The edits tell
everything: the graph at any moment is the first graph with the edits up to
there applied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from workbench.ir import Graph
from workbench.ir.display import notebook_html
from workbench.layout.cost import Counts
from workbench.rewrite.exactness import DEFAULT_MODE, EXACT
from workbench.rewrite.rule import AppliedRewrite

MOST_LEFT_OUT = 3  # rewrites of one pass, before the whole pass is
LAYOUT_PREFIX = "layout_"  # of the names of passes that are layout strategies


class StepVerdict(Protocol):
    """What verification says of a step; `ok` is None where it could not be verified."""

    ok: bool | None
    max_abs_error: float | None
    max_rel_error: float | None
    bit_equal: bool
    sentence: str


@dataclass
class Step:
    """One run of a pass: what it did, the counts before and after, the verdict, the time in seconds.

    facts:     what the pass says of the whole run, such as a lower bound.
    broken_by: where verification failed, the index of the rewrite that broke it.
    """

    pass_name: str
    title: str
    options: Mapping[str, Any]
    rewrites: tuple[AppliedRewrite, ...]
    before: Counts
    after: Counts
    seconds: float
    facts: Mapping[str, Any] = field(default_factory=dict)
    verdict: StepVerdict | None = None
    broken_by: int | None = None

    @property
    def changed(self) -> bool:
        return bool(self.rewrites)

    @property
    def proof(self) -> str:
        """What a layout strategy proved of its result, and over which choices, as a sentence; "" where it does not.

        Where sizes are not known it says so: then nothing is proven.
        """
        least = self.facts.get("lower_bound")
        unknown = self.facts.get("unknown", 0)
        if least is None and unknown:
            what = "1 transpose moves" if unknown == 1 else f"{unknown:,} transposes move"
            return f"not proven to be the least: what {what} is not known, for sizes do not follow from the inputs"
        if least is None:
            return ""
        gap = self.facts.get("gap")
        reached = "exactly that" if self.facts["certified"] else "more"
        if gap:
            reached += f"; {gap:.1%} of it is not proven to be needed"
        choice = self.facts["over"]
        if self.facts["weigh"] == "time":
            where = f"as operators were timed on {self.facts['device']}"
            return f"{choice} takes less than {least / 1e6:,.3f} ms, {where}, and this takes {reached}"
        if self.facts["weigh"] == "bytes":
            return f"{choice} moves less than {least:,} bytes, and this moves {reached}"
        return f"{choice} leaves fewer than {least:,} transposes, and this leaves {reached}"

    def report(self) -> dict[str, Any]:
        """The step as `--report` writes it."""
        return {
            "pass": self.pass_name,
            "options": dict(self.options),
            "rewrites": len(self.rewrites),
            **_counts_report(self.before, self.after),
            "seconds": round(self.seconds, 4),
            **_verdict_report(self.verdict),
            "broken_by": None if self.broken_by is None else self.rewrites[self.broken_by].sentence,
            "sentences": [rewrite.sentence for rewrite in self.rewrites],
        }


@dataclass(frozen=True)
class LeftOut:
    """A rewrite that was not done, since verification found that it changes results.

    sentence: the rewrite's; "" where the whole pass was left out.
    why:      the verdict, "" where it was found elsewhere.
    """

    pass_name: str
    sentence: str
    why: str = ""

    def __str__(self) -> str:
        what = f"'{self.sentence}'" if self.sentence else "all of it"
        why = f", for with it {self.why[:1].lower()}{self.why[1:]}" if self.why else ""
        return f"left out of {self.pass_name}: {what}{why}"


@dataclass
class History:
    """The steps from `initial` to `graph`; `history[0]` is the graph as loaded.

    mode:     how exact the steps are (MODES).
    left_out: rewrites that were not done, since verification failed with them.
    """

    initial: Graph
    graph: Graph
    target: str
    steps: list[Step] = field(default_factory=list)
    mode: str = DEFAULT_MODE
    left_out: list[LeftOut] = field(default_factory=list)

    def __getitem__(self, index: int) -> Step:
        return self.steps[index]

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        rewrites = sum(len(step.rewrites) for step in self.steps)
        sizes = f"{len(self.initial):,} nodes to {len(self.graph):,}"
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
        """The graph that the step was given; for step 0 the one that it shows."""
        return self.at(max(step - 1, 0))

    @property
    def is_exact(self) -> bool:
        """Is what is not equal to the last bit a failure?"""
        return self.mode == EXACT

    @property
    def failed(self) -> Step | None:
        """The first step whose verification failed."""
        return next((s for s in self.steps if s.verdict is not None and s.verdict.ok is False), None)

    @property
    def culprit(self) -> LeftOut | None:
        """What another run has to leave out: the rewrite that broke the first failing step.

        The whole pass, where MOST_LEFT_OUT of its rewrites were left out already; None where no rewrite is to blame.
        """
        step = self.failed
        if step is None or step.verdict is None or step.broken_by is None:
            return None
        before = sum(out.pass_name == step.pass_name for out in self.left_out)
        sentence = step.rewrites[step.broken_by].sentence if before < MOST_LEFT_OUT else ""
        return LeftOut(step.pass_name, sentence, step.verdict.sentence)

    @property
    def unverified(self) -> Step | None:
        """The first step that could not be verified, with the reason in its verdict."""
        return next((s for s in self.steps if s.verdict is not None and s.verdict.ok is None), None)

    @property
    def layout_step(self) -> Step | None:
        """The last run of a layout strategy."""
        return next((s for s in reversed(self.steps) if s.pass_name.startswith(LAYOUT_PREFIX)), None)

    def report(self) -> dict[str, Any]:
        """`steps` and `totals`, as `--report` writes them; errors of the totals are the largest of any step."""
        done = self.steps[1:]
        verdicts = [s.verdict for s in self.steps if s.verdict is not None]
        totals = {
            "rewrites": sum(len(s.rewrites) for s in done),
            **_counts_report(self.steps[0].before, self.steps[-1].after),
            "seconds": round(sum(s.seconds for s in done), 4),
            "verified": all(v.ok is True for v in verdicts) if verdicts else None,
            "max_abs_error": _largest([v.max_abs_error for v in verdicts]),
            "max_rel_error": _largest([v.max_rel_error for v in verdicts]),
        }
        return {
            "target": self.target,
            "mode": self.mode,
            "steps": [s.report() for s in done],
            "left_out": [{"pass": o.pass_name, "rewrite": o.sentence, "why": o.why} for o in self.left_out],
            "totals": totals,
            "layout": None if self.layout_step is None else _layout_report(self.layout_step),
        }


def _layout_report(step: Step) -> dict[str, Any]:
    """What a layout strategy left, and how near that is to the least, where the strategy knows it."""
    cases = Counter(rewrite.case for rewrite in step.rewrites)
    return {
        "strategy": step.pass_name.removeprefix(LAYOUT_PREFIX).replace("_", "-"),
        "transposes": step.after.transposes,
        "elements_moved": step.after.elements_moved,
        "bytes_moved": step.after.bytes_moved,
        "lower_bound": step.facts.get("lower_bound"),
        "weigh": step.facts.get("weigh"),
        "certified": step.facts.get("certified"),
        "gap": step.facts.get("gap"),
        "times": step.facts.get("times"),
        "by_case": dict(sorted(cases.items())),
    }


def _replay(graph: Graph, rewrites: Sequence[AppliedRewrite]) -> None:
    for rewrite in rewrites:
        graph.apply(rewrite.edit)


def _counts_report(before: Counts, after: Counts) -> dict[str, int]:
    return {
        "nodes_before": before.nodes,
        "nodes_after": after.nodes,
        "transposes_before": before.transposes,
        "transposes_after": after.transposes,
        "elements_moved_before": before.elements_moved,
        "elements_moved_after": after.elements_moved,
    }


def _verdict_report(verdict: StepVerdict | None) -> dict[str, Any]:
    if verdict is None:
        return {"verified": None, "max_abs_error": None, "max_rel_error": None}
    return {
        "verified": verdict.ok,
        "max_abs_error": verdict.max_abs_error,
        "max_rel_error": verdict.max_rel_error,
        "verdict": verdict.sentence,
    }


def _largest(errors: Sequence[float | None]) -> float | None:
    known = [e for e in errors if e is not None]
    return max(known) if known else None
