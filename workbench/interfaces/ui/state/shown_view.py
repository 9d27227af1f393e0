"""A graph view on a page: what it shows, what the browser requests, and what is selected in it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from workbench.errors import UserError
from workbench.interfaces.ui.state.address import Moment
from workbench.interfaces.ui.state.overlay import Overlay
from workbench.presentation.view.boxes import Boxes
from workbench.presentation.view.finding import SearchHits, Span, find
from workbench.presentation.view.marking import hit_marks, overlay_data
from workbench.presentation.view.node_numbers import NodeNumbers, NumbersError, read_numbers
from workbench.presentation.view.query import QueryError
from workbench.presentation.view.scene import CostsOfSides, View, packed, steps_of, with_providers
from workbench.presentation.view.timeline import update_verdicts
from workbench.rewrite import History

_NUMBERS = itertools.count(1)  # numbers of requests to the browser, which handles each number once


@dataclass(frozen=True)
class Seen:
    """What is on screen, as the browser reports it.

    id:     the id of the selected box, or "".
    moment: the step of the history, and the number of its rewrites that are done; None before the first report.
    """

    id: str = ""
    moment: Moment | None = None


Inspect = Callable[[Seen], Mapping[str, Any]]
AskProviders = Callable[[], tuple[Mapping[str, str], Mapping[str, str]]]


@dataclass
class Shown:
    """A view on a page, and the last request of each kind to the browser.

    inspect:  the inspector's content for the selected box.
    lockstep: views with the same name step together; "": this view steps alone.
    ask_providers: asks ONNX Runtime for the providers of nodes, by node of the first and of the last graph.
    placed:   the browser's last request for them, and why it failed, or "".
    is_player: whether it is the picture of a lesson, without controls.
    at:       the step to go to. query: the query to search by, and search_result: the hits of the browser's last query.
    spans:    for each node that a query found, the moments at which it holds.
    show:     the box to select, and the boxes to keep visible; None before the first such request.
    places:   the numbers of all rewrites of the kind that is shown, counted over the history.
    measured: the measurement whose costs it shows.
    computed: numbers for nodes that the page computed, and the number of the request that brought them.
    packed:   the scene as text, and its id; None if it must be made again.
    """

    view: View
    inspect: Inspect
    overlay: Overlay
    lockstep: str = ""
    ask_providers: AskProviders | None = None
    placed: dict[str, Any] | None = None
    is_player: bool = False
    at: dict[str, int | None] = field(default_factory=dict)
    query: dict[str, Any] | None = None
    search_result: dict[str, Any] | None = None
    spans: Mapping[str, list[Span]] = field(default_factory=dict)
    show: dict[str, Any] | None = None
    places: Sequence[int] = ()
    measured: object = None
    computed: NodeNumbers | None = None
    computed_number: int = 0
    packed: tuple[str, str] | None = None
    scene: dict[str, Any] = field(default_factory=dict)
    boxes: Boxes = field(default_factory=Boxes)

    def send_verdicts(self, history: History) -> None:
        """Send new verdicts to the browser without placing the graph again."""
        if update_verdicts(self.view.timeline, history) and self.packed is not None:
            self.scene["steps"] = steps_of(self.view.timeline)
            self.packed = packed(self.scene)

    def show_costs(self, costs: CostsOfSides, measured_in: str) -> None:
        """Show measured costs, without placing the graph again. measured_in: the backend."""
        asked = ({name: cost.provider for name, cost in side.items() if cost.provider} for side in self.view.costs)
        before, after = (with_providers(*pair) for pair in zip(costs, asked, strict=True))
        self.view.costs, self.view.measured_in = (before, after), measured_in
        self.packed = None

    def forget_requests(self) -> None:
        """Forget what the browser has already shown: another page of the browser begins with its address."""
        self.at, self.query, self.show = {}, None, None

    def go_to(self, step: int, rewrite: int | None, panes: int = 0) -> None:
        """Ask the browser to show the step after its first `rewrite` rewrites; None: after all of them.

        panes: 1 or 2; 0: as before.
        """
        self.at = {"step": step, "rewrite": rewrite, "panes": panes, "n": next(_NUMBERS)}

    def ask_for(self, query: str) -> None:
        """Ask the browser to search by the query, and to colour the hits."""
        self.query = {"query": query, "n": next(_NUMBERS)}

    def set_open(self, request: Mapping[str, Any]) -> None:
        """Open or close a group. The request has the new state, since Streamlit may deliver it twice."""
        self.view.set_open(str(request["id"]), bool(request["open"]), bool(request["all"]))
        self.packed = None

    def show_numbers(self, numbers: NodeNumbers | None) -> None:
        """Numbers that a page computed: for the inspector, and for the colourings of a view `with_computed`."""
        if numbers is not self.computed:
            self.computed, self.computed_number = numbers, next(_NUMBERS)

    def find(self, request: Mapping[str, Any]) -> None:
        query, fault = str(request["query"]), ""
        try:
            result = find(self.view.timeline, query, self.view.root)
        except QueryError as error:
            result, fault = SearchHits(), str(error)
        self.spans = result.spans
        self.search_result = {
            "query": query,
            "hits": result.hits,
            "total": result.total,
            "fault": fault,
            "n": next(_NUMBERS),
        }

    def reveal(self, request: Mapping[str, Any]) -> None:
        self.view.reveal(str(request["id"]))
        self.show = {"id": request["id"], "n": next(_NUMBERS)}
        self.packed = None

    def frame(self, id_: str, frame: Sequence[str]) -> None:
        """Ask the browser to select a box, "" for none, and to keep these boxes visible and readable, () for all."""
        self.show = {"id": id_, "frame": list(frame), "n": next(_NUMBERS)}
        self.packed = None

    def show_framed(self, nodes: Sequence[str]) -> None:
        """Open the groups around these nodes, and ask the browser to keep the nodes visible and readable."""
        self.view.reveal(*nodes)
        self.frame("", nodes)

    def step_into(self, request: Mapping[str, Any]) -> None:
        """Open the groups that contain the nodes of a rewrite."""
        rewrite = int(request["rewrite"])
        if rewrite >= self.view.timeline.last:
            return  # the request is for a previous history
        event = self.view.timeline.events[rewrite]
        if self.view.reveal(*event.nodes, *(node.name for node in event.inserted)):
            self.packed = None

    def numbers(self, request: Mapping[str, Any]) -> None:
        """Read a file of the user's numbers; a refused file leaves the previous numbers."""
        self.overlay.number, self.overlay.fault = next(_NUMBERS), ""
        try:
            self.overlay.own = read_numbers(str(request["file"]), str(request["text"]), self.view.timeline.versions)
        except NumbersError as error:
            self.overlay.fault = str(error)

    def providers(self, request: Mapping[str, Any]) -> None:
        """Ask where ONNX Runtime runs the nodes; a failure is said in the view."""
        self.placed = {"n": next(_NUMBERS), "fault": ""}
        try:
            found = self.ask_providers() if self.ask_providers is not None else ({}, {})
        except UserError as error:
            self.placed["fault"] = str(error)
            return
        before, after = (with_providers(*pair) for pair in zip(self.view.costs, found, strict=True))
        self.view.costs = before, after
        self.packed = None

    def constants(self, request: Mapping[str, Any]) -> None:
        self.view.constants = bool(request["on"])
        self.packed = None

    def flat(self, request: Mapping[str, Any]) -> None:
        self.view.is_flat = bool(request["on"])
        self.packed = None

    def data(self, seen: Seen, height: str, with_computed: bool = False) -> dict[str, Any]:
        """The data for the component in the browser. with_computed: colour by the numbers of the page."""
        if self.packed is None:
            self.boxes = self.view.boxes()
            self.scene = self.view.scene(self.boxes)
            self.packed = packed(self.scene)
        scene, number = self.packed
        timeline = self.view.timeline
        return {
            "form": "pair" if timeline.is_pair else "" if timeline.last else "still",
            "scene": scene,
            "scene_id": number,
            "at": self.at or None,
            "query": self.query,
            "found": self.search_result,
            "marks": hit_marks(self.boxes, self.spans, self.view.timeline.last),
            "own": self._own(with_computed),
            "placed": self.placed,
            "placeable": self.ask_providers is not None,
            "show": self.show,
            "places": self.places,
            "inspector": self._inspected(seen) if seen.id else None,
            "height": height,
            "constants": self.view.constants,
            "flat": self.view.is_flat,
            "lockstep": self.lockstep,
            "player": self.is_player,
        }

    def _own(self, with_computed: bool) -> dict[str, Any] | None:
        computed_number = self.computed_number if with_computed and self.computed is not None else 0
        newest = max(self.overlay.number, computed_number)
        if not newest:
            return None
        is_computed = newest == computed_number
        numbers = [self.overlay.own, *([self.computed] if computed_number else [])]
        nodes, newest_first = self.view.timeline.versions, numbers[:: -1 if is_computed else 1]
        columns = [overlay_data(self.boxes, one, nodes) for one in newest_first if one is not None]
        said = self.overlay.own.sentence(nodes) if self.overlay.own is not None and not is_computed else ""
        return {
            "columns": [column for some in columns for column in some],
            "computed": is_computed,
            "sentence": said,
            "fault": "" if is_computed else self.overlay.fault,
            "n": newest,
        }

    def _inspected(self, seen: Seen) -> dict[str, Any]:
        """The inspector's content, with the numbers for the node that the user or the page brought."""
        content = dict(self.inspect(seen))
        for numbers in (self.overlay.own, self.computed):
            if numbers is not None and (rows := numbers.rows(seen.id)):
                section = {"title": numbers.heading, "open": True, "rows": rows}
                content["sections"] = [section, *content["sections"]]
        return content


def seen_in(key: str) -> Seen:
    """What the view of that key shows, as the browser last reported."""
    state = (st.session_state.get(key) or {}).get("seen")
    if not state:
        return Seen()
    rewrite = state["rewrite"]
    return Seen(str(state["id"]), (int(state["step"]), None if rewrite is None else int(rewrite)))
