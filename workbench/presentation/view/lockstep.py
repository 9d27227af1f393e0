"""Aligns the histories of two pipelines of one model, so that one clock steps both.

Steps of the same pass are paired in order (difflib, Ratcliff and Obershelp). The remaining steps between two pairs are
paired in order too, such as two layout strategies at the same position. If one history has no such step, or fewer
rewrites in it, moments without changes are added to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import zip_longest

from workbench.ir import Edit
from workbench.rewrite import AppliedRewrite, History, Step

_ABSENT = "not in this pipeline"


def in_lockstep(first: History, second: History) -> tuple[History, History]:
    """Both histories with equally many steps and rewrites per step; their graphs are unchanged."""
    pairs = list(_paired(first.steps, second.steps))
    return _aligned(first, [(a, b) for a, b in pairs]), _aligned(second, [(b, a) for a, b in pairs])


def _paired(first: Sequence[Step], second: Sequence[Step]) -> Iterator[tuple[Step | None, Step | None]]:
    a, b = ([step.pass_name for step in steps] for steps in (first, second))
    for _, a0, a1, b0, b1 in SequenceMatcher(a=a, b=b, autojunk=False).get_opcodes():
        yield from zip_longest(first[a0:a1], second[b0:b1])


def _aligned(history: History, pairs: Sequence[tuple[Step | None, Step | None]]) -> History:
    """The history with a step for each pair. pairs: a step of this history and of the other one."""
    steps: list[Step] = []
    for own, other in pairs:
        moments = max(len(step.rewrites) for step in (own, other) if step is not None)
        steps.append(_padded(own or _absent(steps[-1], other), moments))
    return replace(history, steps=steps)


def _absent(before: Step, other: Step | None) -> Step:
    title = f"{_ABSENT}: {other.title}" if other is not None else _ABSENT
    return Step("", title, {}, (), before.after, before.after, 0.0)


def _padded(step: Step, moments: int) -> Step:
    """The step with `moments` moments, of which the last ones change nothing."""
    missing = moments - len(step.rewrites)
    if not missing:
        return step
    sentence = f"all {len(step.rewrites):,} rewrites of this step are done" if step.rewrites else "nothing to do here"
    idle = AppliedRewrite(step.pass_name, f"{sentence}; the other pipeline goes on", "", (), Edit(), Edit(), 0.0)
    return replace(step, rewrites=(*step.rewrites, *(idle,) * missing))
