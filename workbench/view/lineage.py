"""The origin of a node or constant: the rewrites that created, changed or removed it, in order.

Moments count over the whole history: moment t is the graph after t rewrites.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from workbench.rewrite import AppliedRewrite, History

APPEARS, CHANGES, DISAPPEARS = "appears", "changes", "disappears"


@dataclass(frozen=True)
class HistoryMoment:
    """Rewrite `rewrite` (from 1) of the `count` rewrites of step `step`; `t` is the moment after it."""

    t: int
    step: int
    rewrite: int
    count: int
    done: AppliedRewrite

    @property
    def words(self) -> str:
        return f"step {self.step}, rewrite {self.rewrite} of {self.count}: {self.done.sentence}"

    def said(self, what: str) -> dict[str, Any]:
        return {"t": self.t, "words": self.words, "what": what}


def history_moments(history: History) -> Iterator[HistoryMoment]:
    """Every rewrite of the history, in order."""
    t = 0
    for index, step in enumerate(history.steps):
        for number, rewrite in enumerate(step.rewrites, start=1):
            t += 1
            yield HistoryMoment(t, index, number, len(step.rewrites), rewrite)


def node_events(history: History, name: str) -> list[tuple[HistoryMoment, str]]:
    """What each rewrite did to the node of that name, from the inverse edits, which name changed users too."""
    return [(moment, what) for moment in history_moments(history) if (what := _to_node(moment.done, name))]


def constant_events(history: History, value: str) -> list[tuple[HistoryMoment, str]]:
    """What each rewrite did to the constant."""
    return [(moment, what) for moment in history_moments(history) if (what := _to_constant(moment.done, value))]


def ancestry(history: History, name: str) -> list[dict[str, Any]]:
    """The moments of the node, and of the nodes that were merged into it until then, in order."""
    every = list(history_moments(history))
    found: dict[int, dict[str, Any]] = {}
    reached: dict[str, int] = {}
    waiting = [(name, len(every))]
    while waiting:
        current, until = waiting.pop(0)
        if reached.get(current, -1) >= until:
            continue
        reached[current] = until
        for moment in every[:until]:
            what = _to_node(moment.done, current)
            if not what:
                continue
            found.setdefault(moment.t, moment.said(what))
            if current in {node.name for node in moment.done.edit.insert}:
                waiting += [(source, moment.t - 1) for source in _gone(moment.done)]
    return [found[t] for t in sorted(found)]


def sources(history: History, name: str) -> list[str]:
    """The nodes from which rewrites made it, as "Conv 'conv1'", the nearest first."""
    said: dict[str, None] = {}
    for moment in history_moments(history):
        if name not in {node.name for node in moment.done.edit.insert}:
            continue
        said.update((str(node), None) for node in moment.done.inverse.insert if node.name in _gone(moment.done))
    return list(said)


def lives(there_at_first: bool, events: list[tuple[HistoryMoment, str]]) -> str:
    """When it exists, as a sentence without a subject."""
    spans = ["from the beginning"] if there_at_first else []
    for moment, what in events:
        where = f"step {moment.step}, rewrite {moment.rewrite}"
        if what == APPEARS:
            spans.append(f"from {where}")
        elif what == DISAPPEARS and spans:
            spans[-1] += f" until {where}"
    return f"exists {', and '.join(spans)}" if spans else "exists at no moment of this history"


def _to_node(rewrite: AppliedRewrite, name: str) -> str:
    if any(function is not None and name in function.graph for function in rewrite.edit.functions.values()):
        return CHANGES  # it is computed in a call from now on
    came = name in rewrite.inverse.remove
    went = any(node.name == name for node in rewrite.inverse.insert)
    if came:
        return CHANGES if went else APPEARS
    return DISAPPEARS if went else ""


def _to_constant(rewrite: AppliedRewrite, value: str) -> str:
    if value not in rewrite.inverse.constants:
        return ""
    if rewrite.inverse.constants[value] is None:
        return APPEARS
    return CHANGES if rewrite.edit.constants.get(value) is not None else DISAPPEARS


def _gone(rewrite: AppliedRewrite) -> list[str]:
    """Nodes that the rewrite removed and did not insert again."""
    came = set(rewrite.inverse.remove)
    return [node.name for node in rewrite.inverse.insert if node.name not in came]
