"""Startup and shutdown of the server, which Streamlit leaves to its ASGI app."""

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
async def lifespan(_: Any) -> AsyncIterator[None]:
    """Print the address, and open the page in a browser unless headless; make SIGTERM end the app as Ctrl-C does.

    After shutdown, uvicorn re-raises the signal that stopped it. SIGTERM would end Python before its temporary folders
    are removed.

    Streamlit collects garbage after each click. Modules loaded before the first page stay loaded, so they are excluded
    from collections.
    """
    gc.collect()
    gc.freeze()
    stop = signal.getsignal(signal.SIGTERM)
    if callable(stop):
        signal.signal(signal.SIGTERM, lambda _, frame: stop(signal.SIGINT, frame))
    is_configured = config.is_manually_set("browser.serverAddress")
    configured_address = config.get_option("browser.serverAddress") if is_configured else None
    url = get_url(configured_address or get_display_address(config.get_option("server.address") or "localhost"))
    print(f"The app is at {url}; Ctrl-C ends it.", flush=True)
    if not config.get_option("server.headless"):
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()  # some browsers block
    yield
