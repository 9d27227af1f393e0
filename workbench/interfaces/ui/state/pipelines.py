"""The pipelines on Lockstep. A pipeline has a key, such as "layout:greedy", that stands in the URL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import streamlit as st

from workbench.errors import UserError
from workbench.interfaces.ui.state.pass_groups import offered_strategies
from workbench.interfaces.ui.state.session import Opened, Spec
from workbench.pipeline.pipeline import LAYOUT, LayoutSlot, Part, Pipeline
from workbench.pipeline.registry.pass_choice import choose
from workbench.pipeline.registry.pass_registry import library
from workbench.pipeline.registry.reading import layout_strategy, preset, shortest_text
from workbench.planning.layout.profile import Profile
from workbench.planning.layout.strategies.layout_strategy import LayoutStrategy
from workbench.rewrite import Pass
from workbench.rewrite.core.identity import RENAMED_STRATEGIES

OPTIMIZE = "optimize"
_LAYOUT, _PRESET, _PASSES = "layout:", "preset:", "passes:"
_NONE = "none"
_STORED = "kept_pipelines"
_TITLE_NAMES = 3  # passes named in the title of a kept pipeline


def offered_pipelines(opened: Opened, extra: Sequence[str] = ()) -> list[str]:
    """The keys of the pipelines to choose from: Optimize's, with each layout strategy, presets, kept ones, `extra`."""
    current = [] if opened.spec is None else [OPTIMIZE]
    strategies = [f"{_LAYOUT}{name}" for name in (*offered_strategies(), _NONE)]
    presets = [f"{_PRESET}{name}" for name in library.presets() if "alias" not in library.presets()[name]]
    stored = st.session_state.get(_STORED, [])
    return list(dict.fromkeys([*current, *strategies, *presets, *stored, *(key for key in extra if _is_known(key))]))


def title_of(key: str) -> str:
    """The pipeline's title in lists."""
    if key == OPTIMIZE:
        return "pipeline of Optimize"
    if key == f"{_LAYOUT}{_NONE}":
        return "no layout strategy"
    if key.startswith(_PASSES):
        names = _stored_pipeline(key).names
        suffix = f" and {len(names) - _TITLE_NAMES} more" if len(names) > _TITLE_NAMES else ""
        return f"kept: {', '.join(names[-_TITLE_NAMES:]) or 'no pass'}{suffix}"
    return key.replace(":", ": ", 1)


def keep_pipeline(spec: Spec) -> str:
    """Keep the pipeline in this session, so that it can be chosen later; returns its key."""
    key = f"{_PASSES}{shortest_text(spec.pipeline)}"
    stored = st.session_state.setdefault(_STORED, [])
    if key not in stored:
        stored.append(key)
    return key


def spec_of(opened: Opened, key: str, profile: Profile) -> Spec:
    """The pipeline of that key for a target profile. Raises UserError for an unknown pass or option."""
    base = opened.spec or Spec(preset("normalize").with_layout(None), profile)
    base = replace(base, profile=profile, excluded=())
    kind, _, name = key.partition(":")
    if key == OPTIMIZE:
        return base
    if f"{kind}:" == _LAYOUT:
        return replace(base, pipeline=_with_strategy(base.pipeline, None if name == _NONE else name))
    if f"{kind}:" == _PRESET:
        return replace(base, pipeline=preset(name).with_layout(None))
    return replace(base, pipeline=_stored_pipeline(key))


def _with_strategy(base: Pipeline, strategy: str | None) -> Pipeline:
    """The pipeline with this layout strategy, at the position of its own or else of the preset `normalize`."""
    strategy_pass = None if strategy is None else layout_strategy(strategy)
    slots = base.mapped(lambda part: (LayoutSlot(),) if isinstance(part, LayoutStrategy) else (part,))
    if slots != base:
        return slots.with_layout(_with_options_of(strategy_pass, base))
    if strategy_pass is None:
        return base
    names = preset("normalize").names
    after = names[names.index(LAYOUT) + 1 :]
    is_inserted = False

    def inserted(part: Part) -> Iterable[Part]:
        nonlocal is_inserted
        if is_inserted or not (isinstance(part, Pass) and part.name in after):
            return (part,)
        is_inserted = True
        return (strategy_pass, part)

    return base.mapped(inserted).with_layout(strategy_pass)


def _with_options_of(strategy: LayoutStrategy | None, base: Pipeline) -> LayoutStrategy | None:
    """The strategy with the options that it has in the base, if it is part of the base."""
    return next((one for one in base.passes if strategy is not None and type(one) is type(strategy)), strategy)


def _stored_pipeline(key: str) -> Pipeline:
    """The pipeline of a kept pipeline's key: its text; older links append ";pass.option=value"."""
    text = key.removeprefix(_PASSES)
    if '"' in text:  # newer links, in which a quoted text may contain a semicolon
        return choose(text)
    text, *options = text.split(";")
    pairs = (option.partition("=") for option in options)
    return choose(text, options={option: value for option, _, value in pairs})


def _is_known(key: str) -> bool:
    """Whether a key, which may come from a link, is that of a pipeline that exists here."""
    kind, _, name = key.partition(":")
    if f"{kind}:" == _LAYOUT:
        return name == _NONE or RENAMED_STRATEGIES.get(name, name) in library.strategies()
    if f"{kind}:" == _PRESET:
        return name in library.presets()
    if f"{kind}:" != _PASSES:
        return False
    try:
        _stored_pipeline(key)
    except UserError:
        return False
    return True
