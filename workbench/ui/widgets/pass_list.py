"""The passes of the sidebar of Optimize: preset, switches, order and options."""

from __future__ import annotations

import itertools
import typing
from collections.abc import Mapping
from typing import Any, cast

import streamlit as st

from workbench.pipeline.pipeline import LAYOUT
from workbench.pipeline.repeat import Repeat
from workbench.registry.pass_choice import DEFAULT_PRESET, FIX
from workbench.registry.pass_registry import library
from workbench.registry.reading import preset
from workbench.rewrite import Pass
from workbench.ui.state.markdown import markdown_escaped
from workbench.ui.state.pass_groups import group_of, is_found
from workbench.ui.state.rows import CLOSE, OPEN, name_of, to_rows
from workbench.ui.widgets.parts import show_error

PASS_ORDER, PASS_ROUNDS, CHOSEN_PRESET = "pass_order", "pass_rounds", "preset"  # keys of the session's state
NO_STRATEGY = "none"


def pass_list(strategy: str, ahead: Mapping[str, tuple[Any, str]]) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Draw the preset and the passes with their switches and options; returns the rows' keys and options by key.

    ahead: options, as "pass.option", whose fields are drawn in these places with these labels, not among the options.
    """
    st.selectbox(
        "Passes, in order",
        [name for name, entry in library.presets().items() if "alias" not in entry],
        key=CHOSEN_PRESET,
        persist_state="session",
        on_change=reset_passes,
        help="A preset chooses the passes and their order; you can change both below.",
    )
    order, usable = pass_order(), library.all_passes()
    from_preset = to_rows(preset(chosen_preset())).keys
    active = [
        key for key in order if key in from_preset or name_of(key) not in usable or st.session_state.get(f"on_{key}")
    ]
    words = st.text_input("Find a pass", key="find_pass", placeholder="by title, name or purpose")
    rows = [(index, key, usable.get(name_of(key))) for index, key in enumerate(order)]
    rows = [row for row in rows if not words or (row[2] is not None and is_found(row[2], words))]
    found, places = {key for _, key, _ in rows}, [index for index, key in enumerate(order) if key in active]
    with st.container():  # so that what is below is not mounted again, and closed, when a row more is drawn
        for earlier, index, later in zip([None, *places], places, [*places[1:], None], strict=False):
            if order[index] in found:
                _row(order, earlier, index, later, strategy)
    others = sorted((group_of(cls), index, key) for index, key, cls in rows if cls is not None and key not in active)
    with st.expander(f"Other passes ({len(others)})", expanded=bool(words)):
        for group, members in itertools.groupby(others, key=lambda row: row[0]):
            st.caption(markdown_escaped(group))
            for _, _, key in members:
                _switch(st, key)
    with st.expander("Options"):
        options = {key: _options(cls, key, ahead) for key, cls in _with_classes(active, strategy)}
    st.button("Back to the preset", key="reset_passes", width="stretch", on_click=_back_to_preset, args=(order,))
    for name, fault in library.broken().items():
        show_error(f"Pass '{name}' cannot be used: {fault}")
    return order, options


def chosen_preset() -> str:
    """The preset whose passes the list started from."""
    result: str = st.session_state.get(CHOSEN_PRESET, DEFAULT_PRESET)
    return result


def switch_on(name: str) -> None:
    """Switch the pass on."""
    pass_order()
    st.session_state[f"on_{name}"] = True


def is_on(key: str) -> bool:
    """Whether the pass, or the fixpoint, of that row is switched on."""
    return bool(st.session_state.get(f"on_{key}", True))


def added_passes() -> list[str] | None:
    """The passes that are on behind those of the preset; None if these differ from the preset's, or their order."""
    on = [key for key in pass_order() if is_on(key) and name_of(key) != LAYOUT]
    own = [key for key in to_rows(preset(chosen_preset())).keys if name_of(key) != LAYOUT]
    return on[len(own) :] if on[: len(own)] == own else None


def reset_passes() -> None:
    """Reset the passes to those of the preset."""
    for key in [k for k in st.session_state if k == PASS_ORDER or str(k).startswith("on_")]:
        del st.session_state[key]


def _back_to_preset(order: list[str]) -> None:
    """Reset the passes, and the options of all of them to their defaults."""
    usable = library.all_passes()
    for key in filter(lambda key: name_of(key) in usable, order):
        for option, field in usable[name_of(key)].option_fields().items():
            widget = f"option_{key}.{option}"
            if widget in st.session_state:
                is_text = not isinstance(field.default, bool | int | float)
                st.session_state[widget] = str(field.default) if is_text else field.default
    reset_passes()


