"""Which step of a history, and which of its rewrites, is the first after which the graph computes something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench.evidence.verification.verifier import Verifier
from workbench.run.compare import Verdict

if TYPE_CHECKING:
    from workbench.rewrite import History

OnCheck = Callable[[str], None]


def verify_step(verifier: Verifier, history: History, on_check: OnCheck | None = None) -> None:
    """Set the verdict of the history's last step; if it is the first that fails, find the rewrite that broke it."""
    index = len(history) - 1
    step, previous = history[index], history[index - 1].verdict if index else None
    if not step.changed and previous is not None:
        step.verdict = previous
        return
    step.verdict = _checked(verifier, history, index, on_check)
    if step.verdict.ok is not False or not index or (previous is not None and previous.ok is False):
        return
    _find_rewrite(verifier, history, index, on_check, previous is not None, step.verdict.run)


def verify_end(verifier: Verifier, history: History, on_check: OnCheck | None = None) -> None:
    """Compare only the end; if that fails, find the first step that fails, and the rewrite that broke it.

    Every moment can be replayed, so that the search takes about log2(steps) + log2(rewrites) runs, on the inputs of the
    run that showed the difference. The verdicts that are set in the history are those of steps that fail.

    on_check: called before each comparison with what is compared; may raise to stop.
    """
    last = len(history) - 1
    verdict = history[last].verdict = _checked(verifier, history, last, on_check)
    if verdict.ok is not False or last == 0:
        return

    def is_wrong(index: int) -> bool:
        found = _checked(verifier, history, index, on_check, only=verdict.run)
        if found.ok is False or verdict.run is None:
            history[index].verdict = found
        return found.ok is False

    changed = [0, *(index for index, step in enumerate(history.steps) if step.changed)]
    first_wrong = changed[bisect(lambda number: is_wrong(changed[number]), len(changed) - 1)]
    if first_wrong == 0:
        return
    history[first_wrong].verdict = history[first_wrong].verdict or verdict
    _find_rewrite(verifier, history, first_wrong, on_check, True, verdict.run)


def verify_others(
    verifier: Verifier, history: History, shown: Callable[[], int], on_check: OnCheck | None = None
) -> None:
    """Set a verdict for every step without one, the shown step first; steps with the same graph are compared once.

    shown: returns the index of the shown step; called before each comparison.
    """
    changed = [index for index, step in enumerate(history.steps) if step.changed or not index]
    last_equal = [*(index - 1 for index in changed[1:]), len(history) - 1]  # the last step with the graph of each
    while True:
        waiting = []
        for first, last in zip(changed, last_equal, strict=True):
            steps = history.steps[first : last + 1]
            known = next((step.verdict for step in steps if step.verdict is not None), None)
            if known is None:
                waiting.append(first)
            for step in steps:
                step.verdict = step.verdict or known
        if not waiting:
            return
        index = max((i for i in waiting if i <= shown()), default=waiting[0])
        history[index].verdict = _checked(verifier, history, index, on_check)


def bisect(is_wrong: Callable[[int], bool], count: int, known_right: bool = False) -> int:
    """The first of `count` changes (from 1) after which the graph is wrong; 0 if it is wrong before all of them.

    It must be wrong after all of them. known_right: whether it is known to be right before them.
    Makes about log2(count) comparisons.
    """
    if not known_right and is_wrong(0):
        return 0
    right, wrong = 0, count
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if is_wrong(middle):
            wrong = middle
        else:
            right = middle
    return wrong


def _find_rewrite(
    verifier: Verifier, history: History, index: int, on_check: OnCheck | None, known_right: bool, only: int | None
) -> None:
    """Set `broken_by` of the failing step. known_right: whether the step before it is known to pass.

    only: the number of the run that showed the difference; None: all are compared.
    """

    def is_wrong(rewrites: int) -> bool:
        return _checked(verifier, history, index, on_check, rewrites, only).ok is False

    number = bisect(is_wrong, len(history[index].rewrites), known_right)
    history[index].broken_by = number - 1 if number else None


def _checked(
    verifier: Verifier,
    history: History,
    index: int,
    on_check: OnCheck | None,
    rewrites: int | None = None,
    only: int | None = None,
) -> Verdict:
    """The verdict on the graph after a step, or after this number of its rewrites. only: as in `Verifier.check`."""
    is_last = index == len(history) - 1 and rewrites is None
    graph = history.graph if is_last else history.at(index, rewrites)
    if on_check is not None:
        partly = "" if rewrites is None else f" after {rewrites:,} of {len(history[index].rewrites):,} rewrites"
        on_check(f"comparing step {index}, {history[index].title}{partly}, with the original")
    how = {"was_asked": history.is_narrowed(index), "numbers_only": history.is_for_numbers_only(index)}
    return verifier.check(graph, history.is_exact, **how, only=only)
