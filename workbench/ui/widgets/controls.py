"""The sidebar of Optimize: profile, layout strategy, mode, preset, passes on and off, their order, their options."""

from __future__ import annotations

import itertools
import typing
from typing import Any, cast

import streamlit as st

from workbench.api import DEFAULT_TARGET
from workbench.errors import UserError
from workbench.pipeline.pipeline import LAYOUT, Pipeline
from workbench.pipeline.repeat import Repeat
from workbench.registry.pass_choice import DEFAULT_PRESET, FIX, as_pipeline, choose, with_pass_options
from workbench.registry.pass_registry import library
from workbench.registry.reading import LEGACY_REPEAT, layout_strategy, preset
from workbench.rewrite import DEFAULT_MODE, Pass
from workbench.ui.state.address import Wished, pipeline_in_address, verification_in_address
from workbench.ui.state.checking import EACH, END, HOW, OFF
from workbench.ui.state.markdown import markdown_escaped
from workbench.ui.state.rows import CLOSE, OPEN, name_of, pipeline_of, to_rows
from workbench.ui.state.session import Opened, Spec, current, opened_if_any
from workbench.ui.widgets.parts import show_error
from workbench.ui.widgets.profiles import choose_profile

_ORDER, _ROUNDS, _PRESET, _NONE = "pass_order", "pass_rounds", "preset", "none"
_MODES = {
    "exact": "Only rewrites whose results are equal to the last bit.",
    "ieee": "Rounding may differ, quantized numbers by one step; NaN, infinities and -0.0 are kept, except where an "
    "intermediate result overflows.",
    "fast": "Also rewrites that may change signed zeros, infinities or NaN, or lose digits.",
}
_VERIFICATION = {EACH: "each step", END: "only the end", OFF: "off"}
_VERIFY = "verification"
_STARTED = "pipeline_of_link_taken"
_WISHED = "pipeline_wished"
_SETTINGS = (_ORDER, _PRESET, "strategy", "mode", "target")


def controls() -> Spec:
    """Draw the controls; returns the pipeline that they are set to."""
    _take_over_link()
    with st.sidebar:
        select, edit = st.container(), st.container()
        profile = choose_profile(select, edit, lambda profile: profile.name)
        select.caption(markdown_escaped(profile.title))
        strategy = st.radio(
            "Layout",
            [_NONE, *library.strategies()],
            key="strategy",
            format_func=_strategy_words,
            persist_state="session",
            help="Decides which values are stored channels-last and where transposes go. Set its position below.",
        )
        mode = _mode()
        st.selectbox(
            "Verification",
            list(_VERIFICATION),
            key=_VERIFY,
            format_func=lambda how: _VERIFICATION[how],
            persist_state="session",
            help="What is compared with ONNX Runtime on the original file. What is exported is compared in any case, "
            "unless verification is off.",
        )
        st.selectbox(
            "Passes, in order",
            list(library.presets()),
            key=_PRESET,
            persist_state="session",
            on_change=_reset,
            help="A preset chooses the passes and their order; you can change both below.",
        )
        order = _order()
        from_preset = to_rows(preset(chosen_preset())).keys
        used = [key for key in order if key in from_preset or st.session_state.get(f"on_{key}")]
        for index, key in enumerate(order):
            if key in used:
                _row(index, key, order, strategy)
        with st.expander(f"Other passes ({len(order) - len(used)})"):
            for index, key in enumerate(order):
                if key not in used:
                    _row(index, key, order, strategy)
        with st.expander("Options"):
            options = {key: _options(cls, key) for key, cls in _with_classes(order, strategy)}
        if st.button("Back to the preset", key="reset_passes", width="stretch"):
            _reset()
            st.rerun()
        for name, fault in library.broken().items():
            show_error(f"Pass '{name}' cannot be used: {fault}")
    layout = None if strategy == _NONE else layout_strategy(strategy, options[library.find_strategy(strategy)().name])
    rounds = st.session_state.get(_ROUNDS, {})
    return Spec(pipeline_of(order, _is_on, options, rounds, layout).with_layout(layout), profile, mode)


def _is_on(key: str) -> bool:
    return bool(st.session_state.get(f"on_{key}", True))


