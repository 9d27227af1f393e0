"""The graph view on a page: the component of `workbench/presentation/view/component`, and its requests to Python.

The browser handles pan, zoom and stepping. It sends requests for what only Python knows: a click asks for the
inspector's content; opening a group and showing constants ask for a newly laid out scene; a search asks for its hits.
Each request reruns the fragment around the component, not the page.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from workbench.interfaces.ui.state.address import node_in_address
from workbench.interfaces.ui.state.shown_view import Seen, Shown, seen_in
from workbench.interfaces.ui.widgets.bundled_component import bundled_component
from workbench.interfaces.ui.widgets.parts import growing

_EVENTS = (  # requests of the browser, each a method of `Shown`
    "set_open",  # open or close a group
    "find",  # search by a query
    "reveal",  # open the groups around a node, and select it
    "step_into",  # open the groups around the nodes of a rewrite
    "constants",  # show or hide constants
    "flat",  # show the graph with or without groups
    "numbers",  # read a file of the user's own numbers for nodes
    "providers",  # ask ONNX Runtime which execution provider runs each node
)


Follow = Callable[[Seen], Hashable]
_SWITCH, _ACT = "switch", "act"  # requests of the browser that the page handles


@dataclass(frozen=True)
class PageActions:
    """What a view can ask of its page.

    switches: passes that the command palette offers: key, title, whether it is on. switch: turns one on or off.
    of_selection: what the inspector offers to do with the selected box, by label; called with its id.
    """

    switches: Sequence[tuple[str, str, bool]] = ()
    switch: Callable[[str], None] = lambda _: None
    of_selection: Mapping[str, Callable[[str], None]] = field(default_factory=dict)


def selection(seen: Seen) -> Hashable:
    """A value for `follow`, so that the page is drawn again when another node is selected."""
    return seen.id


def moment(seen: Seen) -> Hashable:
    """A value for `follow`, so that the page is drawn again when another step or rewrite is shown."""
    return seen.moment


@st.fragment
def graph_view(
    key: str,
    shown: Shown,
    height: int,
    follow: Follow | None = None,
    replaced_by: str = "",
    with_computed: bool = False,
    actions: PageActions | None = None,
) -> None:
    """Draw the view.

    height: in pixels at a screen height of 768 pixels, more on a higher screen.
    follow: a function of what is on screen; the page is drawn again when its value changes. None: never.
    replaced_by: the key of a control that draws something else in its place; what is on screen is reported before.
    with_computed: whether the graph is coloured by the numbers that the page computed (`Shown.show_numbers`).
    """
    mounted, actions, asked = bundled_component("graph", "index.js", "mount"), actions or PageActions(), f"{key}_asked"
    seen = seen_in(key)
    if seen.moment is None and node_in_address() and shown.show is None:
        shown.reveal({"id": node_in_address()})

    weak = weakref.ref(shown)  # Streamlit keeps the callbacks of every widget that a session ever had

    def on_event(event: str) -> Callable[[], None]:
        def act() -> None:
            request, view = st.session_state[key].get(event), weak()
            if request and view is not None:
                getattr(view, event)(request)

        return act

    def on_switch() -> None:  # here, since the page may have drawn the switch when the view's own code runs
        request = st.session_state[key].get(_SWITCH)
        if request:
            actions.switch(str(request["key"]))
            st.session_state[asked] = _SWITCH, request

    def on_act() -> None:
        request = st.session_state[key].get(_ACT)
        if request:
            st.session_state[asked] = _ACT, request

    callbacks: dict[str, Callable[[], None]] = {f"on_{event}_change": on_event(event) for event in _EVENTS}
    data = shown.data(seen, growing(height), with_computed)
    mounted(
        key=key,
        data={
            **data,
            "replaced_by": replaced_by,
            "switches": actions.switches,
            "actions": list(actions.of_selection),
        },
        on_seen_change=lambda: None,
        **callbacks,
        on_switch_change=on_switch,
        on_act_change=on_act,
    )
    _answer(actions, *st.session_state.pop(asked, ("", {})))
    if follow is None:
        return
    followed = f"{key}_followed"
    if st.session_state.setdefault(followed, follow(seen)) != follow(seen):
        st.session_state[followed] = follow(seen)
        st.rerun()


def _answer(actions: PageActions, event: str, request: Mapping[str, Any]) -> None:
    """Draw the page again after a switch, or do with the selected box what the browser asked."""
    if event == _SWITCH:
        st.rerun()
    if event == _ACT and request["label"] in actions.of_selection:
        actions.of_selection[request["label"]](str(request["id"]))
