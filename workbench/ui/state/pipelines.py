"""The pipelines that a user may set beside each other, each by a word that the page's address can hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from workbench.errors import UserError
from workbench.layout.profile import Profile
from workbench.library import library
from workbench.rewrite import Pass, with_options
from workbench.ui.state.session import Opened, Spec

OPTIMIZE = "optimize"
_LAYOUT, _PRESET, _PASSES = "layout:", "preset:", "passes:"
_NONE = "none"
_KEPT = "kept_pipelines"
_SHORT = 3  # names of passes in the title of a kept pipeline

_Passes = tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]  # as in `Spec`


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
        names = [name for name in _split(word)[0] if name]
        more = f" and {len(names) - _SHORT} more" if len(names) > _SHORT else ""
        return f"kept: {', '.join(names[-_SHORT:]) or 'no pass'}{more}"
    return word.replace(":", ": ", 1)


def keep_pipeline(spec: Spec) -> str:
    """Keep the pipeline in this session, to be set beside others later; returns its word."""
    defaults = {name: library.find_pass(name)().options() for name, _ in spec.passes}
    names = ",".join(name for name, _ in spec.passes)
    changed = [f"{n}.{key}={v}" for n, options in spec.passes for key, v in options if defaults[n][key] != v]
    word = ";".join([f"{_PASSES}{names}", *changed])
    kept = st.session_state.setdefault(_KEPT, [])
    if word not in kept:
        kept.append(word)
    return word


def spec_of(opened: Opened, word: str, profile: Profile) -> Spec:
    """The pipeline of that word for a target profile. Raises UserError for a pass or option that does not exist."""
    base = opened.spec or Spec(_with_defaults(library.chosen(None, "default", None)), profile)
    base = replace(base, profile=profile, left_out=())
    kind, _, name = word.partition(":")
    if word == OPTIMIZE:
        return base
    if f"{kind}:" == _LAYOUT:
        return replace(base, passes=_with_strategy(base, None if name == _NONE else name))
    if f"{kind}:" == _PRESET:
        return replace(base, passes=_with_defaults(library.chosen(None, name, None)))
    names, options = _split(word)
    return replace(base, passes=_with_options(names, options))


def _with_strategy(base: Spec, strategy: str | None) -> _Passes:
    """The passes of the base, the layout strategy in the place of its own, or where the default preset has one."""
    options = dict(base.passes)
    layouts = {cls().name for cls in library.strategies().values()}
    names = [library.PLACE_OF_LAYOUT if name in layouts else name for name in options]
    if library.PLACE_OF_LAYOUT not in names:
        preset = library.presets()["default"]["passes"]
        behind = preset[preset.index(library.PLACE_OF_LAYOUT) + 1 :]
        place = next((index for index, name in enumerate(names) if name in behind), len(names))
        names.insert(place, library.PLACE_OF_LAYOUT)
    chosen = library.chosen(names, "default", strategy)
    return tuple((name, options.get(name, own)) for name, own in _with_defaults(chosen))


def _with_defaults(names: Sequence[str]) -> _Passes:
    return tuple((name, _sorted(library.find_pass(name)())) for name in names)


def _with_options(names: Sequence[str], options: Sequence[str]) -> _Passes:
    given: dict[str, dict[str, str]] = {}
    for pair in options:
        key, _, value = pair.partition("=")
        name, _, option = key.partition(".")
        given.setdefault(name, {})[option] = value
    return tuple((name, _sorted(with_options(library.find_pass(name), given.get(name, {})))) for name in names)


def _sorted(pass_: Pass) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(pass_.options().items()))


def _split(word: str) -> tuple[list[str], list[str]]:
    """The names of the passes and "pass.option=value" of a kept pipeline."""
    passes, *options = word.removeprefix(_PASSES).split(";")
    return [name for name in passes.split(",") if name], options


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
        _with_options(*_split(word))
    except UserError:
        return False
    return True
