"""The passes of the sidebar of Optimize: preset, switches, order and options."""

from __future__ import annotations

import dataclasses
import itertools
import typing
from collections.abc import Sequence
from typing import Any, cast

import streamlit as st

from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.pass_groups import group_of, is_about, is_foreign, is_found
from workbench.interfaces.ui.state.rows import CLOSE, OPEN, name_of, to_rows
from workbench.interfaces.ui.widgets.parts import show_error
from workbench.pipeline.pipeline import LAYOUT
from workbench.pipeline.registry.pass_choice import DEFAULT_PRESET, FIX
from workbench.pipeline.registry.pass_registry import library
from workbench.pipeline.registry.reading import preset
from workbench.pipeline.repeat import Repeat
from workbench.rewrite import Pass

PASS_ORDER, PASS_ROUNDS, CHOSEN_PRESET = "pass_order", "pass_rounds", "preset"  # keys of the session's state
NO_STRATEGY = "none"


def pass_list(strategy: str, drawn: Sequence[str] = ()) -> None:
    """Draw the preset and the passes with their switches and options.

    drawn: options, as "pass.option", whose fields stand elsewhere on the page (`draw_option`).
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
    active = _active_rows()
    rows = [(index, key, usable.get(name_of(key))) for index, key in enumerate(order)]
    places = [index for index, key in enumerate(order) if key in active]
    with st.container():  # so that what is below is not mounted again, and closed, when a row more is drawn
        for earlier, index, later in zip([None, *places], places, [*places[1:], None], strict=False):
            _row(order, earlier, index, later, strategy)
    others = sorted((group_of(cls), index, key) for index, key, cls in rows if cls is not None and key not in active)
    folded = st.expander(f"Other passes ({len(others)})", key="other_passes", on_change="rerun")
    if folded.open:
        with folded:
            for group, members in itertools.groupby(others, key=lambda row: row[0]):
                st.caption(markdown_escaped(group))
                for _, _, key in members:
                    _switch(st, key)
    options = st.expander("Options", key="pass_options", on_change="rerun")
    if options.open:
        with options:
            for cls, key in ((cls, key) for key, cls in _with_classes(active, strategy)):
                for option in cls.option_fields():
                    if f"{key}.{option}" not in drawn:
                        draw_option(f"{key}.{option}", f"{key}.{option}")
    st.button("Back to the preset", key="reset_passes", width="stretch", on_click=_back_to_preset, args=(order,))
    for name, fault in library.broken().items():
        show_error(f"Pass '{name}' cannot be used: {fault}")


def search_field() -> str:
    """Draw the field in which passes are sought; returns its words."""
    return st.text_input("Find a pass", key="find_pass", placeholder="float16, batch norm, transpose, ...")


def found_passes(words: str) -> None:
    """Draw the switches of the passes that the words find, each with what it does: those of the list, then of ours."""
    usable, active = library.all_passes(), set(_active_rows())
    found = [(key, usable[name_of(key)]) for key in pass_order() if name_of(key) in usable]
    found = [(key, cls) for key, cls in found if is_found(cls, words)]
    if not found:
        st.caption("No pass has these words in its title, name, purpose or options.")
    for key, cls in sorted(
        found, key=lambda one: (one[0] not in active, is_foreign(one[1]), not is_about(one[1], words))
    ):
        _switch(st, key)
        st.caption(markdown_escaped(cls.summary().partition(". ")[0]))


def chosen_options(strategy: str) -> dict[str, dict[str, Any]]:
    """The options of the passes of the list and of the layout strategy, by the key of the row and by name."""
    rows = _with_classes(_active_rows(), strategy)
    return {
        key: {name: st.session_state.get(f"option_{key}.{name}", _start(field)) for name, field in fields.items()}
        for key, fields in ((key, cls.option_fields()) for key, cls in rows)
    }


def draw_option(name: str, label: str) -> None:
    """Draw the field of an option. name: "row.option"."""
    key, _, option = name.rpartition(".")
    cls = library.find_pass(name_of(key))
    field = cls.option_fields()[option]
    unit, kind = field.metadata.get("unit"), typing.get_type_hints(cls)[field.name]
    label = f"{label} ({unit})" if unit else label
    arguments: Any = {
        "help": markdown_escaped(field.metadata.get("help", "")),
        "key": f"option_{name}",
        "persist_state": "session",
    }
    choices, start = field.metadata.get("choices"), cast(Any, _start(field))
    if kind is bool:
        st.checkbox(label, value=start, **arguments)
    elif choices:
        st.selectbox(label, choices, index=choices.index(start), **arguments)
    elif kind in (int, float):
        bounds: Any = {"min_value": field.metadata.get("least"), "format": "%g" if kind is float else None}
        st.number_input(label, value=start, **bounds, **arguments)
    else:
        st.text_input(label, value=start, **arguments)


def _start(field: dataclasses.Field[Any]) -> object:
    """The value of an option's field at first: its default, as text if it is neither a number nor a choice."""
    is_text = not isinstance(field.default, bool | int | float) and not field.metadata.get("choices")
    return str(field.default) if is_text else field.default


def _active_rows() -> list[str]:
    """The rows of the list, in order: those of the preset, groups of passes, and what is switched on besides."""
    order, usable = pass_order(), library.all_passes()
    from_preset = to_rows(preset(chosen_preset())).keys
    return [
        key for key in order if key in from_preset or name_of(key) not in usable or st.session_state.get(f"on_{key}")
    ]


def chosen_preset() -> str:
    """The preset whose passes the list started from."""
    result: str = st.session_state.get(CHOSEN_PRESET, DEFAULT_PRESET)
    return result


def switch_on(name: str) -> None:
    """Switch the pass on."""
    pass_order()
    st.session_state[f"on_{name}"] = True


def switches() -> list[tuple[str, str, bool]]:
    """The rows that can be switched: of each its key, its title, and whether it is on."""
    rows = [key for key in pass_order() if name_of(key) not in (LAYOUT, OPEN)]
    return [(key, _class_of(key).title, is_on(key)) for key in rows]


def switch_over(key: str) -> None:
    """Switch the row on if it is off, and off if it is on."""
    st.session_state[f"on_{key}"] = not is_on(key)


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
                st.session_state[widget] = _start(field)
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
    cls = _class_of(key)
    if f"on_{key}" not in st.session_state:
        st.session_state[f"on_{key}"] = True
    place.checkbox(cls.title, key=f"on_{key}", help=markdown_escaped(cls.summary()), persist_state="session")


def _class_of(key: str) -> type[Pass]:
    return Repeat if name_of(key) == CLOSE else library.find_pass(name_of(key))


def _mover(column: Any, key: str, icon: str, about: str, order: list[str], place: int, to: int | None) -> None:
    arguments: Any = {"disabled": to is None, "on_click": _move, "args": (order, place, to)}
    column.button("", icon=icon, key=key, help=about, type="tertiary", **arguments)


def _move(order: list[str], place: int, to: int) -> None:
    order.insert(to, order.pop(place))
