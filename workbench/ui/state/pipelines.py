"""The pipelines that a user may set beside each other, each by a word that the page's address can hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import streamlit as st

from workbench.errors import UserError
from workbench.layout.profile import Profile
from workbench.layout.strategies.layout_strategy import LayoutStrategy
from workbench.pipeline.pipeline import LAYOUT, LayoutSlot, Part, Pipeline
from workbench.registry.pass_choice import choose
from workbench.registry.pass_registry import library
from workbench.registry.reading import layout_strategy, preset, shortest_text
from workbench.rewrite import Pass
from workbench.ui.state.session import Opened, Spec

OPTIMIZE = "optimize"
_LAYOUT, _PRESET, _PASSES = "layout:", "preset:", "passes:"
_NONE = "none"
_KEPT = "kept_pipelines"
_SHORT = 3  # names of passes in the title of a kept pipeline


def offered_pipelines(opened: Opened, also: Sequence[str] = ()) -> list[str]:
    """The pipelines on offer: Optimize's, the same with each layout strategy, presets, kept ones, and `also`."""
    own = [] if opened.spec is None else [OPTIMIZE]
    strategies = [f"{_LAYOUT}{name}" for name in (*library.strategies(), _NONE)]
    presets = [f"{_PRESET}{name}" for name in library.presets() if "alias" not in library.presets()[name]]
    kept = st.session_state.get(_KEPT, [])
    return list(dict.fromkeys([*own, *strategies, *presets, *kept, *(word for word in also if _is_known(word))]))


def title_of(word: str) -> str:
    """The pipeline in words, for a list on the page."""
    if word == OPTIMIZE:
        return "as on Optimize"
    if word == f"{_LAYOUT}{_NONE}":
        return "no layout strategy"
    if word.startswith(_PASSES):
        names = _kept(word).names
        more = f" and {len(names) - _SHORT} more" if len(names) > _SHORT else ""
        return f"kept: {', '.join(names[-_SHORT:]) or 'no pass'}{more}"
    return word.replace(":", ": ", 1)


def keep_pipeline(spec: Spec) -> str:
    """Keep the pipeline in this session, to be set beside others later; returns its word."""
    word = f"{_PASSES}{shortest_text(spec.pipeline)}"
    kept = st.session_state.setdefault(_KEPT, [])
    if word not in kept:
        kept.append(word)
    return word


def spec_of(opened: Opened, word: str, profile: Profile) -> Spec:
    """The pipeline of that word for a target profile. Raises UserError for a pass or option that does not exist."""
    base = opened.spec or Spec(preset("default").with_layout(None), profile)
    base = replace(base, profile=profile, left_out=())
    kind, _, name = word.partition(":")
    if word == OPTIMIZE:
        return base
    if f"{kind}:" == _LAYOUT:
        return replace(base, pipeline=_with_strategy(base.pipeline, None if name == _NONE else name))
    if f"{kind}:" == _PRESET:
        return replace(base, pipeline=preset(name).with_layout(None))
    return replace(base, pipeline=_kept(word))


def _with_strategy(base: Pipeline, strategy: str | None) -> Pipeline:
    """The base with the layout strategy in the place of its own, or where the default preset has one."""
    chosen = None if strategy is None else layout_strategy(strategy)
    slots = base.mapped(lambda part: (LayoutSlot(),) if isinstance(part, LayoutStrategy) else (part,))
    if slots != base:
        return slots.with_layout(_with_options_of(chosen, base))
    if chosen is None:
        return base
    names = preset("default").names
    after = names[names.index(LAYOUT) + 1 :]
    is_placed = False

    def placed(part: Part) -> Iterable[Part]:
        nonlocal is_placed
        if is_placed or not (isinstance(part, Pass) and part.name in after):
            return (part,)
        is_placed = True
        return (chosen, part)

    return base.mapped(placed).with_layout(chosen)


def _with_options_of(strategy: LayoutStrategy | None, base: Pipeline) -> LayoutStrategy | None:
    """The strategy with the options that the base gives it, if it runs there."""
    return next((one for one in base.passes if strategy is not None and type(one) is type(strategy)), strategy)


def _kept(word: str) -> Pipeline:
    """The pipeline of a kept word: its text, after which older links have ";pass.option=value"."""
    text = word.removeprefix(_PASSES)
    if '"' in text:  # no older link has quotes, in which a semicolon may stand
        return choose(text)
    text, *options = text.split(";")
    pairs = (option.partition("=") for option in options)
    return choose(text, options={key: value for key, _, value in pairs})


def _is_known(word: str) -> bool:
    """Whether a word, such as one of a link, names a pipeline that can be made here."""
    kind, _, name = word.partition(":")
    if f"{kind}:" == _LAYOUT:
        return name == _NONE or name in library.strategies()
    if f"{kind}:" == _PRESET:
        return name in library.presets()
    if f"{kind}:" != _PASSES:
        return False
    try:
        _kept(word)
    except UserError:
        return False
    return True
