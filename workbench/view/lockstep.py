"""Two pipelines of one model, stepped together: their histories with the same steps, and as many rewrites in each.

Steps of the same pass are paired, in order (difflib, Ratcliff and Obershelp); of what is left between two pairs the
first is paired with the first, as two layout strategies at the same place are. Where one history has no such step, or
fewer rewrites in it, moments are added in which it stays as it is, so that one clock fits both.
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
    """Both histories with as many steps, and as many rewrites in each of them; the graphs are the same."""
    pairs = list(_paired(first.steps, second.steps))
    return _aligned(first, [(a, b) for a, b in pairs]), _aligned(second, [(b, a) for a, b in pairs])


def _paired(first: Sequence[Step], second: Sequence[Step]) -> Iterator[tuple[Step | None, Step | None]]:
    a, b = ([step.pass_name for step in steps] for steps in (first, second))
    for _, a0, a1, b0, b1 in SequenceMatcher(a=a, b=b, autojunk=False).get_opcodes():
        yield from zip_longest(first[a0:a1], second[b0:b1])


def _aligned(history: History, pairs: Sequence[tuple[Step | None, Step | None]]) -> History:
    """The history with a step for each pair. pairs: its own step, and the other history's."""
    steps: list[Step] = []
    for own, other in pairs:
        longest = max(len(step.rewrites) for step in (own, other) if step is not None)
        steps.append(_waiting(own or _absent(steps[-1], other), longest))
    return replace(history, steps=steps)


def _absent(before: Step, other: Step | None) -> Step:
    title = f"{_ABSENT}: {other.title}" if other is not None else _ABSENT
    return Step("", title, {}, (), before.after, before.after, 0.0)


def _waiting(step: Step, moments: int) -> Step:
    """The step with further moments in which nothing happens."""
    more = moments - len(step.rewrites)
    if not more:
        return step
    done = f"all {len(step.rewrites):,} rewrites of this step are done" if step.rewrites else "nothing to do here"
    nothing = AppliedRewrite(step.pass_name, f"{done}; the other pipeline goes on", "", (), Edit(), Edit(), 0.0)
    return replace(step, rewrites=(*step.rewrites, *(nothing,) * more))
