"""The open models of ended sessions: after a reload, the same browser gets its model, results and jobs back."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any

import streamlit as st
from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from workbench.interfaces.ui.server.browsers import COOKIE
from workbench.interfaces.ui.state.address import LinkKey

_ENDS_WITHIN_S, _POLL_S = 1.0, 0.05
ABANDONED_S = 120.0  # without a tab; so long Streamlit keeps a session for a browser that lost the connection
_MAX_ENDED = 4  # kept models of ended sessions; older ones are dropped


@dataclass
class _SessionModel:
    """The open model of a session. key: what identifies it in a link, as it is now."""

    browser: str
    session: str
    key: Callable[[], LinkKey]
    opened: Any


class _Sessions:
    """The open models of all sessions of this server, the latest last."""

    def __init__(self) -> None:
        self.models: list[_SessionModel] = []
        self.lock = Lock()


@st.cache_resource
def _sessions() -> _Sessions:
    return _Sessions()


def remember(key: Callable[[], LinkKey], opened: Any) -> list[Any]:
    """Store the open model of this session; returns the models that are dropped, whose jobs may be stopped."""
    identity = _browser_and_session()
    if identity is None:
        return []
    sessions = _sessions()
    with sessions.lock:
        sessions.models = [model for model in sessions.models if model.session != identity[1]]
        ended = [model for model in sessions.models if not _is_active(model)]
        dropped = ended[:-_MAX_ENDED]
        sessions.models = [model for model in sessions.models if model not in dropped]
        sessions.models.append(_SessionModel(*identity, key, opened))
    return [model.opened for model in dropped]


def abandonment(opened: Any) -> Callable[[], bool]:
    """A function for any thread: whether no open tab has had the model for ABANDONED_S.

    Never of a model that no browser has, as in a test.
    """
    sessions, last_shown = _sessions(), time.monotonic()
    asked = weakref.ref(opened)  # which holds this function, and is freed once nothing else holds it

    def is_abandoned() -> bool:
        nonlocal last_shown
        with sessions.lock:
            models = [model for model in sessions.models if model.opened is asked()]
        if not models or any(map(_is_active, models)):
            last_shown = time.monotonic()
        return time.monotonic() - last_shown > ABANDONED_S

    return is_abandoned


def restored(key: LinkKey) -> Any | None:
    """The model with that key of an ended session of this browser; None without one.

    On a busy machine, a reload's new session may start before the old one is seen to end. If the only such session
    still seems active, as that of another tab is, this waits a moment for it to end.
    """
    identity = _browser_and_session()
    if identity is None:
        return None
    until = time.monotonic() + _ENDS_WITHIN_S
    while True:
        results = [model for model in _all_models() if model.browser == identity[0] and model.key() == key]
        ended = [model for model in results if not _is_active(model)]
        if ended:
            return ended[-1].opened if _remove(ended[-1]) else None
        if not results or time.monotonic() > until:
            return None
        time.sleep(_POLL_S)


def _all_models() -> list[_SessionModel]:
    sessions = _sessions()
    with sessions.lock:
        return list(sessions.models)


def _remove(model: _SessionModel) -> bool:
    """Remove the model; returns whether it was still there, so that no other session has taken it."""
    sessions = _sessions()
    with sessions.lock:
        if model not in sessions.models:
            return False
        sessions.models.remove(model)
        return True


def _browser_and_session() -> tuple[str, str] | None:
    """The names of the browser and of the session; None in a test without a browser, or without the cookie."""
    context = get_script_run_ctx()
    if context is None or type(runtime.get_instance()) is not runtime.Runtime:
        return None
    browser = st.context.cookies.get(COOKIE)
    return None if browser is None else (browser, context.session_id)


def _is_active(model: _SessionModel) -> bool:
    return runtime.get_instance().is_active_session(model.session)