def _with_classes(order: list[str], strategy: str) -> list[tuple[str, type[Pass]]]:
    """The rows that are passes, by their keys, and the chosen strategy by its pass's name."""
    rows = [(key, library.find_pass(name_of(key))) for key in order if name_of(key) not in (LAYOUT, OPEN, CLOSE)]
    if strategy == _NONE:
        return rows
    return [*rows, (library.find_strategy(strategy)().name, library.find_strategy(strategy))]


def _mode() -> str:
    words = " ".join(f"{name}: {about}" for name, about in _MODES.items())
    choice = st.selectbox(
        "Exactness", list(_MODES), 1, key="mode", persist_state="session", help=markdown_escaped(words)
    )
    return str(choice)


def chosen_verification() -> str:
    """Which steps are compared with the original, of HOW."""
    result: str = st.session_state.get(_VERIFY, EACH)
    return result


def chosen_preset() -> str:
    """The preset whose passes the list started from."""
    result: str = st.session_state.get(_PRESET, DEFAULT_PRESET)
    return result


def _reset() -> None:
    """Reset the passes to those of the preset."""
    for key in [k for k in st.session_state if k == _ORDER or str(k).startswith("on_")]:
        del st.session_state[key]


def begin_from_link() -> None:
    """When the controls are drawn next, set them from the link, as in a new session."""
    st.session_state.pop(_STARTED, None)


def begin_from(wished: Wished) -> None:
    """When the controls are drawn next, set them to that pipeline."""
    st.session_state[_WISHED] = wished


def _came_with(opened: Opened) -> bool:
    """Whether the pipeline is still the one that the open model came with, so that it is not the user's own."""
    shows, spec = opened.came_with, opened.spec
    if spec is None or shows is None:
        return False
    mine = spec.pipeline.names, spec.target, spec.mode
    theirs = choose(list(shows.passes)).names
    return mine == (theirs, shows.target or DEFAULT_TARGET, shows.mode or DEFAULT_MODE)


def forget_samples_settings() -> None:
    """Reset the controls if they are as the open sample set them, so that the next model starts as in a new session."""
    opened = opened_if_any()
    if opened is None or not _came_with(opened):
        return
    for key in [k for k in st.session_state if k in _SETTINGS or str(k).startswith(("on_", "option_"))]:
        del st.session_state[key]
    st.session_state[_STARTED] = True


def _take_over_link() -> None:
    """Set passes, options and target to what is wished for, in a new session by its link; what is unknown is told."""
    if not st.session_state.get(_STARTED) and verification_in_address() in HOW:
        st.session_state[_VERIFY] = verification_in_address()
    wished = st.session_state.pop(_WISHED, None)
    if wished is None and not st.session_state.get(_STARTED):
        wished = pipeline_in_address() or _before_the_reload()
    st.session_state[_STARTED] = True
    if wished is None:
        return
    if wished.preset in library.presets():
        st.session_state[_PRESET] = wished.preset
    rows = to_rows(_wished_pipeline(wished))
    st.session_state["strategy"] = _NONE if rows.strategy is None else rows.strategy.strategy
    st.session_state[_ORDER] = _completed(rows.keys, _order())
    st.session_state[_ROUNDS] = rows.rounds
    for key in st.session_state[_ORDER]:
        st.session_state[f"on_{key}"] = key in rows.keys
    st.session_state["target"] = wished.target
    st.session_state["mode"] = wished.mode if wished.mode in _MODES else DEFAULT_MODE
    given = dict(rows.options)
    if rows.strategy is not None:
        given[rows.strategy.name] = rows.strategy.options()
    for key, options in given.items():
        for name, value in options.items():
            st.session_state[f"option_{key}.{name}"] = value


def _wished_pipeline(wished: Wished) -> Pipeline:
    """The pipeline of the link; without the names that do not exist here, if it is a plain list of names."""
    names = [name.strip() for name in wished.pipeline.split(",")]
    known = [n for n in names if n in library.all_names() or n in library.presets() or n in (LEGACY_REPEAT, LAYOUT)]
    text = ",".join(known) if all(map(str.isidentifier, filter(None, names))) else wished.pipeline
    options = dict(pair.partition("=")[::2] for pair in wished.options)
    try:
        pipeline = as_pipeline(text)
        used = {pass_.name for pass_ in pipeline.passes}
        return with_pass_options(pipeline, {k: v for k, v in options.items() if k.partition(".")[0] in used})
    except UserError as error:
        show_error(f"The pipeline of the link is not set: {error}")
        return preset(chosen_preset())


