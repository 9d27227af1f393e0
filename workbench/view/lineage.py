"""The origin of a node or constant: the rewrites that created, changed or removed it, in order.

Moments count over the whole history: moment t is the graph after t rewrites.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence
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


@dataclass(frozen=True)
class HistoryEvent:
    """What a rewrite did to the node or constant of that name."""

    moment: HistoryMoment
    name: str
    what: str

    @property
    def inserted(self) -> bool:
        return any(node.name == self.name for node in self.moment.done.edit.insert)

    def said(self) -> dict[str, Any]:
        return {"t": self.moment.t, "words": self.moment.words, "what": self.what}


def history_moments(history: History) -> Iterator[HistoryMoment]:
    """Every rewrite of the history, in order."""
    t = 0
    for index, step in enumerate(history.steps):
        for number, rewrite in enumerate(step.rewrites, start=1):
            t += 1
            yield HistoryMoment(t, index, number, len(step.rewrites), rewrite)


def constant_events(history: History, value: str) -> list[HistoryEvent]:
    """What each rewrite did to the constant."""
    moments = history_moments(history)
    return [HistoryEvent(moment, value, what) for moment in moments if (what := _to_constant(moment.done, value))]


class Lineage:
    """What the rewrites of a history did to nodes, by name: looked up for one node, it costs as much as there is."""

    def __init__(self, history: History) -> None:
        self._of: dict[str, list[HistoryEvent]] = {}
        for moment in history_moments(history):
            for name, what in _to_nodes(moment.done).items():
                self._of.setdefault(name, []).append(HistoryEvent(moment, name, what))

    def of(self, name: str) -> Sequence[HistoryEvent]:
        """What each rewrite did to the node of that name, in order."""
        return self._of.get(name, ())

    def ancestry(self, name: str, most: int) -> list[HistoryEvent]:
        """The events of the node, and of the nodes that were merged into it until then, in order: the last `most`."""
        results: dict[int, HistoryEvent] = {}
        seen = {name}
        order = itertools.count()
        waiting: list[tuple[int, int, int, str]] = []  # negative moment, order of entry, place among the events, name

        def enter(name: str, before: int) -> None:
            place = before - 1
            if place >= 0:
                heapq.heappush(waiting, (-self._of[name][place].moment.t, next(order), place, name))

        enter(name, len(self.of(name)))
        while waiting and len(results) < most:
            t, _, place, current = heapq.heappop(waiting)
            event = self._of[current][place]
            results.setdefault(-t, event)
            enter(current, place)
            if not event.inserted:
                continue
            for source in _gone(event.moment.done):
                if source not in seen:
                    seen.add(source)
                    enter(source, bisect.bisect_left(self.of(source), -t, key=lambda event: event.moment.t))
        return [results[t] for t in sorted(results)]

    def sources(self, name: str) -> list[str]:
        """The nodes from which rewrites made it, as "Conv 'conv1'", in order."""
        sentences: dict[str, None] = {}
        for event in self.of(name):
            if event.inserted:
                done = event.moment.done
                removed = set(_gone(done))
                sentences.update((str(node), None) for node in done.inverse.insert if node.name in removed)
        return list(sentences)


def lives(there_at_first: bool, events: Iterable[HistoryEvent]) -> str:
    """When it exists, as a sentence without a subject."""
    spans = ["from the beginning"] if there_at_first else []
    for event in events:
        where = f"step {event.moment.step}, rewrite {event.moment.rewrite}"
        if event.what == APPEARS:
            spans.append(f"from {where}")
        elif event.what == DISAPPEARS and spans:
            spans[-1] += f" until {where}"
    return f"exists {', and '.join(spans)}" if spans else "exists at no moment of this history"


def _to_nodes(rewrite: AppliedRewrite) -> dict[str, str]:
    """What the rewrite did, by the node's name; from the inverse edit, which names changed users too."""
    went = {node.name for node in rewrite.inverse.insert}
    result = dict.fromkeys(went, DISAPPEARS)
    result |= {name: CHANGES if name in went else APPEARS for name in rewrite.inverse.remove}
    for function in rewrite.edit.functions.values():
        if function is not None:
            result |= {node.name: CHANGES for node in function.graph.nodes}  # computed in a call from now on
    return result


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