def pass_order() -> list[str]:
    """The keys of the rows in the user's order; passes that are not in the preset come last and are off."""
    if PASS_ORDER not in st.session_state:
        rows = to_rows(preset(chosen_preset()))
        layouts = set(library.strategies().values())
        rest = [name for name, cls in library.all_passes().items() if cls not in layouts and name not in rows.keys]
        st.session_state[PASS_ORDER] = [*(n for n in rest if n == FIX), *rows.keys, *(n for n in rest if n != FIX)]
        st.session_state[PASS_ROUNDS] = rows.rounds
        for name in rest:
            st.session_state[f"on_{name}"] = False
    result: list[str] = st.session_state[PASS_ORDER]
    _follow_files(result)
    return result


def _follow_files(order: list[str]) -> None:
    """Add rows for the user's passes that are new, switched off, and remove those of passes that are gone or broken."""
    usable = library.all_passes()
    order[:] = [key for key in order if name_of(key) in usable or name_of(key) in (LAYOUT, OPEN, CLOSE)]
    layouts, present = set(library.strategies().values()), {name_of(key) for key in order}
    for name, cls in usable.items():
        if name not in present and cls not in layouts:
            order.append(name)
            st.session_state[f"on_{name}"] = False


def _with_classes(order: list[str], strategy: str) -> list[tuple[str, type[Pass]]]:
    """The rows that are passes, as key and class, and the chosen strategy with its pass's name as key."""
    rows = [(key, library.find_pass(name_of(key))) for key in order if name_of(key) not in (LAYOUT, OPEN, CLOSE)]
    if strategy == NO_STRATEGY:
        return rows
    return [*rows, (library.find_strategy(strategy)().name, library.find_strategy(strategy))]


def _row(order: list[str], earlier: int | None, index: int, later: int | None, strategy: str) -> None:
    """Draw a row. earlier, later: the places of the rows before and after it; passes between them are off."""
    toggle, up, down = st.columns([8, 1, 1], gap="small", vertical_alignment="center")
    key = order[index]
    name = name_of(key)
    if name == LAYOUT:
        what = "layout is left as it is" if strategy == NO_STRATEGY else f"layout: {markdown_escaped(strategy)}"
        toggle.markdown(f"*{what}*")
    elif name == OPEN:
        toggle.markdown("*repeated from here*")
    else:
        _switch(toggle, key)
    _mover(up, f"up_{key}", ":material/arrow_upward:", "Earlier", order, index, earlier)
    _mover(down, f"down_{key}", ":material/arrow_downward:", "Later", order, index, later)


def _switch(place: Any, key: str) -> None:
    name = name_of(key)
    cls = Repeat if name == CLOSE else library.find_pass(name)
    if f"on_{key}" not in st.session_state:
        st.session_state[f"on_{key}"] = True
    place.checkbox(cls.title, key=f"on_{key}", help=markdown_escaped(cls.summary()), persist_state="session")


def _mover(column: Any, key: str, icon: str, about: str, order: list[str], place: int, to: int | None) -> None:
    arguments: Any = {"disabled": to is None, "on_click": _move, "args": (order, place, to)}
    column.button("", icon=icon, key=key, help=about, type="tertiary", **arguments)


def _move(order: list[str], place: int, to: int) -> None:
    order.insert(to, order.pop(place))


def _options(cls: type[Pass], key: str, ahead: Mapping[str, tuple[Any, str]]) -> dict[str, Any]:
    """Draw a field for each option of the pass of a row; returns the values by option. ahead: as in `pass_list`."""
    if not cls.option_fields():  # most passes; reading the types is the slowest part of this function
        return {}
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for option, field in cls.option_fields().items():
        name, default = f"{key}.{option}", field.default
        unit = field.metadata.get("unit")
        place, label = ahead.get(name, (st, f"{name} ({unit})" if unit else name))
        arguments: Any = {
            "help": markdown_escaped(field.metadata.get("help", "")),
            "key": f"option_{name}",
            "persist_state": "session",
        }
        choices = field.metadata.get("choices")
        if hints[field.name] is bool:
            values[option] = place.checkbox(label, value=bool(default), **arguments)
        elif choices:
            values[option] = place.selectbox(label, choices, index=choices.index(default), **arguments)
        elif (kind := hints[field.name]) in (int, float):
            bounds: Any = {"min_value": field.metadata.get("least"), "format": "%g" if kind is float else None}
            values[option] = place.number_input(label, value=cast(Any, default), **bounds, **arguments)
        else:
            values[option] = place.text_input(label, value=str(default), **arguments)
    return values
