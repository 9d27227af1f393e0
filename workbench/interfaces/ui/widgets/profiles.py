"""Target profiles in the app: the choice of one, and the editor of the user's profiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import streamlit as st

from workbench.interfaces.ui.state.address import target_in_address
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.widgets.parts import show_error
from workbench.ops.blocked import BLOCKED_LAYOUTS, block_of
from workbench.ops.permuted_blocks import may_be_blocked
from workbench.planning.layout.profile import (
    LAYOUTS,
    WEIGHTS,
    Profile,
    ProfileError,
    built_in_names,
    delete_profile,
    demandable_operators,
    machine_target,
    profiles,
    save_profile,
    user_folder,
)

_CHOSEN = "target"  # key in the session: the chosen profile's name
_NEXT = "next_target"  # key in the session: a name to choose in the next run of the page
_ORDERS = {
    "NCHW": "NCHW, channels first",
    "NHWC": "NHWC, channels last",
    **{layout: f"{layout}, blocks of {block_of(layout)} channels" for layout in BLOCKED_LAYOUTS},
}


def chosen_profile() -> Profile:
    """The chosen profile: first that of the link, else the one of this machine."""
    result, _ = profiles()
    chosen = st.session_state.pop(_NEXT, st.session_state.get(_CHOSEN, target_in_address()))
    if chosen not in result:
        chosen = machine_target()
    if st.session_state.get(_CHOSEN) != chosen:
        st.session_state[_CHOSEN] = chosen
    return result[chosen]


def choose_profile(column: Any, edit: Any, label: Callable[[Profile], str]) -> Profile:
    """Draw the field for the profile in `column` and the editor's button in `edit`; returns the chosen profile.

    label: the label of a profile in the field.
    """
    chosen_profile()
    result, faults = profiles()
    names = list(result)
    name = column.selectbox(
        "Target",
        names,
        help="The hardware: which layout it requires of which operators. It need not be here: the graph is made for it "
        "and verified. The default is this machine.",
        key=_CHOSEN,
        format_func=lambda name: label(result[name]),
        persist_state="session",
    )
    if edit.button("Edit targets", key="edit_profiles", type="tertiary", icon=":material/edit:"):
        _editor(name)
    for fault in faults.values():
        show_error(fault)
    return result[name]


def about_profile(profile: Profile) -> str:
    """The title of a profile, and whether it is this machine's, as Markdown."""
    where = "this machine" if profile.name == machine_target() else "need not be here"
    return markdown_escaped(f"{profile.title} ({where})")


@st.dialog("Targets", width="large")
def _editor(chosen: str) -> None:
    result, faults = profiles()
    left, right = st.columns(2)
    names = list(result)
    start = left.selectbox("Start from", names, index=names.index(chosen), key="profile_start", format_func=_origin)
    is_own = start not in built_in_names()
    name = right.text_input("Name", start if is_own else f"my-{start}", key=f"profile_name_{start}", max_chars=40)
    with st.form(f"profile_form_{start}", border=False):
        profile, repeated = _fields(result[start], name.strip())
        save, delete, where = st.columns([1, 1, 4], vertical_alignment="center")
        saved = save.form_submit_button("Save", type="primary", width="stretch")
        deleted = delete.form_submit_button("Delete", width="stretch", disabled=not is_own)
        where.caption(markdown_escaped(f"Your profiles are files in {user_folder()}; the command line reads them too."))
    try:
        if saved:
            if name != start and name in (*result, *faults) and name not in built_in_names():
                raise ProfileError(
                    f"there is already a profile '{name}'; start from it to change it, or enter another name"
                )
            if repeated:
                raise ProfileError(f"'{min(repeated)}' is in two lists of operators; remove it from one")
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
    """Draw the form's fields, filled from `start`; returns the profile, and operators that are in two lists."""
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
        operators = [op for op in demandable_operators() if order not in BLOCKED_LAYOUTS or may_be_blocked(op)]
        selected = [op for op, required in start.required_layouts.items() if required == order]
        lists[order] = st.multiselect(
            f"Operators that demand {order}", operators, selected, key=key(order), select_all=False
        )
    demands = {op: order for order, chosen in lists.items() for op in chosen}
    counts = Counter(op for chosen in lists.values() for op in chosen)
    with_kernel = [op for op in start.kernels if demands.get(op) == start.required_layouts[op]]
    kernels = {op: weights if demands[op].endswith("C") else start.kernels[op] for op in with_kernel}
    edited = Profile(name, title.strip(), layout, weights, demands, kernels=kernels)
    return edited, {op for op, count in counts.items() if count > 1}
