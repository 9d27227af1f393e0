"""The graph view on a page: the component of `workbench/view/component`, and what it asks of Python.

Pan, zoom and stepping stay in the browser. A click asks for the inspector's text;
opening a box, constants and search ask for another scene or its hits. Each runs
the fragment round the component, not the page.
"""

from __future__ import annotations

import functools
import itertools
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.components.v2 import component
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest

from workbench.rewrite import History
from workbench.ui.state.address import Moment, node_in_address
from workbench.ui.widgets.parts import growing
from workbench.view.finding import find
from workbench.view.report import COMPONENT, bundle
from workbench.view.scene import View, packed, steps_of
from workbench.view.timeline import take_verdicts

_NAME = "graph_workbench.graph"
_EVENTS = ("toggle", "find", "reveal", "constants", "flat")
_NUMBERS = itertools.count(1)  # of what is asked of the browser: it does each once


@dataclass(frozen=True)
class Seen:
    """What is looked at: the selected box, "" for none, and the moment, where the browser has told it."""

    id: str = ""
    moment: Moment | None = None


Inspect = Callable[[Seen], Mapping[str, Any]]


@dataclass
class Shown:
    """A view on a page, and what was last asked of it; numbers tell the browser what is new to it."""

    view: View
    inspect: Inspect
    at: dict[str, int | None] = field(default_factory=dict)
    found: dict[str, Any] | None = None
    show: dict[str, Any] | None = None
    packed: tuple[str, str] | None = None
    scene: dict[str, Any] = field(default_factory=dict)

    def tell_verdicts(self, history: History) -> None:
        """Let the browser have the verdicts that came since; nothing is placed anew for that."""
        if take_verdicts(self.view.timeline, history) and self.packed is not None:
            self.scene["steps"] = steps_of(self.view.timeline)
            self.packed = packed(self.scene)

    def go_to(self, step: int, rewrite: int | None) -> None:
        """Ask the browser to show the step after so many rewrites, None: as a whole."""
        self.at = {"step": step, "rewrite": rewrite, "n": next(_NUMBERS)}

    def toggle(self, wish: Mapping[str, Any]) -> None:
        self.view.toggle(str(wish["id"]), bool(wish.get("all")))
        self.packed = None

    def find(self, wish: Mapping[str, Any]) -> None:
        hits, total = find(self.view.timeline, str(wish["query"]))
        self.found = {"query": wish["query"], "hits": hits, "total": total, "n": next(_NUMBERS)}

    def reveal(self, wish: Mapping[str, Any]) -> None:
        self.view.reveal(str(wish["id"]))
        self.show = {"id": wish["id"], "n": next(_NUMBERS)}
        self.packed = None

    def constants(self, wish: Mapping[str, Any]) -> None:
        self.view.constants = bool(wish["on"])
        self.packed = None

    def flat(self, wish: Mapping[str, Any]) -> None:
        self.view.is_flat = bool(wish["on"])
        self.packed = None

    def data(self, seen: Seen, height: str) -> dict[str, Any]:
        """What the component is given."""
        if self.packed is None:
            self.scene = self.view.scene()
            self.packed = packed(self.scene)
        scene, number = self.packed
        return {
            "scene": scene,
            "scene_id": number,
            "at": self.at or None,
            "found": self.found,
            "show": self.show,
            "inspector": dict(self.inspect(seen)) if seen.id else None,
            "height": height,
            "constants": self.view.constants,
            "flat": self.view.is_flat,
        }


@st.fragment
def graph_view(key: str, shown: Shown, height: int) -> None:
    """The view; `height` in pixels on a screen of 768, more on a higher one."""
    mounted = _component()
    seen = seen_in(key)
    if seen.moment is None and node_in_address() and shown.show is None:
        shown.reveal({"id": node_in_address()})

    def heard(event: str) -> Callable[[], None]:
        def act() -> None:
            wish = st.session_state[key].get(event)
            if wish:
                getattr(shown, event)(wish)

        return act

    callbacks: dict[str, Callable[[], None]] = {f"on_{event}_change": heard(event) for event in _EVENTS}
    mounted(
        key=key,
        data=shown.data(seen, growing(height)),
        on_seen_change=lambda: None,
        **callbacks,
    )


def seen_in(key: str) -> Seen:
    """What is looked at in the view of that key, as far as the browser has told it."""
    state = (st.session_state.get(key) or {}).get("seen")
    if not state:
        return Seen()
    rewrite = state["rewrite"]
    return Seen(str(state["id"]), (int(state["step"]), None if rewrite is None else int(rewrite)))


def _component() -> Any:
    """The component, its modules joined: one request to a server that is busy making the page, and not 36.

    Streamlit finds a component's files in the manifests of installed packages. The workbench runs from where it
    lies, without being installed, so it hands in a manifest itself.
    """
    manager = get_bidi_component_manager()
    if manager.get_component_asset_root(_NAME) is None:
        package, _, name = _NAME.partition(".")
        config = ComponentConfig(name, "component")
        manager.register_from_manifest(ComponentManifest(package, "1", [config]), Path(_joined().name))
    return component(_NAME, js="index.js", css="style.css")


@functools.cache
def _joined() -> tempfile.TemporaryDirectory[str]:
    """A folder with the component's modules as one; it goes with the process."""
    folder = tempfile.TemporaryDirectory(prefix="workbench-component-")
    place = Path(folder.name) / "component"
    place.mkdir()
    script = f"{bundle('index.js')}\nexport {{ mount as default }};\n"
    (place / "index.js").write_text(script, encoding="utf-8")
    shutil.copy(COMPONENT / "style.css", place)
    return folder
