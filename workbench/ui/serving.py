"""The server's beginning and end, where Streamlit leaves them to the app that it serves."""

from __future__ import annotations

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
    """Opens the page in a browser, where there is a screen; stopped by SIGTERM, ends as after Ctrl-C.

    uvicorn, when it has stopped, raises the signal that stopped it once more:
    SIGTERM would end Python before it removes the folders it has made.
    """
    stop = signal.getsignal(signal.SIGTERM)
    if callable(stop):
        signal.signal(signal.SIGTERM, lambda _, frame: stop(signal.SIGINT, frame))
    if not config.get_option("server.headless"):
        named = config.get_option("browser.serverAddress") if config.is_manually_set("browser.serverAddress") else None
        address = named or get_display_address(config.get_option("server.address") or "localhost")
        threading.Thread(target=webbrowser.open, args=(get_url(address),), daemon=True).start()  # some wait for it
    yield
