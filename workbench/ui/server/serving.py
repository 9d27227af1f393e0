"""Startup and shutdown of the server, which Streamlit leaves to an ASGI app."""

from __future__ import annotations

import gc
import signal
import threading
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from streamlit import config
from streamlit.web.server.server_util import get_display_address, get_url


@asynccontextmanager
async def serving(_: Any) -> AsyncIterator[None]:
    """Open the page in a browser unless the server is headless; make SIGTERM end the app as Ctrl-C does.

    uvicorn, once stopped, raises the signal that stopped it again: SIGTERM
    would end Python before its temporary folders are removed.

    Streamlit collects garbage after each click. What is loaded by now stays to
    the end, so collections leave it out; no script of a page runs yet.
    """
    gc.collect()
    gc.freeze()
    stop = signal.getsignal(signal.SIGTERM)
    if callable(stop):
        signal.signal(signal.SIGTERM, lambda _, frame: stop(signal.SIGINT, frame))
    if not config.get_option("server.headless"):
        named = config.get_option("browser.serverAddress") if config.is_manually_set("browser.serverAddress") else None
        address = named or get_display_address(config.get_option("server.address") or "localhost")
        threading.Thread(target=webbrowser.open, args=(get_url(address),), daemon=True).start()  # some browsers block
    yield
