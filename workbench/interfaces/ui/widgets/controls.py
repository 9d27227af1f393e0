"""The sidebar of Optimize: goal, target, layout, mode and verification; links and samples set them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from workbench.errors import UserError
from workbench.interfaces.ui.state.address import (
    LinkedPipeline,
    page_of_run,
    pipeline_in_address,
    verification_in_address,
    write_excluded,
    write_pipeline,
    write_verification,
)
from workbench.interfaces.ui.state.checking import EACH, END, HOW, OFF
from workbench.interfaces.ui.state.goals import FLOAT16_GOAL, GOALS, HARDWARE_GOAL, MAX_ERROR, goal_of
from workbench.interfaces.ui.state.markdown import markdown_escaped
from workbench.interfaces.ui.state.pass_groups import about_strategy, offered_strategies
from workbench.interfaces.ui.state.rows import pipeline_of, to_rows
from workbench.interfaces.ui.state.session import Opened, Spec, current, opened_if_any, refusal, refuse
from workbench.interfaces.ui.widgets.pass_list import (
    CHOSEN_PRESET,
    NO_STRATEGY,
    PASS_ORDER,
    PASS_ROUNDS,
    added_passes,
    chosen_options,
    chosen_preset,
    draw_option,
    found_passes,
    is_on,
    pass_list,
    pass_order,
    reset_passes,
    search_field,
    switch_on,
)
from workbench.interfaces.ui.widgets.profiles import about_profile, choose_profile, chosen_profile
from workbench.pipeline.pipeline import LAYOUT, Pipeline
from workbench.pipeline.registry.pass_choice import DEFAULT_PRESET, as_pipeline, choose, with_pass_options
from workbench.pipeline.registry.pass_registry import library
from workbench.pipeline.registry.reading import LEGACY_REPEAT, layout_strategy, preset
from workbench.planning.layout.profile import machine_target, profiles
from workbench.rewrite import DEFAULT_MODE
from workbench.rewrite.core.identity import present_label
from workbench.rewrite.core.limits import GROW

_GOAL = "goal"
_MODES = {
    "exact": "Only rewrites whose results are equal to the last bit.",
    "ieee": "Rounding may differ, quantized numbers by one step; NaN, infinities and -0.0 are kept, except where an "
    "intermediate result overflows.",
    "fast": "Also rewrites that may change signed zeros, infinities or NaN, or lose digits.",
}
_VERIFICATION = {EACH: "each step", END: "only the end", OFF: "off"}
_VERIFY, _GROW, _KEEP = "verification", "grow", "keep"
_STARTED = "pipeline_of_link_taken"
_LINKED = "pipeline_wished"
_SETTINGS = (PASS_ORDER, CHOSEN_PRESET, "strategy", "mode", "target", _GROW, _KEEP)


@dataclass(frozen=True)
class Parts:
    """The pages to which Optimize leads.

    of_goals: by goal, with what the link says there. extract: also from what is selected. others: the rest.
    """

    fastest: Any = None
    of_goals: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    extract: Any = None
    others: Sequence[Any] = ()


NO_PARTS = Parts()


def controls(parts: Parts) -> Spec:
    """Draw the controls; returns their pipeline with its settings.

    Their values are read from the session, so that what is folded need not be drawn: 400 elements less in a new page.
    """
    _apply_link()
    with st.sidebar:
        goal = _goal_choice()
        of_goal = st.container()
        if parts.fastest is not None:
            st.page_link(parts.fastest, label="Fastest here: try pipelines", icon=":material/timer:")
        if goal is None:
            st.session_state.setdefault("advanced", True)
        advanced = st.expander("Advanced", key="advanced", on_change="rerun")
        words = ""
        if advanced.open:
            with advanced:
                words = search_field()
                if words:
                    found_passes(words)
        shows_all = advanced.open and not words
        if goal == HARDWARE_GOAL or shows_all:
            with of_goal if goal == HARDWARE_GOAL else advanced:
                select, edit = st.container(), st.container()
                profile = choose_profile(select, edit, lambda profile: profile.name)
                select.caption(about_profile(profile))
        if goal == FLOAT16_GOAL:
            with of_goal:
                draw_option(MAX_ERROR, "Largest relative error of an output")
        if shows_all:
            with advanced:
                _layout_choice()
                _mode()
                _limits()
                _verification_choice()
                pass_list(_strategy(), (MAX_ERROR,) if goal == FLOAT16_GOAL else ())
        others = [page for name, (page, _) in parts.of_goals.items() if name != goal]
        if goal is not None and goal in parts.of_goals:
            page, label = parts.of_goals[goal]
            of_goal.page_link(page, label=label)
        with st.container(horizontal=True, key="part_links"):
            for page in filter(None, (*others, parts.extract, *parts.others)):
                st.page_link(page)
    return _chosen_spec()


def _chosen_spec() -> Spec:
    """The pipeline of the controls with its settings."""
    strategy, order = _strategy(), pass_order()
    options = chosen_options(strategy)
    layout = None
    if strategy != NO_STRATEGY:
        layout = layout_strategy(strategy, options[library.find_strategy(strategy)().name])
    pipeline = pipeline_of(order, is_on, options, st.session_state.get(PASS_ROUNDS, {}), layout).with_layout(layout)
    names = st.session_state.get(_KEEP, "").splitlines()
    return Spec(
        pipeline,
        chosen_profile(),
        st.session_state.get("mode", DEFAULT_MODE),
        grow=float(st.session_state.get(_GROW, GROW)),
        keep=tuple(filter(None, map(str.strip, names))),
    )


def _strategy() -> str:
    """The chosen layout strategy, or NO_STRATEGY."""
    return str(st.session_state.get("strategy", NO_STRATEGY))


def _layout_choice() -> None:
    """Draw the choice of the layout strategy."""
    offered = offered_strategies((_strategy(),))
    st.radio(
        "Layout",
        [NO_STRATEGY, *offered],
        key="strategy",
        format_func=_strategy_label,
        captions=["", *map(about_strategy, offered.values())],
        persist_state="session",
        help="Decides which values are stored channels-last and where transposes go. Set its position below.",
    )


def _verification_choice() -> None:
    st.selectbox(
        "Verification",
        list(_VERIFICATION),
        key=_VERIFY,
        format_func=lambda how: _VERIFICATION[how],
        persist_state="session",
        help="Which steps are compared with ONNX Runtime on the original file. An exported model is always compared, "
        "unless verification is off.",
    )


def _goal_choice() -> str | None:
    """Draw the choice of a goal, which sets the controls below; returns it, or None if no goal has these settings."""
    page, strategy = page_of_run(), _strategy()
    added = added_passes()
    goal = None if added is None else goal_of(chosen_preset(), strategy, added)
    st.session_state[_GOAL] = goal

    def choose() -> None:
        if st.session_state[_GOAL] == goal or page_of_run() != page:
            return  # Streamlit calls this for another page too, with what was shown before that page was asked for
        chosen = GOALS[st.session_state[_GOAL]]
        st.session_state[CHOSEN_PRESET], st.session_state["strategy"] = chosen.preset, chosen.strategy
        now = profiles()[0].get(st.session_state.get("target") or machine_target())
        if chosen.target and now is not None and now.layout == "NCHW":
            st.session_state["target"] = chosen.target
        reset_passes()
        for name in chosen.added:
            switch_on(name)
        for option, value in chosen.options.items():
            st.session_state[f"option_{option}"] = value

    st.radio(
        "What do you want?",
        list(GOALS),
        key=_GOAL,
        index=None,
        format_func=lambda name: GOALS[name].title,
        on_change=choose,
        help=markdown_escaped(" ".join(f"{goal.title}: {goal.about}" for goal in GOALS.values())),
    )
    if goal is not None:
        st.caption(GOALS[goal].about)
    return goal


def _mode() -> None:
    about_modes = " ".join(f"{name}: {about}" for name, about in _MODES.items())
    st.selectbox("Exactness", list(_MODES), 1, key="mode", persist_state="session", help=markdown_escaped(about_modes))


def _limits() -> None:
    """Draw what rules must not do: how many times larger the file may become, and the names that stay."""
    st.number_input(
        "The file may grow by the factor",
        1.0,
        value=GROW,
        key=_GROW,
        format="%g",
        persist_state="session",
        help="A rewrite whose constants would make the file larger is refused; options named force overrule it.",
    )
    st.text_area(
        "Nodes and weights to keep",
        key=_KEEP,
        height=68,
        persist_state="session",
        help="One name a line: nodes that no rule removes, and weights that nodes keep reading.",
    )


def chosen_verification() -> str:
    """Which steps are compared with the original: one of HOW."""
    result: str = st.session_state.get(_VERIFY, EACH)
    return result


def linked_spec(opened: Opened) -> Spec | None:
    """The pipeline of the link with its settings, to which the controls are set.

    None without one, and after it was taken: from then on the address follows the page.
    """
    linked = pipeline_in_address()
    if linked is None or (opened.history is not None and st.session_state.get(_STARTED)):
        return None
    _apply_link()
    known, _ = profiles()
    profile = known[linked.target if linked.target in known else machine_target()]
    return Spec(_linked_pipeline(linked), profile, _mode_of(linked), opened.excluded, linked.grow, linked.keep)


def write_settings(opened: Opened, spec: Spec) -> None:
    """Write the pipeline with its settings to the URL."""
    write_pipeline(spec.pipeline, spec.target, spec.mode, chosen_preset(), spec.grow, spec.keep)
    write_verification(chosen_verification(), EACH)
    write_excluded(opened.excluded)


def begin_from_link() -> None:
    """Let the controls be set from the link, as in a new session, when they are drawn next."""
    st.session_state.pop(_STARTED, None)


def begin_from(linked: LinkedPipeline) -> None:
    """Let the controls be set to that pipeline when they are drawn next."""
    st.session_state[_LINKED] = linked


def _is_as_opened(opened: Opened) -> bool:
    """Whether the pipeline is still the one with which a sample or lesson opened the model."""
    shows, spec = opened.opened_with, opened.spec
    if spec is None or shows is None:
        return False
    names = choose(list(shows.passes)).names
    settings = names, shows.target or machine_target(), shows.mode or DEFAULT_MODE
    return (spec.pipeline.names, spec.target, spec.mode) == settings


def forget_samples_settings() -> None:
    """Reset the controls if a sample has set them and the user has not changed them."""
    opened = opened_if_any()
    if opened is None or not _is_as_opened(opened):
        return
    for key in [k for k in st.session_state if k in _SETTINGS or str(k).startswith(("on_", "option_"))]:
        del st.session_state[key]
    st.session_state[_STARTED] = True


def _apply_link() -> None:
    """Set the controls to the pipeline of `begin_from`, or in a new session of the link; reports unknown names."""
    if not st.session_state.get(_STARTED) and verification_in_address() in HOW:
        st.session_state[_VERIFY] = verification_in_address()
    linked = st.session_state.pop(_LINKED, None)
    if linked is None and not st.session_state.get(_STARTED):
        linked = pipeline_in_address() or _restored_pipeline()
    st.session_state[_STARTED] = True
    if linked is None:
        return
    _report_unknown(linked)
    if linked.preset in library.presets():
        st.session_state[CHOSEN_PRESET] = library.presets()[linked.preset].get("alias", linked.preset)
    rows = to_rows(_linked_pipeline(linked))
    st.session_state["strategy"] = NO_STRATEGY if rows.strategy is None else rows.strategy.strategy
    st.session_state[PASS_ORDER] = _with_missing(rows.keys, pass_order())
    st.session_state[PASS_ROUNDS] = rows.rounds
    for key in st.session_state[PASS_ORDER]:
        st.session_state[f"on_{key}"] = key in rows.keys
    st.session_state["target"] = linked.target
    st.session_state["mode"] = _mode_of(linked)
    st.session_state[_GROW], st.session_state[_KEEP] = linked.grow, "\n".join(linked.keep)
    options_by_key = dict(rows.options)
    if rows.strategy is not None:
        options_by_key[rows.strategy.name] = rows.strategy.options()
    for key, options in options_by_key.items():
        for name, value in options.items():
            st.session_state[f"option_{key}.{name}"] = value
    if refusal():
        st.rerun()  # so that the page says it at its top, where it stays


def _mode_of(linked: LinkedPipeline) -> str:
    return linked.mode if linked.mode in _MODES else DEFAULT_MODE


def _report_unknown(linked: LinkedPipeline) -> None:
    """Say which passes and which target of the link do not exist here."""
    names = list(filter(None, (name.strip() for name in linked.pipeline.split(","))))
    unknown = [name for name in names if not _is_known(name)] if all(map(str.isidentifier, names)) else []
    missing = [f"pass '{name}'" for name in unknown]
    if linked.target and linked.target not in profiles()[0]:
        missing.append(f"target '{linked.target}'")
    if missing:
        what = " and the ".join(missing)
        refuse(f"The link names the {what}, which this workbench does not have; the rest is shown.")


def _is_known(name: str) -> bool:
    return present_label(name) in library.all_names() or name in library.presets() or name in (LEGACY_REPEAT, LAYOUT)


def _linked_pipeline(linked: LinkedPipeline) -> Pipeline:
    """The pipeline of the link; unknown names in a plain list of names are left out."""
    names = [name.strip() for name in linked.pipeline.split(",")]
    known = list(filter(_is_known, names))
    text = ",".join(known) if all(map(str.isidentifier, filter(None, names))) else linked.pipeline
    options = dict(pair.partition("=")[::2] for pair in linked.options)
    try:
        pipeline = as_pipeline(text)
        active = {pass_.name for pass_ in pipeline.passes}
        return with_pass_options(pipeline, {k: v for k, v in options.items() if k.partition(".")[0] in active})
    except UserError as error:
        refuse(f"The pipeline of the link is not set: {error}")
        return preset(chosen_preset())


def _restored_pipeline() -> LinkedPipeline | None:
    """The pipeline of the model that was restored after a reload; None without one."""
    spec = current().spec
    if spec is None:
        return None
    return LinkedPipeline(str(spec.pipeline), (), spec.target, spec.mode, DEFAULT_PRESET, spec.grow, spec.keep)


def _with_missing(order: list[str], known_names: list[str]) -> list[str]:
    """`order` with the missing names of `known_names`, each inserted after its predecessor there."""
    result = list(order)
    for before, name in itertools.pairwise(["", *known_names]):
        if name not in result:
            result.insert(result.index(before) + 1 if before else 0, name)
    return result


def _strategy_label(name: str) -> str:
    if name == NO_STRATEGY:
        return "leave as it is"
    return f"{name} (demonstration)" if library.strategies()[name].demonstration else name
