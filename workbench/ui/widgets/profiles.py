"""Target profiles in the app: choosing one, and making, changing and deleting the user's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import streamlit as st

from workbench.api import DEFAULT_TARGET
from workbench.layout.profile import (
    LAYOUTS,
    WEIGHTS,
    Profile,
    ProfileError,
    built_in_names,
    delete_profile,
    demandable_operators,
    own_folder,
    profiles,
    save_profile,
)
from workbench.ops.blocked import BLOCKED_LAYOUTS, block_of
from workbench.ops.permuted_blocks import may_be_blocked
from workbench.ui.state.address import target_in_address
from workbench.ui.state.markdown import markdown_escaped
from workbench.ui.widgets.parts import show_error

_CHOSEN = "target"  # the chosen profile's name, in the session
_NEXT = "next_target"  # a name to choose when the page runs again
_ORDERS = {
    "NCHW": "NCHW, channels first",
    "NHWC": "NHWC, channels last",
    **{layout: f"{layout}, blocks of {block_of(layout)} channels" for layout in BLOCKED_LAYOUTS},
}


def choose_profile(place: Any, edit: Any, words: Callable[[Profile], str]) -> Profile:
    """Draw the field for the profile in `place` and the button of the editor in `edit`; returns the chosen profile."""
    result, faults = profiles()
    names = list(result)
    wanted = st.session_state.pop(_NEXT, st.session_state.get(_CHOSEN, target_in_address()))
    st.session_state[_CHOSEN] = wanted if wanted in names else DEFAULT_TARGET
    name = place.selectbox(
        "Profile",
        names,
        help="The hardware: which layout it requires of which operators.",
        key=_CHOSEN,
        format_func=lambda name: words(result[name]),
        persist_state="session",
    )
    if edit.button("Edit profiles", key="edit_profiles", type="tertiary", icon=":material/edit:"):
        _editor(name)
    for fault in faults.values():
        show_error(fault)
    return result[name]


@st.dialog("Profiles", width="large")
def _editor(chosen: str) -> None:
    result, faults = profiles()
    left, right = st.columns(2)
    names = list(result)
    start = left.selectbox("Start from", names, index=names.index(chosen), key="profile_start", format_func=_origin)
    own = start not in built_in_names()
    name = right.text_input("Name", start if own else f"my-{start}", key=f"profile_name_{start}", max_chars=40)
    with st.form(f"profile_form_{start}", border=False):
        profile, twice = _fields(result[start], name.strip())
        save, delete, where = st.columns([1, 1, 4], vertical_alignment="center")
        saved = save.form_submit_button("Save", type="primary", width="stretch")
        deleted = delete.form_submit_button("Delete", width="stretch", disabled=not own)
        where.caption(markdown_escaped(f"Your profiles are files in {own_folder()}; the command line reads them too."))
    try:
        if saved:
            if name != start and name in (*result, *faults) and name not in built_in_names():
                raise ProfileError(f"there is a profile '{name}'; start from it to change it, or give another name")
            if twice:
                raise ProfileError(f"'{min(twice)}' is in two lists of operators; remove it from one")
            save_profile(profile)
        if deleted:
            delete_profile(start)
    except ProfileError as error:
        show_error(error)
        return
    if saved or deleted:
        st.session_state[_NEXT] = profile.name if saved else chosen
        st.rerun()


def _origin(name: str) -> str:
    return f"{name} (built-in)" if name in built_in_names() else name


def _fields(start: Profile, name: str) -> tuple[Profile, set[str]]:
    """Draw the form's fields, filled from `start`; returns the edited profile and the operators in two lists."""
    key = f"profile_{{}}_{start.name}".format
    title = st.text_input("Title", start.title, key=key("title"))
    left, right = st.columns(2)
    layout = left.selectbox(
        "Layout",
        LAYOUTS,
        LAYOUTS.index(start.layout),
        key=key("layout"),
        format_func=_ORDERS.__getitem__,
        help="Operators that demand no layout run in this one if their operands have it.",
    )
    weights = right.selectbox(
        "Weights of convolutions",
        WEIGHTS,
        WEIGHTS.index(start.weights_for("Conv")),
        key=key("weights"),
        help="Also the order of the kernel in a demand [data, kernel].",
    )
    lists = {}
    for order in ("NHWC", "NCHW", *BLOCKED_LAYOUTS):
        able = [op for op in demandable_operators() if order not in BLOCKED_LAYOUTS or may_be_blocked(op)]
        before = [op for op, wanted in start.required_layouts.items() if wanted == order]
        lists[order] = st.multiselect(f"Operators that demand {order}", able, before, key=key(order), select_all=False)
    demands = {op: order for order, chosen in lists.items() for op in chosen}
    stated = Counter(op for chosen in lists.values() for op in chosen)
    paired = [op for op in start.kernels if demands.get(op) == start.required_layouts[op]]
    kernels = {op: weights if demands[op].endswith("C") else start.kernels[op] for op in paired}
    edited = Profile(name, title.strip(), layout, weights, demands, kernels=kernels)
    return edited, {op for op, count in stated.items() if count > 1}
