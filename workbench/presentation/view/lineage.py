"""The lineage of a node or constant: the rewrites that created, changed or removed it, in order.

Moments count over the whole history: moment t is the graph after t rewrites.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.ir.provenance import Provenance
from workbench.rewrite import AppliedRewrite, History
from workbench.rewrite.core.provenance import update_provenance

APPEARS, CHANGES, DISAPPEARS = "appears", "changes", "disappears"


@dataclass(frozen=True)
class PlacedRewrite:
    """A rewrite and its place in a history. t: the moment after it.

    rewrite: its number, from 1, among the `count` of its step.
    """

    t: int
    step: int
    rewrite: int
    count: int
    done: AppliedRewrite

    @property
    def text(self) -> str:
        return f"step {self.step}, rewrite {self.rewrite} of {self.count}: {self.done.sentence}"


@dataclass(frozen=True)
class HistoryEvent:
    """What a rewrite did to the node or constant of that name: APPEARS, CHANGES or DISAPPEARS."""

    placed: PlacedRewrite
    name: str
    what: str

    @property
    def inserted(self) -> bool:
        return any(node.name == self.name for node in self.placed.done.edit.insert)

    def to_json(self) -> dict[str, Any]:
        return {"t": self.placed.t, "words": self.placed.text, "what": self.what}


def placed_rewrites(history: History) -> Iterator[PlacedRewrite]:
    """Every rewrite of the history, in order."""
    t = 0
    for index, step in enumerate(history.steps):
        for number, rewrite in enumerate(step.rewrites, start=1):
            t += 1
            yield PlacedRewrite(t, index, number, len(step.rewrites), rewrite)


def constant_events(history: History, value: str) -> list[HistoryEvent]:
    """The events of a constant, in order."""
    rewrites = placed_rewrites(history)
    return [HistoryEvent(placed, value, what) for placed in rewrites if (what := _to_constant(placed.done, value))]


class Lineage:
    """The events of all nodes of a history, by name, and what made each node."""

    def __init__(self, history: History) -> None:
        self._of: dict[str, list[HistoryEvent]] = {}
        self._made: dict[str, list[tuple[int, Provenance]]] = {}  # by node: since which moment it is made by what
        provenance: dict[str, Provenance] = {}
        for placed in placed_rewrites(history):
            update_provenance(provenance, [placed.done])
            for name, what in _to_nodes(placed.done).items():
                self._of.setdefault(name, []).append(HistoryEvent(placed, name, what))
                if name in provenance:
                    self._made.setdefault(name, []).append((placed.t, provenance[name]))

    def of(self, name: str) -> Sequence[HistoryEvent]:
        """The events of the node of that name, in order."""
        return self._of.get(name, ())

    def made(self, name: str, t: int) -> Provenance | None:
        """What made the node as it is at moment t; None if no rewrite did. Origins are nodes of the graph as loaded."""
        return next((made for since, made in reversed(self._made.get(name, ())) if since <= t), None)

    def ancestry(self, name: str, limit: int) -> list[HistoryEvent]:
        """The last `limit` events, in order, of the node and, until they were replaced, of the nodes it replaced."""
        results: dict[int, HistoryEvent] = {}
        seen = {name}
        order = itertools.count()
        waiting: list[tuple[int, int, int, str]] = []  # negative moment, order, event's index, name

        def push(name: str, before: int) -> None:
            index = before - 1
            if index >= 0:
                heapq.heappush(waiting, (-self._of[name][index].placed.t, next(order), index, name))

        push(name, len(self.of(name)))
        while waiting and len(results) < limit:
            t, _, index, current = heapq.heappop(waiting)
            event = self._of[current][index]
            results.setdefault(-t, event)
            push(current, index)
            if not event.inserted:
                continue
            for source in _removed_for_good(event.placed.done):
                if source not in seen:
                    seen.add(source)
                    push(source, bisect.bisect_left(self.of(source), -t, key=lambda event: event.placed.t))
        return [results[t] for t in sorted(results)]

    def sources(self, name: str) -> list[str]:
        """The nodes that the node replaced, such as "Conv 'conv1'", in order."""
        sources: dict[str, None] = {}
        for event in self.of(name):
            if event.inserted:
                done = event.placed.done
                removed = set(_removed_for_good(done))
                sources.update((str(node), None) for node in done.inverse.insert if node.name in removed)
        return list(sources)


def lives(is_in_original: bool, events: Iterable[HistoryEvent]) -> str:
    """The moments at which a node or constant exists, as a sentence without a subject."""
    spans = ["from the beginning"] if is_in_original else []
    for event in events:
        moment_text = f"step {event.placed.step}, rewrite {event.placed.rewrite}"
        if event.what == APPEARS:
            spans.append(f"from {moment_text}")
        elif event.what == DISAPPEARS and spans:
            spans[-1] += f" until {moment_text}"
    return f"exists {', and '.join(spans)}" if spans else "exists at no moment of this history"


def _to_nodes(rewrite: AppliedRewrite) -> dict[str, str]:
    """By node, what the rewrite did to it; the inverse edit also has users that changed."""
    removed = {node.name for node in rewrite.inverse.insert}
    result = dict.fromkeys(removed, DISAPPEARS)
    result |= {name: CHANGES if name in removed else APPEARS for name in rewrite.inverse.remove}
    for function in rewrite.edit.functions.values():
        if function is not None:
            result |= {node.name: CHANGES for node in function.graph.nodes}  # a call computes them after this rewrite
    return result


def _to_constant(rewrite: AppliedRewrite, value: str) -> str:
    if value not in rewrite.inverse.constants:
        return ""
    if rewrite.inverse.constants[value] is None:
        return APPEARS
    return CHANGES if rewrite.edit.constants.get(value) is not None else DISAPPEARS


def _removed_for_good(rewrite: AppliedRewrite) -> list[str]:
    """The nodes that the rewrite removed and did not insert again."""
    inserted = set(rewrite.inverse.remove)
    return [node.name for node in rewrite.inverse.insert if node.name not in inserted]
