"""The open models of ended sessions: after a reload the same browser finds its model, results and jobs again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

import streamlit as st
from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from workbench.ui.browsers import COOKIE

_MOST_ENDED = 4  # open models of ended sessions that are kept; older ones are dropped


@dataclass
class _Held:
    """What a session of a browser has open. key: what a link must name to mean the same."""

    browser: str
    session: str
    key: tuple[Any, ...]
    opened: Any


class _Sessions:
    """The open models of all sessions of this server, the latest last."""

    def __init__(self) -> None:
        self.held: list[_Held] = []
        self.guard = Lock()


@st.cache_resource
def _sessions() -> _Sessions:
    return _Sessions()


def key_of(path: str, dims: Mapping[str, int]) -> tuple[Any, ...]:
    """What identifies an open model in a link: its name there and the sizes that the user bound."""
    return path, tuple(sorted(dims.items()))


def remember(key: tuple[Any, ...], opened: Any) -> list[Any]:
    """Note what this session has open; returns the open models that are dropped, whose jobs may stop."""
    here = _here()
    if here is None:
        return []
    sessions = _sessions()
    with sessions.guard:
        sessions.held = [held for held in sessions.held if held.session != here[1]]
        ended = [held for held in sessions.held if not _is_active(held)]
        dropped = ended[:-_MOST_ENDED]
        sessions.held = [held for held in sessions.held if held not in dropped]
        sessions.held.append(_Held(*here, key, opened))
    return [held.opened for held in dropped]


def found_again(key: tuple[Any, ...]) -> Any | None:
    """What an ended session of this browser had open under that key, None if there is none."""
    here = _here()
    if here is None:
        return None
    sessions = _sessions()
    with sessions.guard:
        for held in reversed(sessions.held):
            if held.browser == here[0] and held.key == key and not _is_active(held):
                sessions.held.remove(held)
                return held.opened
    return None


def _here() -> tuple[str, str] | None:
    """The names of the browser and of the session; None in a test without a browser, or if it has no name."""
    context = get_script_run_ctx()
    if context is None or type(runtime.get_instance()) is not runtime.Runtime:
        return None
    browser = st.context.cookies.get(COOKIE)
    return None if browser is None else (browser, context.session_id)


def _is_active(held: _Held) -> bool:
    return runtime.get_instance().is_active_session(held.session)
