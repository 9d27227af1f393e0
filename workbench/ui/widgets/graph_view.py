"""The graph view on a page: the component of `workbench/view/component`, and the requests that it sends to Python.

Pan, zoom and stepping are handled in the browser. A click requests the inspector's
text; opening a box or showing constants requests a new scene, a search its hits.
Each request reruns the fragment around the component, not the page.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
import weakref
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.components.v2 import component
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest

from workbench.ui.state.address import node_in_address
from workbench.ui.state.shown_view import Seen, Shown, seen_in
from workbench.ui.widgets.parts import growing
from workbench.view.report import COMPONENT, bundle

_NAME = "graph_workbench.graph"
_EVENTS = ("set_open", "find", "reveal", "step_into", "constants", "flat", "numbers")


Follow = Callable[[Seen], Hashable]


def selection(seen: Seen) -> Hashable:
    """What a page follows that shows more of the selected node."""
    return seen.id


def moment(seen: Seen) -> Hashable:
    """What a page follows that tells the moment too."""
    return seen.moment


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