def _before_the_reload() -> Wished | None:
    """The pipeline of a model that this browser had open before it loaded the page again."""
    spec = current().spec
    if spec is None:
        return None
    return Wished(str(spec.pipeline), (), spec.target, spec.mode, DEFAULT_PRESET)


def _completed(order: list[str], every: list[str]) -> list[str]:
    """`order` with the missing names of `every`, each inserted after its predecessor there."""
    result = list(order)
    for before, name in itertools.pairwise(["", *every]):
        if name not in result:
            result.insert(result.index(before) + 1 if before else 0, name)
    return result


def _strategy_words(name: str) -> str:
    if name == _NONE:
        return "leave as it is"
    return f"{name} (demonstration)" if library.strategies()[name].demonstration else name


def _order() -> list[str]:
    """The keys of the rows in the user's order; passes that are not in the preset are last, switched off."""
    if _ORDER not in st.session_state:
        rows = to_rows(preset(chosen_preset()))
        layouts = set(library.strategies().values())
        rest = [name for name, cls in library.all_passes().items() if cls not in layouts and name not in rows.keys]
        st.session_state[_ORDER] = [*(n for n in rest if n == FIX), *rows.keys, *(n for n in rest if n != FIX)]
        st.session_state[_ROUNDS] = rows.rounds
        for name in rest:
            st.session_state[f"on_{name}"] = False
    result: list[str] = st.session_state[_ORDER]
    return result


def switch_on(name: str) -> None:
    """Switch the pass on, in its place in the order."""
    _order()
    st.session_state[f"on_{name}"] = True


def _row(index: int, key: str, order: list[str], strategy: str) -> None:
    toggle, up, down = st.columns([8, 1, 1], gap="small", vertical_alignment="center")
    name = name_of(key)
    if name == LAYOUT:
        toggle.markdown("*layout is left as it is*" if strategy == _NONE else f"*layout: {markdown_escaped(strategy)}*")
    elif name == OPEN:
        toggle.markdown("*repeated from here*")
    else:
        cls = Repeat if name == CLOSE else library.find_pass(name)
        if f"on_{key}" not in st.session_state:
            st.session_state[f"on_{key}"] = True
        about = markdown_escaped(cls.summary())
        toggle.checkbox(cls.title, key=f"on_{key}", help=about, persist_state="session")
    last = index == len(order) - 1
    _mover(up, f"up_{key}", ":material/arrow_upward:", "Earlier", index == 0, (order, index, index - 1))
    _mover(down, f"down_{key}", ":material/arrow_downward:", "Later", last, (order, index, index + 1))


def _mover(place: Any, key: str, icon: str, words: str, disabled: bool, swap: tuple[list[str], int, int]) -> None:
    place.button("", icon=icon, key=key, help=words, type="tertiary", disabled=disabled, on_click=_swap, args=swap)


def _swap(order: list[str], a: int, b: int) -> None:
    order[a], order[b] = order[b], order[a]


def _options(cls: type[Pass], key: str) -> dict[str, Any]:
    """A field for each option of the pass in the row of that key."""
    if not cls.option_fields():  # most passes; reading the types is the slowest part of this function
        return {}
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for option, field in cls.option_fields().items():
        name, default = f"{key}.{option}", field.default
        words: Any = {
            "help": markdown_escaped(field.metadata.get("help", "")),
            "key": f"option_{name}",
            "persist_state": "session",
        }
        choices = field.metadata.get("choices")
        if hints[field.name] is bool:
            values[option] = st.checkbox(name, value=bool(default), **words)
        elif choices:
            values[option] = st.selectbox(name, choices, index=choices.index(default), **words)
        elif hints[field.name] in (int, float):
            least: Any = field.metadata.get("least")
            values[option] = st.number_input(name, value=cast(Any, default), min_value=least, **words)
        else:
            values[option] = st.text_input(name, value=str(default), **words)
    return values
