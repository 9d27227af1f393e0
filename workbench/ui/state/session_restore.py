"""The open models of ended sessions: after a reload the same browser finds its model, results and jobs again."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

import streamlit as st
from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from workbench.ui.server.browsers import COOKIE

_ENDS_WITHIN_S, _LOOK_S = 1.0, 0.05
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
    """What an ended session of this browser had open under that key, None if there is none.

    On a busy machine the server may hear of a reload's new session before it hears that the old one has ended. Where
    the only such session seems to go on, as one of another tab does, it is therefore given a moment to end.
    """
    here = _here()
    if here is None:
        return None
    until = time.monotonic() + _ENDS_WITHIN_S
    while True:
        results = [held for held in _held() if held.browser == here[0] and held.key == key]
        ended = [held for held in results if not _is_active(held)]
        if ended:
            return ended[-1].opened if _take(ended[-1]) else None
        if not results or time.monotonic() > until:
            return None
        time.sleep(_LOOK_S)


def _held() -> list[_Held]:
    sessions = _sessions()
    with sessions.guard:
        return list(sessions.held)


def _take(held: _Held) -> bool:
    """Whether it was still there, and no other session took it."""
    sessions = _sessions()
    with sessions.guard:
        if held not in sessions.held:
            return False
        sessions.held.remove(held)
        return True


def _here() -> tuple[str, str] | None:
    """The names of the browser and of the session; None in a test without a browser, or if it has no name."""
    context = get_script_run_ctx()
    if context is None or type(runtime.get_instance()) is not runtime.Runtime:
        return None
    browser = st.context.cookies.get(COOKIE)
    return None if browser is None else (browser, context.session_id)


def _is_active(held: _Held) -> bool:
    return runtime.get_instance().is_active_session(held.session)
