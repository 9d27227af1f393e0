"""A graph view on a page: what is shown, what the browser asked for, and what is selected in it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from workbench.rewrite import History
from workbench.ui.state.address import Moment
from workbench.ui.state.overlay import Overlay
from workbench.view.boxes import Boxes
from workbench.view.finding import SearchHits, Span, find
from workbench.view.marking import hit_marks, told_numbers
from workbench.view.own_numbers import NumbersError, read_numbers
from workbench.view.query import QueryError
from workbench.view.scene import View, packed, steps_of
from workbench.view.timeline import take_verdicts

_NUMBERS = itertools.count(1)  # of the requests to the browser, which handles each once


@dataclass(frozen=True)
class Seen:
    """What is on screen: the selected box, "" for none, and the moment, None if the browser has not reported it yet."""

    id: str = ""
    moment: Moment | None = None


Inspect = Callable[[Seen], Mapping[str, Any]]


@dataclass
class Shown:
    """A view on a page and the last request of each kind to it; the browser handles requests with a new number.

    lockstep: views of the same name step together; "" for a view that steps alone.
    """

    view: View
    inspect: Inspect
    overlay: Overlay
    lockstep: str = ""
    at: dict[str, int | None] = field(default_factory=dict)
    found: dict[str, Any] | None = None
    spans: Mapping[str, list[Span]] = field(default_factory=dict)
    show: dict[str, Any] | None = None
    packed: tuple[str, str] | None = None
    scene: dict[str, Any] = field(default_factory=dict)
    boxes: Boxes = field(default_factory=Boxes)

    def tell_verdicts(self, history: History) -> None:
        """Send new verdicts to the browser, without computing the placement again."""
        if take_verdicts(self.view.timeline, history) and self.packed is not None:
            self.scene["steps"] = steps_of(self.view.timeline)
            self.packed = packed(self.scene)

    def go_to(self, step: int, rewrite: int | None, panes: int = 0) -> None:
        """Ask the browser to show the step after its first `rewrite` rewrites, or as a whole if None.

        panes: 1 or 2; 0 leaves them as they are.
        """
        self.at = {"step": step, "rewrite": rewrite, "panes": panes, "n": next(_NUMBERS)}

    def set_open(self, wish: Mapping[str, Any]) -> None:
        """Open or close a group, whichever is wished: Streamlit may hand over a wish twice."""
        self.view.set_open(str(wish["id"]), bool(wish["open"]), bool(wish["all"]))
        self.packed = None

    def find(self, wish: Mapping[str, Any]) -> None:
        query, fault = str(wish["query"]), ""
        try:
            result = find(self.view.timeline, query, self.view.root)
        except QueryError as error:
            result, fault = SearchHits(), str(error)
        self.spans = result.spans
        self.found = {
            "query": query,
            "hits": result.hits,
            "total": result.total,
            "fault": fault,
            "n": next(_NUMBERS),
        }

    def reveal(self, wish: Mapping[str, Any]) -> None:
        self.view.reveal(str(wish["id"]))
        self.show = {"id": wish["id"], "whole": bool(wish.get("whole")), "n": next(_NUMBERS)}
        self.packed = None

    def step_into(self, wish: Mapping[str, Any]) -> None:
        """Open the groups in which a rewrite is."""
        rewrite = int(wish["rewrite"])
        if rewrite >= self.view.timeline.last:
            return  # of a history that was shown before
        event = self.view.timeline.events[rewrite]
        if self.view.reveal(*event.nodes, *(node.name for node in event.inserted)):
            self.packed = None

    def numbers(self, wish: Mapping[str, Any]) -> None:
        """Take in a file of the user's own numbers; a refused one leaves those of before."""
        self.overlay.number, self.overlay.fault = next(_NUMBERS), ""
        try:
            self.overlay.own = read_numbers(str(wish["file"]), str(wish["text"]), self.view.timeline.versions)
        except NumbersError as error:
            self.overlay.fault = str(error)

    def constants(self, wish: Mapping[str, Any]) -> None:
        self.view.constants = bool(wish["on"])
        self.packed = None

    def flat(self, wish: Mapping[str, Any]) -> None:
        self.view.is_flat = bool(wish["on"])
        self.packed = None

    def data(self, seen: Seen, height: str) -> dict[str, Any]:
        """The data passed to the component."""
        if self.packed is None:
            self.boxes = self.view.boxes()
            self.scene = self.view.scene(self.boxes)
            self.packed = packed(self.scene)
        scene, number = self.packed
        return {
            "scene": scene,
            "scene_id": number,
            "at": self.at or None,
            "found": self.found,
            "marks": hit_marks(self.boxes, self.spans, self.view.timeline.last),
            "own": self._own(),
            "show": self.show,
            "inspector": self._inspected(seen) if seen.id else None,
            "height": height,
            "constants": self.view.constants,
            "flat": self.view.is_flat,
            "lockstep": self.lockstep,
        }

    def _own(self) -> dict[str, Any] | None:
        if not self.overlay.number:
            return None
        own = self.overlay.own
        message = {} if own is None else told_numbers(self.boxes, own, self.view.timeline.versions)
        return {**message, "fault": self.overlay.fault, "n": self.overlay.number}

    def _inspected(self, seen: Seen) -> dict[str, Any]:
        """The inspector's text, with the user's own numbers for the node."""
        content = dict(self.inspect(seen))
        own = self.overlay.own
        rows = [] if own is None else own.rows(seen.id)
        if own is not None and rows:
            numbers = {"title": f"Your numbers, from {own.file}", "open": True, "rows": rows}
            content["sections"] = [numbers, *content["sections"]]
        return content


def seen_in(key: str) -> Seen:
    """What is on screen in the view of that key, as last reported by the browser."""
    state = (st.session_state.get(key) or {}).get("seen")
    if not state:
        return Seen()
    rewrite = state["rewrite"]
    return Seen(str(state["id"]), (int(state["step"]), None if rewrite is None else int(rewrite)))
