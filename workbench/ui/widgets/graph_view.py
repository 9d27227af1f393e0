"""The graph view on a page: the component of `workbench/view/component`, and the requests that it sends to Python.

Pan, zoom and stepping are handled in the browser. A click requests the inspector's
text; opening a box or showing constants requests a new scene, a search its hits.
Each request reruns the fragment around the component, not the page.
"""

from __future__ import annotations

import functools
import itertools
import shutil
import tempfile
import weakref
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.components.v2 import component
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest

from workbench.rewrite import History
from workbench.ui.state.address import Moment, node_in_address
from workbench.ui.state.overlay import Overlay
from workbench.ui.widgets.parts import growing
from workbench.view.boxes import Boxes
from workbench.view.finding import SearchHits, Span, find
from workbench.view.marking import hit_marks, told_numbers
from workbench.view.own_numbers import NumbersError, read_numbers
from workbench.view.query import QueryError
from workbench.view.report import COMPONENT, bundle
from workbench.view.scene import View, packed, steps_of
from workbench.view.timeline import take_verdicts

_NAME = "graph_workbench.graph"
_EVENTS = ("set_open", "find", "reveal", "step_into", "constants", "flat", "numbers")
_NUMBERS = itertools.count(1)  # of the requests to the browser, which handles each once


@dataclass(frozen=True)
class Seen:
    """What is on screen: the selected box, "" for none, and the moment, None if the browser has not reported it yet."""

    id: str = ""
    moment: Moment | None = None


Inspect = Callable[[Seen], Mapping[str, Any]]
Follow = Callable[[Seen], Hashable]


def selection(seen: Seen) -> Hashable:
    """What a page follows that shows more of the selected node."""
    return seen.id


def moment(seen: Seen) -> Hashable:
    """What a page follows that tells the moment too."""
    return seen.moment


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
            found = find(self.view.timeline, query, self.view.root)
        except QueryError as error:
            found, fault = SearchHits(), str(error)
        self.spans = found.spans
        self.found = {
            "query": query,
            "hits": found.hits,
            "total": found.total,
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
        if self.view.reveal(*event.nodes, *(node.name for node in event.come)):
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
        told = {} if own is None else told_numbers(self.boxes, own, self.view.timeline.versions)
        return {**told, "fault": self.overlay.fault, "n": self.overlay.number}

    def _inspected(self, seen: Seen) -> dict[str, Any]:
        """The inspector's text, with the user's own numbers for the node."""
        content = dict(self.inspect(seen))
        own = self.overlay.own
        rows = [] if own is None else own.rows(seen.id)
        if own is not None and rows:
            numbers = {"title": f"Your numbers, from {own.file}", "open": True, "rows": rows}
            content["sections"] = [numbers, *content["sections"]]
        return content


@st.fragment
def graph_view(key: str, shown: Shown, height: int, follow: Follow | None = None) -> None:
    """Draw the view; `height` in pixels on a screen 768 pixels high, more on a higher one.

    follow: what else on the page depends on: it is drawn again when that changes in the browser.
    """
    mounted = _component()
    seen = seen_in(key)
    if seen.moment is None and node_in_address() and shown.show is None:
        shown.reveal({"id": node_in_address()})

    weak = weakref.ref(shown)  # Streamlit keeps the callbacks of every widget that a session ever had

    def on_event(event: str) -> Callable[[], None]:
        def act() -> None:
            wish, view = st.session_state[key].get(event), weak()
            if wish and view is not None:
                getattr(view, event)(wish)

        return act

    callbacks: dict[str, Callable[[], None]] = {f"on_{event}_change": on_event(event) for event in _EVENTS}
    mounted(
        key=key,
        data=shown.data(seen, growing(height)),
        on_seen_change=lambda: None,
        **callbacks,
    )
    if follow is None:
        return
    followed = f"{key}_followed"
    if st.session_state.setdefault(followed, follow(seen)) != follow(seen):
        st.session_state[followed] = follow(seen)
        st.rerun()


def seen_in(key: str) -> Seen:
    """What is on screen in the view of that key, as last reported by the browser."""
    state = (st.session_state.get(key) or {}).get("seen")
    if not state:
        return Seen()
    rewrite = state["rewrite"]
    return Seen(str(state["id"]), (int(state["step"]), None if rewrite is None else int(rewrite)))


def _component() -> Any:
    """The component, with its modules bundled so that the browser sends one request instead of 36.

    Streamlit finds a component's files in the manifests of installed packages. The workbench also runs without
    being installed, so it registers a manifest itself.
    """
    manager = get_bidi_component_manager()
    if manager.get_component_asset_root(_NAME) is None:
        package, _, name = _NAME.partition(".")
        config = ComponentConfig(name, "component")
        manager.register_from_manifest(ComponentManifest(package, "1", [config]), Path(_joined().name))
    return component(_NAME, js="index.js", css="style.css")


@functools.cache
def _joined() -> tempfile.TemporaryDirectory[str]:
    """A folder with the component's modules in one file; it is deleted when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="workbench-component-")
    place = Path(folder.name) / "component"
    place.mkdir()
    script = f"{bundle('index.js')}\nexport {{ mount as default }};\n"
    (place / "index.js").write_text(script, encoding="utf-8")
    shutil.copy(COMPONENT / "style.css", place)
    return folder
